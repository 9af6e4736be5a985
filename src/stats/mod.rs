//! Statistics: how requests were answered, which keys are denied most often, and how many keys there are. Nothing here
//! affects a decision.
//!
//! A request counts once: for its policy if it came by `RL.CHECK`, otherwise for its algorithm. `RL.ALL` counts for every
//! limit that allowed an allowed request, or denied a denied one. What is replicated or loaded was counted where it was
//! decided.

mod counters;
mod heavy_hitters;
pub mod keys;
mod snapshot;
mod top;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use limiter::{Algorithm, Micros};

pub use counters::{Counters, Counts, Outcome};
pub use heavy_hitters::HeavyHitters;
pub use snapshot::{Row, Snapshot, VERSION};
pub use top::{DeniedKey, Ranking, Top};

/// The counters of requests that use no policy, by algorithm.
static ALGORITHMS: [Counters; Algorithm::ALL.len()] = [const { Counters::new() }; Algorithm::ALL.len()];

static TOP: LazyLock<Mutex<Top>> = LazyLock::new(Mutex::default);

/// When counting started.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// The counters of an algorithm's requests that use no policy.
pub fn of(algorithm: Algorithm) -> &'static Counters {
    &ALGORITHMS[algorithm as usize]
}

/// The keys that are denied most often. Never locked while the server is called, except for memory.
pub fn top() -> MutexGuard<'static, Top> {
    // A panic leaves consistent counts behind, though one may be missing.
    TOP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts counting at zero.
pub fn start(now: Micros) {
    ALGORITHMS.iter().for_each(Counters::reset);
    top().reset();
    SINCE.store(now, Ordering::Relaxed);
}

/// When counting started.
pub fn since() -> Micros {
    SINCE.load(Ordering::Relaxed)
}
