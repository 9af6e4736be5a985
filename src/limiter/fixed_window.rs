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

impl Meter for FixedWindow {
    type Quota = WindowQuota;

    fn limit(quota: &WindowQuota) -> u64 {
        quota.limit()
    }

    fn last_taken(&self) -> Micros {
        self.at
    }

    fn used(&self, quota: &WindowQuota, now: Micros) -> u64 {
        if self.at / quota.window() == now / quota.window() {
            self.count
        } else {
            0
        }
    }

    fn wait_until_used(&self, amount: u64, quota: &WindowQuota, now: Micros) -> Micros {
        if self.used(quota, now) <= amount {
            0
        } else {
            quota.window() - now % quota.window()
        }
    }

    fn settle(&mut self, quota: &WindowQuota, now: Micros) {
        *self = Self { at: now, count: self.used(quota, now) };
    }

    fn take(&mut self, cost: u64, quota: &WindowQuota, now: Micros) {
        self.settle(quota, now);
        self.count = (self.count + cost).min(2 * quota.limit());
    }

    fn carried_over(&self, _from: &WindowQuota, to: &WindowQuota) -> Cow<'_, Self> {
        Cow::Owned(Self { at: self.at, count: self.count.min(to.limit()) })
    }
}
