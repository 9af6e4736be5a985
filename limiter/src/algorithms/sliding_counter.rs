//! The sliding counter: the count of the previous window, weighted by what is left of the current one, plus the count of
//! the current window.

use std::borrow::Cow;

use super::arithmetic::div_floor;
use super::packed::{Int, Pack};
use super::tracker::{State, Tracker};
use crate::varint::{push_varint, Reader, Sink};
use crate::{Micros, WindowQuota, MAX_AMOUNT, MAX_TIME};

/// The counts of two windows: the one of the last taking, and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlidingCounter {
    /// When something was last taken.
    at: Micros,
    /// What was taken in the window before that.
    previous: u64,
    /// What was taken in the window of that time.
    current: u64,
}

/// The counts of the current window and of the previous one, and the time that is left of the current one: all of it at
/// its start, one microsecond at its end.
#[derive(Clone, Copy)]
pub struct Reading {
    previous: u64,
    current: u64,
    left: Micros,
}

/// The share of `count` that counts with `left` of the window to go, rounded down.
#[inline(always)]
fn weighted(count: u64, left: Micros, quota: &WindowQuota) -> u64 {
    div_floor(u128::from(count) * u128::from(left), quota.window())
}

/// The longest rest of a window with which `count` weighs at most `amount`: `count * left < (amount + 1) * window`.
#[inline(always)]
fn left_when_at_most(amount: u64, count: u64, quota: &WindowQuota) -> Micros {
    if count <= amount {
        return quota.window();
    }
    let largest = (u128::from(amount) + 1) * u128::from(quota.window()) - 1;
    div_floor(largest, count)
}

impl State for SlidingCounter {
    type Reading = Reading;

    #[inline(always)]
    fn last_taken(&self) -> Micros {
        self.at
    }

    fn span(quota: &WindowQuota) -> Micros {
        quota.window()
    }

    #[inline(always)]
    fn read(&self, quota: &WindowQuota, now: Micros) -> Reading {
        let elapsed = now % quota.window();
        let (start, left) = (now - elapsed, quota.window() - elapsed);
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
            // The current count leaves room: the previous one has to fade.
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

    /// What was taken last is in the current count; the rest was taken in the previous window.
    fn give_back(&mut self, amount: u64, reading: Reading, _quota: &WindowQuota, now: Micros) {
        let of_current = amount.min(reading.current);
        let previous = reading.previous.saturating_sub(amount - of_current);
        *self = Self { at: now, previous, current: reading.current - of_current };
    }

    fn carried_over(&self, from: &WindowQuota, to: &WindowQuota) -> Cow<'_, Self> {
        if from.window() == to.window() {
            // The counts mean the same under any limit, but a lower limit must not block for longer than a window. The
            // previous count fades within a window as it is.
            return Cow::Owned(Self { current: self.current.min(to.limit()), ..*self });
        }
        // The counts are of other windows: what they amounted to is kept.
        let current = self.used(self.read(from, self.at), from).min(to.limit());
        Cow::Owned(Self { at: self.at, previous: 0, current })
    }

    fn encode(&self, out: &mut impl Sink) {
        push_varint(out, self.at);
        push_varint(out, self.previous);
        push_varint(out, self.current);
    }

    fn decode(reader: &mut Reader<'_>, _quota: &WindowQuota) -> Option<Self> {
        Some(Self {
            at: reader.varint_up_to(MAX_TIME)?,
            // Not twice the limit: a lowered limit leaves the counts as they were.
            previous: reader.varint_up_to(2 * MAX_AMOUNT)?,
            current: reader.varint_up_to(2 * MAX_AMOUNT)?,
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PackedCounter {
    limit: Int<6>,
    window: Int<6>,
    at: Int<7>,
    previous: Int<6>,
    current: Int<6>,
}

impl Pack for SlidingCounter {
    type Packed = PackedCounter;

    #[inline(always)]
    fn pack(Tracker { quota, state }: &Tracker<Self>) -> Option<PackedCounter> {
        Some(PackedCounter {
            limit: Int::new(quota.limit())?,
            window: Int::new(quota.window())?,
            at: Int::new(state.at)?,
            previous: Int::new(state.previous)?,
            current: Int::new(state.current)?,
        })
    }

    #[inline(always)]
    fn unpack(packed: &PackedCounter) -> Tracker<Self> {
        Tracker {
            quota: WindowQuota::new_unchecked(packed.limit.get(), packed.window.get()),
            state: Self { at: packed.at.get(), previous: packed.previous.get(), current: packed.current.get() },
        }
    }
}
