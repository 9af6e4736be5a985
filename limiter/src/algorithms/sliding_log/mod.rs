//! The sliding log: every request of the last window is kept, so the count is exact.

mod chunk;
mod entries;
mod queue;

use std::borrow::Cow;

use super::tracker::State;
use crate::varint::{Reader, Sink};
use crate::{Micros, WindowQuota};

pub use entries::{Entries, Entry, Segment};
pub use queue::Queue;

/// The requests that count, oldest first. Only the newest up to `limit` are kept: while all of these are in the window
/// nothing else is allowed, and older ones leave the window before them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlidingLog {
    entries: Entries,
}

impl State for SlidingLog {
    /// The time at which it is read: everything else is in the entries.
    type Reading = Micros;

    fn span(quota: &WindowQuota) -> Micros {
        quota.window()
    }

    #[inline(always)]
    fn last_taken(&self) -> Micros {
        self.entries.newest().unwrap_or(0)
    }

    #[inline(always)]
    fn read(&self, _quota: &WindowQuota, now: Micros) -> Micros {
        now
    }

    #[inline(always)]
    fn used(&self, now: Micros, quota: &WindowQuota) -> u64 {
        match now.checked_sub(quota.window()) {
            None => self.entries.sum(),
            Some(past) => self.entries.sum_after(past),
        }
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, now: Micros, quota: &WindowQuota) -> Micros {
        let leaving = self.entries.last_to_leave_until(amount);
        leaving.map_or(0, |leaving| (leaving + quota.window()).saturating_sub(now))
    }

    fn settle(&mut self, _reading: Micros, quota: &WindowQuota, now: Micros) {
        if let Some(past) = now.checked_sub(quota.window()) {
            self.entries.drop_until(past);
        }
    }

    fn take(&mut self, cost: u64, reading: Micros, quota: &WindowQuota, now: Micros) {
        self.settle(reading, quota, now);
        self.entries.push(Entry { time: now, cost: cost.min(quota.limit()) });
        self.entries.keep_newest(quota.limit());
    }

    fn give_back(&mut self, amount: u64, reading: Micros, quota: &WindowQuota, now: Micros) {
        self.settle(reading, quota, now);
        self.entries.give_back(amount);
    }

    fn carried_over(&self, _from: &WindowQuota, _to: &WindowQuota) -> Cow<'_, Self> {
        // Entries mean the same under every quota, and beyond the limit only the newest matter.
        Cow::Borrowed(self)
    }

    fn entries(&self) -> Option<&Entries> {
        Some(&self.entries)
    }

    fn entries_mut(&mut self) -> Option<&mut Entries> {
        Some(&mut self.entries)
    }

    /// The entries are written apart, as segments, so that a long log is never one large buffer.
    fn encode(&self, _out: &mut impl Sink) {}

    fn decode(_reader: &mut Reader<'_>, _quota: &WindowQuota) -> Option<Self> {
        Some(Self::default())
    }
}
