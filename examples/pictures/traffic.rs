//! Synthetic traffic: the times of requests, in microseconds from the beginning of a picture.

use std::iter;

use fastrand::Rng;
use limiter::Micros;

pub const SECOND: Micros = 1_000_000;

/// `count` evenly spaced requests from one time up to another, in milliseconds.
fn even(count: u64, from: u64, to: u64) -> impl Iterator<Item = Micros> {
    (0..count).map(move |i| (from + (to - from) * i / count) * 1_000)
}

/// A burst just before the tenth second, where a window of ten seconds starts, and one just after.
fn around_ten() -> impl Iterator<Item = Micros> {
    even(12, 8_000, 9_500).chain(even(12, 10_500, 12_000))
}

/// Two bursts, and then two requests a second.
pub fn bursty() -> Vec<Micros> {
    around_ten().chain(even(20, 15_000, 25_000)).collect()
}

/// Two bursts with the start of a window between them.
pub fn around_a_boundary() -> Vec<Micros> {
    around_ten().collect()
}

/// Three bursts: one that fits a bucket of eight, one that does not, and one that finds it half full.
pub fn three_bursts() -> Vec<Micros> {
    even(5, 1_000, 2_000).chain(even(14, 8_000, 10_800)).chain(even(6, 15_000, 16_200)).collect()
}

/// The worst case for the counter: the limit at the very end of a window, and then more than it admits.
pub fn unlucky(limit: u64, window: Micros) -> Vec<Micros> {
    let at_the_end = (window - limit)..window;
    at_the_end.chain(even(20 * limit, window / 1_000, 3 * window / 1_000)).collect()
}

/// Independent single requests, at this interval on average.
pub fn steady(rng: &mut Rng, apart: Micros) -> impl Iterator<Item = Micros> + use<'_> {
    iter::repeat_with(move || random_gap(rng, apart)).scan(0, |now, gap| {
        *now += gap;
        Some(*now)
    })
}

/// `count` requests at this interval on average, in bursts of 1 to 59, a tenth of a second apart.
pub fn random_bursts(rng: &mut Rng, apart: Micros, count: usize) -> Vec<Micros> {
    let mut requests = Vec::new();
    let mut start = 0;
    while requests.len() < count {
        start += random_gap(rng, 30 * apart);
        let size = rng.u8(1..60);
        requests.extend(steady(rng, SECOND / 10).take(size.into()).map(|later| start + later));
    }
    requests.sort_unstable();
    requests.truncate(count);
    requests
}

/// An exponentially distributed time, by comparisons of random numbers, as logarithms differ between machines. (Von
/// Neumann's method: a run of falling numbers that begins with x has an odd length with the probability e^-x.)
fn random_gap(rng: &mut Rng, mean: Micros) -> Micros {
    let mut whole = 0;
    loop {
        let first = rng.u32(..);
        let (mut last, mut is_odd) = (first, true);
        loop {
            let next = rng.u32(..);
            if next >= last {
                break;
            }
            (last, is_odd) = (next, !is_odd);
        }
        if is_odd {
            return mean * whole + ((mean * u64::from(first)) >> 32);
        }
        whole += 1;
    }
}
