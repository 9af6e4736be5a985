//! What is counted: how requests were answered, and who is denied most. Nothing here decides anything.
//!
//! A request counts once: for its policy if it came by `RL.CHECK`, otherwise for its algorithm. Of `RL.ALL` every limit
//! counts that let the request through, or that denied it. What is replicated or loaded was counted where it was decided.

mod heavy_hitters;
mod tally;
mod top;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::limiter::{Algorithm, Micros};

pub use heavy_hitters::HeavyHitters;
pub use tally::{Counts, Outcome, Tally};
pub use top::{DeniedKey, Ranking, Top};

/// What became of the requests that came by no policy, by algorithm.
static ALGORITHMS: [Tally; Algorithm::ALL.len()] = [const { Tally::new() }; Algorithm::ALL.len()];

/// Who is denied most.
static TOP: LazyLock<Mutex<Top>> = LazyLock::new(Mutex::default);

/// Since when it is counted.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Where the requests of an algorithm are counted that came by no policy.
pub fn of(algorithm: Algorithm) -> &'static Tally {
    &ALGORITHMS[algorithm as usize]
}

/// Who is denied most. Never locked while the server is asked for anything but memory.
pub fn top() -> MutexGuard<'static, Top> {
    // Whatever a panic interrupted left counts behind that are whole, though one may be missing.
    TOP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to count from zero.
pub fn start(now: Micros) {
    ALGORITHMS.iter().for_each(Tally::reset);
    top().reset();
    SINCE.store(now, Ordering::Relaxed);
}

/// Since when it is counted.
pub fn since() -> Micros {
    SINCE.load(Ordering::Relaxed)
}
