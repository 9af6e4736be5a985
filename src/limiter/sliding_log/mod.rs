//! The sliding log: every request of the last window is remembered, so the count is exact.

mod chunk;
mod entries;

use std::borrow::Cow;

use super::meter::Meter;
use super::quota::{Micros, WindowQuota};

pub use entries::{Entries, Entry, Piece};

/// The requests that count, oldest first. Only the newest `limit`'s worth is ever kept: as long as all of that is in
/// the window nothing else is allowed, and what is older leaves the window before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlidingLog {
    pub(super) entries: Entries,
}

impl SlidingLog {
    /// Whether entries lie in the future, so that the clock must have been turned back since. They would block for
    /// longer than a window, and what is told of the others would not hold once the clock comes to them again: then
    /// none counts.
    fn is_from_the_future(&self, now: Micros) -> bool {
        self.last_taken() > now
    }
}

impl Meter for SlidingLog {
    type Quota = WindowQuota;

    fn limit(quota: &WindowQuota) -> u64 {
        quota.limit()
    }

    fn last_taken(&self) -> Micros {
        self.entries.newest().unwrap_or(0)
    }

    fn used(&self, quota: &WindowQuota, now: Micros) -> u64 {
        if self.is_from_the_future(now) {
            return 0;
        }
        match now.checked_sub(quota.window()) {
            Some(past) => self.entries.sum_after(past),
            None => self.entries.sum(),
        }
    }

    fn wait_until_used(&self, amount: u64, quota: &WindowQuota, now: Micros) -> Micros {
        if self.is_from_the_future(now) {
            return 0;
        }
        match self.entries.last_to_leave_until(amount) {
            Some(time) => (time + quota.window()).saturating_sub(now),
            None => 0,
        }
    }

    fn settle(&mut self, quota: &WindowQuota, now: Micros) {
        if self.is_from_the_future(now) {
            self.entries = Entries::default();
        } else if let Some(past) = now.checked_sub(quota.window()) {
            self.entries.drop_until(past);
        }
    }

    fn take(&mut self, cost: u64, quota: &WindowQuota, now: Micros) {
        self.settle(quota, now);
        self.entries.push(Entry { time: now, cost: cost.min(quota.limit()) });
        self.entries.keep_newest(quota.limit());
    }

    fn carried_over(&self, _from: &WindowQuota, _to: &WindowQuota) -> Cow<'_, Self> {
        // Entries mean the same under every quota, and beyond the limit only the newest matter.
        Cow::Borrowed(self)
    }
}
