//! The fixed window: a count that starts afresh at every multiple of the window since the epoch.

use std::borrow::Cow;

use super::meter::Meter;
use super::quota::{Micros, WindowQuota};

/// What was taken in the window of the last taking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FixedWindow {
    /// When something was last taken.
    pub(super) at: Micros,
    /// How much was taken in that window.
    pub(super) count: u64,
}

/// The count of the window that it is, and what is left of that.
#[derive(Clone, Copy)]
pub struct Reading {
    count: u64,
    left: Micros,
}

impl Meter for FixedWindow {
    type Quota = WindowQuota;
    type Reading = Reading;

    fn limit(quota: &WindowQuota) -> u64 {
        quota.limit()
    }

    fn span(quota: &WindowQuota) -> Micros {
        quota.window()
    }

    fn last_taken(&self) -> Micros {
        self.at
    }

    #[inline(always)]
    fn read(&self, quota: &WindowQuota, now: Micros) -> Reading {
        let gone = now % quota.window();
        let (start, left) = (now - gone, quota.window() - gone);
        Reading { count: if start <= self.at { self.count } else { 0 }, left }
    }

    #[inline(always)]
    fn used(&self, reading: Reading, _quota: &WindowQuota) -> u64 {
        reading.count
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, reading: Reading, _quota: &WindowQuota) -> Micros {
        if reading.count <= amount {
            0
        } else {
            reading.left
        }
    }

    fn settle(&mut self, reading: Reading, _quota: &WindowQuota, now: Micros) {
        *self = Self { at: now, count: reading.count };
    }

    #[inline(always)]
    fn take(&mut self, cost: u64, reading: Reading, quota: &WindowQuota, now: Micros) {
        *self = Self { at: now, count: (reading.count + cost).min(2 * quota.limit()) };
    }

    fn give_back(&mut self, amount: u64, reading: Reading, _quota: &WindowQuota, now: Micros) {
        *self = Self { at: now, count: reading.count.saturating_sub(amount) };
    }

    fn carried_over(&self, _from: &WindowQuota, to: &WindowQuota) -> Cow<'_, Self> {
        Cow::Owned(Self { at: self.at, count: self.count.min(to.limit()) })
    }
}
