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
    /// The time at which to count, or `None` if nothing counts.
    ///
    /// That is now, unless the clock was turned back. Then it is the time of the newest entry, so that a small step
    /// back changes nothing; but if even the oldest entry that counts lies in the future, all of them would block for
    /// longer than a window, and none is counted.
    fn counting_time(&self, quota: &WindowQuota, now: Micros) -> Option<Micros> {
        let newest = self.last_taken();
        if newest <= now {
            return Some(now);
        }
        let oldest = self.entries.first_after(newest.saturating_sub(quota.window()))?;
        (oldest <= now).then_some(newest)
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
        match self.counting_time(quota, now) {
            None => 0,
            Some(time) if time < quota.window() => self.entries.sum(),
            Some(time) => self.entries.sum_after(time - quota.window()),
        }
    }

    fn wait_until_used(&self, amount: u64, quota: &WindowQuota, now: Micros) -> Micros {
        let Some(time) = self.counting_time(quota, now) else { return 0 };
        match self.entries.last_to_leave_until(amount).map(|leaving| leaving + quota.window()) {
            Some(leaves) if leaves > time => leaves - now,
            _ => 0,
        }
    }

    fn settle(&mut self, quota: &WindowQuota, now: Micros) {
        match self.counting_time(quota, now) {
            None => self.entries = Entries::default(),
            Some(time) if time < quota.window() => {}
            Some(time) => self.entries.drop_until(time - quota.window()),
        }
    }

    fn take(&mut self, cost: u64, quota: &WindowQuota, now: Micros) {
        self.settle(quota, now);
        self.entries.pull_back_to(now, quota.limit());
        self.entries.push(Entry { time: now, cost: cost.min(quota.limit()) });
        self.entries.keep_newest(quota.limit());
    }

    fn carried_over(&self, _from: &WindowQuota, _to: &WindowQuota) -> Cow<'_, Self> {
        // Entries mean the same under every quota, and beyond the limit only the newest matter.
        Cow::Borrowed(self)
    }
}
