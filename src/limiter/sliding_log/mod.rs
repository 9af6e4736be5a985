//! The sliding log: every request of the last window is remembered, so the count is exact.

mod chunk;
mod entries;
mod queue;

use std::borrow::Cow;

use super::meter::Meter;
use super::quota::{Micros, WindowQuota};

pub use entries::{Entries, Entry, Piece};
pub use queue::Queue;

/// The requests that count, oldest first. Only the newest `limit`'s worth is ever kept: as long as all of that is in
/// the window nothing else is allowed, and what is older leaves the window before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlidingLog {
    pub(super) entries: Entries,
}

/// The moment at which it is read, and the time at which to count then, or `None` if nothing counts.
#[derive(Clone, Copy)]
pub struct Reading {
    now: Micros,
    counted_at: Option<Micros>,
}

impl Meter for SlidingLog {
    type Quota = WindowQuota;
    type Reading = Reading;

    fn limit(quota: &WindowQuota) -> u64 {
        quota.limit()
    }

    fn last_taken(&self) -> Micros {
        self.entries.newest().unwrap_or(0)
    }

    /// Counts as of now, unless the clock was turned back. Then it is the time of the newest entry, so that a small step
    /// back changes nothing; but if even the oldest entry that counts lies in the future, all of them would block for
    /// longer than a window, and none is counted.
    #[inline(always)]
    fn read(&self, quota: &WindowQuota, now: Micros) -> Reading {
        let newest = self.last_taken();
        if newest <= now {
            return Reading { now, counted_at: Some(now) };
        }
        let oldest = self.entries.first_after(newest.saturating_sub(quota.window()));
        Reading { now, counted_at: oldest.filter(|&oldest| oldest <= now).map(|_| newest) }
    }

    #[inline(always)]
    fn used(&self, reading: Reading, quota: &WindowQuota) -> u64 {
        match reading.counted_at {
            None => 0,
            Some(time) if time < quota.window() => self.entries.sum(),
            Some(time) => self.entries.sum_after(time - quota.window()),
        }
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, reading: Reading, quota: &WindowQuota) -> Micros {
        let Some(time) = reading.counted_at else { return 0 };
        match self.entries.last_to_leave_until(amount).map(|leaving| leaving + quota.window()) {
            Some(leaves) if leaves > time => leaves - reading.now,
            _ => 0,
        }
    }

    fn settle(&mut self, reading: Reading, quota: &WindowQuota, _now: Micros) {
        match reading.counted_at {
            None => self.entries = Entries::default(),
            Some(time) if time < quota.window() => {}
            Some(time) => self.entries.drop_until(time - quota.window()),
        }
    }

    fn take(&mut self, cost: u64, reading: Reading, quota: &WindowQuota, now: Micros) {
        self.settle(reading, quota, now);
        self.entries.pull_back_to(now, quota.limit());
        self.entries.push(Entry { time: now, cost: cost.min(quota.limit()) });
        self.entries.keep_newest(quota.limit());
    }

    fn give_back(&mut self, amount: u64, reading: Reading, quota: &WindowQuota, now: Micros) {
        self.settle(reading, quota, now);
        self.entries.give_back(amount);
    }

    fn carried_over(&self, _from: &WindowQuota, _to: &WindowQuota) -> Cow<'_, Self> {
        // Entries mean the same under every quota, and beyond the limit only the newest matter.
        Cow::Borrowed(self)
    }
}
