//! The wall clock.

use crate::limiter::{Micros, MAX_TIME};

/// The time of the server's machine. A clock set before the epoch, or beyond all reason, counts as the nearest time
/// that can be calculated with.
pub fn now() -> Micros {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a value of ours; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0).min(MAX_TIME / 1_000_000 - 1);
    seconds * 1_000_000 + (time.tv_nsec.cast_unsigned() / 1_000).min(999_999)
}
