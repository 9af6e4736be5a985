//! What is counted: how requests were answered. Nothing here decides anything.
//!
//! A request counts once: for its policy if it came by `RL.CHECK`, otherwise for its algorithm. Of `RL.ALL` every limit
//! counts that let the request through, or that denied it. What is replicated or loaded was counted where it was decided.

mod tally;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limiter::{Algorithm, Micros};

pub use tally::{Counts, Outcome, Tally};

/// What became of the requests that came by no policy, by algorithm.
static ALGORITHMS: [Tally; Algorithm::ALL.len()] = [const { Tally::new() }; Algorithm::ALL.len()];

/// Since when it is counted.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Where the requests of an algorithm are counted that came by no policy.
pub fn of(algorithm: Algorithm) -> &'static Tally {
    &ALGORITHMS[algorithm as usize]
}

/// Starts to count from zero.
pub fn start(now: Micros) {
    ALGORITHMS.iter().for_each(Tally::reset);
    SINCE.store(now, Ordering::Relaxed);
}

/// Since when it is counted.
pub fn since() -> Micros {
    SINCE.load(Ordering::Relaxed)
}
