//! The decisions of the limiters, on a virtual clock.

use limiter::{Algorithm, Limiter, Micros, Quota, Request};

/// The first moment of the pictures: the start of a minute, and so of windows.
const START: Micros = 1_800_000_000_000_000;

/// A request and its decision.
#[derive(Clone, Copy)]
pub struct Outcome {
    pub came: Micros,
    pub allowed: bool,
    /// When it proceeds: at once, or after the delay of a leaky bucket.
    pub leaves: Micros,
}

/// The parameters of a command.
pub fn quota(algorithm: Algorithm, a: &str, b: &str) -> Quota {
    Quota::parse(algorithm, a.as_bytes(), b.as_bytes()).expect("a quota")
}

/// Sends requests to a new limiter at these times.
pub fn ask(quota: &Quota, traffic: &[Micros]) -> Vec<Outcome> {
    let mut limiter = Limiter::new(quota);
    let mut outcome = |came| {
        let decision = limiter.request(quota, Request::new(1, START + came)).expect("the same algorithm");
        let delay_ms = decision.to_reply().delay.unwrap_or(0).unsigned_abs();
        Outcome { came, allowed: decision.allowed, leaves: came + delay_ms * 1_000 }
    };
    traffic.iter().map(|&came| outcome(came)).collect()
}

pub fn admitted(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().filter(|outcome| outcome.allowed).count() as u64
}

/// The number of requests admitted in the last window, at each time when it changes. A request as old as the window
/// does not count.
pub fn in_last_window(outcomes: &[Outcome], window: Micros) -> Vec<(Micros, u64)> {
    let came: Vec<Micros> = outcomes.iter().filter(|outcome| outcome.allowed).map(|outcome| outcome.came).collect();
    let mut changes: Vec<Micros> = came.iter().flat_map(|&came| [came, came + window]).collect();
    changes.sort_unstable();
    changes.dedup();
    let (mut coming, mut going) = (came.iter().peekable(), came.iter().peekable());
    let mut count = 0;
    let mut count_at = |now| {
        while coming.next_if(|&&came| came <= now).is_some() {
            count += 1;
        }
        while going.next_if(|&&came| came + window <= now).is_some() {
            count -= 1;
        }
        count
    };
    changes.into_iter().map(|now| (now, count_at(now))).collect()
}

/// The largest count.
pub fn most(counts: &[(Micros, u64)]) -> u64 {
    counts.iter().map(|(_, count)| *count).max().unwrap_or(0)
}
