//! Strategies for sequences of requests.

use limiter::{Algorithm, Micros, Mode, Quota, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A time in 2026, not at a window's boundary.
pub const START: Micros = 1_790_000_000_123_457;

#[derive(Debug, Clone)]
pub struct Step {
    pub quota: Quota,
    pub cost: u64,
    pub force: bool,
    /// The step of the clock before the request, negative if it goes back.
    pub passes: i64,
}

impl Step {
    /// The step's request at a time.
    pub fn request(&self, now: Micros) -> Request {
        Request { cost: self.cost, mode: mode(self.force), now }
    }
}

pub fn mode(force: bool) -> Mode {
    if force {
        Mode::Force
    } else {
        Mode::Enforce
    }
}

pub fn quotas(algorithm: Algorithm) -> impl Strategy<Value = Quota> {
    let rates = select(vec!["0.6", "3/5s", "1", "10", "7/3s", "1000", "100/m", "0.333", "1/ms", "13/h"]);
    let windows = select(vec!["1ms", "7ms", "1", "0.5", "10", "1m", "1h", "333333us"]);
    (1..30_u64, rates, windows).prop_map(move |(limit, rate, window)| {
        let b = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => rate,
            Algorithm::FixedWindow | Algorithm::SlidingLog | Algorithm::SlidingCounter => window,
        };
        Quota::parse(algorithm, limit.to_string().as_bytes(), b.as_bytes()).expect("a valid quota")
    })
}

pub fn algorithms() -> impl Strategy<Value = Algorithm> {
    select(Algorithm::ALL.to_vec())
}

pub fn costs() -> impl Strategy<Value = u64> {
    prop_oneof![8 => Just(1_u64), 3 => 1..10_u64, 1 => 1..70_u64]
}

pub fn waits() -> impl Strategy<Value = i64> {
    // From `START` to a whole second, and from there to boundaries of windows.
    let boundaries = select(vec![876_543, 1_000, 500_000, 1_000_000, 9_000_000, 10_000_000]);
    prop_oneof![
        4 => 0..3_000_i64,
        4 => 0..500_000_i64,
        3 => 0..5_000_000_i64,
        2 => boundaries,
        1 => 0..7_200_000_000_i64,
        3 => Just(0),
    ]
}

pub fn jumps() -> impl Strategy<Value = i64> {
    prop_oneof![12 => waits(), 1 => -3_000_000..0_i64, 1 => -7_200_000_000..0_i64, 1 => -3..0_i64]
}

/// Requests to one key with one quota, on a clock that only goes forward.
pub fn steady() -> impl Strategy<Value = Vec<Step>> {
    let step = |quota| (costs(), waits()).prop_map(move |(cost, passes)| Step { quota, cost, force: false, passes });
    algorithms().prop_flat_map(quotas).prop_flat_map(move |quota| vec(step(quota), 1..60))
}

/// Requests with force, with changing quotas, on a clock that jumps.
pub fn wild(algorithm: impl Strategy<Value = Algorithm>) -> impl Strategy<Value = Vec<Step>> {
    let step = |quotas: Vec<Quota>| {
        (prop_oneof![6 => Just(0), 1 => 1..3_usize], costs(), prop::bool::weighted(0.15), jumps())
            .prop_map(move |(index, cost, force, passes)| Step { quota: quotas[index], cost, force, passes })
    };
    algorithm.prop_flat_map(|algorithm| vec(quotas(algorithm), 3)).prop_flat_map(move |quotas| vec(step(quotas), 1..40))
}

/// The time after a step of the clock.
pub fn moved(now: Micros, passes: i64) -> Micros {
    now.saturating_add_signed(passes)
}

/// Checks that admitted costs, in order of time, do not exceed the quota.
pub fn assert_within(quota: &Quota, admitted: &[(Micros, u64)]) {
    for (i, (from, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for (to, cost) in &admitted[i..] {
            sum += u128::from(*cost);
            let time = u128::from(to - from);
            match quota {
                Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => {
                    let (count, period) = (u128::from(quota.rate().count()), u128::from(quota.rate().period()));
                    assert!(sum * period <= u128::from(quota.capacity()) * period + count * time);
                }
                Quota::FixedWindow(quota) => {
                    assert!(from / quota.window() != to / quota.window() || sum <= u128::from(quota.limit()));
                }
                Quota::SlidingLog(quota) => {
                    assert!(time >= u128::from(quota.window()) || sum <= u128::from(quota.limit()));
                }
                Quota::SlidingCounter(quota) => {
                    assert!(time >= u128::from(quota.window()) || sum <= 2 * u128::from(quota.limit()));
                }
            }
        }
    }
}
