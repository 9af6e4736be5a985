//! The sliding counter: the count of the window before, weighted by what is left of this one, plus this one's.

use std::borrow::Cow;

use super::arithmetic::div_floor;
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

/// The counts of the window that it is and of the one before, and what is left of this one: all of it at its start, one
/// microsecond at its end.
#[derive(Clone, Copy)]
pub struct Reading {
    previous: u64,
    current: u64,
    left: Micros,
}

/// The share of `count` that still counts with `left` of the window to go, rounded down.
#[inline(always)]
fn weighted(count: u64, left: Micros, quota: &WindowQuota) -> u64 {
    div_floor(u128::from(count) * u128::from(left), quota.window())
}

/// The longest rest of a window with which `count` weighs no more than `amount`: `count * left < (amount + 1) * window`.
#[inline(always)]
fn left_when_at_most(amount: u64, count: u64, quota: &WindowQuota) -> Micros {
    if count <= amount {
        return quota.window();
    }
    let largest = (u128::from(amount) + 1) * u128::from(quota.window()) - 1;
    div_floor(largest, count)
}

impl Meter for SlidingCounter {
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

    /// Windows that have passed move on.
    #[inline(always)]
    fn read(&self, quota: &WindowQuota, now: Micros) -> Reading {
        let gone = now % quota.window();
        let (start, left) = (now - gone, quota.window() - gone);
        let (previous, current) = if start <= self.at {
            (self.previous, self.current)
        } else if start.saturating_sub(quota.window()) <= self.at {
            (self.current, 0)
        } else {
            (0, 0)
        };
        Reading { previous, current, left }
    }

    #[inline(always)]
    fn used(&self, reading: Reading, quota: &WindowQuota) -> u64 {
        weighted(reading.previous, reading.left, quota) + reading.current
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, reading: Reading, quota: &WindowQuota) -> Micros {
        let Reading { previous, current, left } = reading;
        match amount.checked_sub(current) {
            // This window's own count leaves room: the previous one has to fade.
            Some(room) => left.saturating_sub(left_when_at_most(room, previous, quota)),
            // It does not: it has to become the previous one, and fade then.
            None => left + (quota.window() - left_when_at_most(amount, current, quota)),
        }
    }

    fn settle(&mut self, reading: Reading, _quota: &WindowQuota, now: Micros) {
        *self = Self { at: now, previous: reading.previous, current: reading.current };
    }

    #[inline(always)]
    fn take(&mut self, cost: u64, reading: Reading, quota: &WindowQuota, now: Micros) {
        let room = (2 * quota.limit()).saturating_sub(self.used(reading, quota));
        *self = Self { at: now, previous: reading.previous, current: reading.current + cost.min(room) };
    }

    /// What was taken last is in this window's count, and what is not there was taken in the window before.
    fn give_back(&mut self, amount: u64, reading: Reading, _quota: &WindowQuota, now: Micros) {
        let of_current = amount.min(reading.current);
        let previous = reading.previous.saturating_sub(amount - of_current);
        *self = Self { at: now, previous, current: reading.current - of_current };
    }

    fn carried_over(&self, from: &WindowQuota, to: &WindowQuota) -> Cow<'_, Self> {
        if from.window() == to.window() {
            // The counts mean the same under any limit, but a lower one is to block for no longer than a window. The count
            // of the window before does so as it is.
            return Cow::Owned(Self { current: self.current.min(to.limit()), ..*self });
        }
        // The counts belong to another grid; what they amounted to is kept.
        let current = self.used(self.read(from, self.at), from).min(to.limit());
        Cow::Owned(Self { at: self.at, previous: 0, current })
    }
}
