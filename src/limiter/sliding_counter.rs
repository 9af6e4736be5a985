//! The sliding counter: the count of the window before, weighted by what is left of this one, plus this one's.

use std::borrow::Cow;

use super::meter::Meter;
use super::quota::{Micros, WindowQuota};

/// The counts of two windows on the fixed grid: that of the last taking, and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlidingCounter {
    /// When something was last taken.
    pub(super) at: Micros,
    /// What was taken in the window before that.
    pub(super) previous: u64,
    /// What was taken in the window of that moment.
    pub(super) current: u64,
}

impl SlidingCounter {
    /// The counts as they stand at `now`: windows that have passed move on.
    fn counts(&self, quota: &WindowQuota, now: Micros) -> (u64, u64) {
        let (then, now) = (self.at / quota.window(), now / quota.window());
        if now == then {
            (self.previous, self.current)
        } else if now == then + 1 {
            (self.current, 0)
        } else {
            (0, 0)
        }
    }
}

/// What is left of the window at `now`: all of it at its start, one microsecond at its end.
fn left(quota: &WindowQuota, now: Micros) -> Micros {
    quota.window() - now % quota.window()
}

/// The share of `count` that still counts with `left` of the window to go, rounded down.
fn weighted(count: u64, left: Micros, quota: &WindowQuota) -> u64 {
    narrow(u128::from(count) * u128::from(left) / u128::from(quota.window()))
}

/// The longest rest of a window with which `count` weighs no more than `amount`: `count * left < (amount + 1) * window`.
fn left_when_at_most(amount: u64, count: u64, quota: &WindowQuota) -> Micros {
    if count <= amount {
        return quota.window();
    }
    let largest = (u128::from(amount) + 1) * u128::from(quota.window()) - 1;
    narrow(largest / u128::from(count))
}

impl Meter for SlidingCounter {
    type Quota = WindowQuota;

    fn limit(quota: &WindowQuota) -> u64 {
        quota.limit()
    }

    fn last_taken(&self) -> Micros {
        self.at
    }

    fn used(&self, quota: &WindowQuota, now: Micros) -> u64 {
        let (previous, current) = self.counts(quota, now);
        weighted(previous, left(quota, now), quota) + current
    }

    fn wait_until_used(&self, amount: u64, quota: &WindowQuota, now: Micros) -> Micros {
        let (previous, current) = self.counts(quota, now);
        let left = left(quota, now);
        match amount.checked_sub(current) {
            // This window's own count leaves room: the previous one has to fade.
            Some(room) => left.saturating_sub(left_when_at_most(room, previous, quota)),
            // It does not: it has to become the previous one, and fade then.
            None => left + (quota.window() - left_when_at_most(amount, current, quota)),
        }
    }

    fn settle(&mut self, quota: &WindowQuota, now: Micros) {
        let (previous, current) = self.counts(quota, now);
        *self = Self { at: now, previous, current };
    }

    fn take(&mut self, cost: u64, quota: &WindowQuota, now: Micros) {
        self.settle(quota, now);
        self.current += cost.min((2 * quota.limit()).saturating_sub(self.used(quota, now)));
    }

    fn carried_over(&self, from: &WindowQuota, to: &WindowQuota) -> Cow<'_, Self> {
        if from.window() == to.window() {
            // The counts mean the same under any limit.
            return Cow::Borrowed(self);
        }
        // The counts belong to another grid; what they amounted to is kept.
        let current = self.used(from, self.at).min(to.limit());
        Cow::Owned(Self { at: self.at, previous: 0, current })
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
