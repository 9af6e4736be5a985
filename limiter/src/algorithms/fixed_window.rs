//! The fixed window: a count that starts at zero at every multiple of the window since the epoch.

use std::borrow::Cow;

use super::packed::{Int, Pack};
use super::tracker::{State, Tracker};
use crate::varint::{push_varint, Reader, Sink};
use crate::{Micros, WindowQuota, MAX_TIME};

/// What was taken in the window of the last taking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FixedWindow {
    /// When something was last taken.
    at: Micros,
    /// How much was taken in that window.
    count: u64,
}

/// The count of the current window, and the time that is left of it.
#[derive(Clone, Copy)]
pub struct Reading {
    count: u64,
    left: Micros,
}

impl State for FixedWindow {
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

    fn encode(&self, out: &mut impl Sink) {
        push_varint(out, self.at);
        push_varint(out, self.count);
    }

    fn decode(reader: &mut Reader<'_>, quota: &WindowQuota) -> Option<Self> {
        Some(Self { at: reader.varint_up_to(MAX_TIME)?, count: reader.varint_up_to(2 * quota.limit())? })
    }
}

/// Every number of a fixed window fits its field.
#[derive(Debug, Clone, Copy)]
pub struct PackedWindow {
    limit: Int<8>,
    window: Int<8>,
    at: Int<8>,
    count: Int<7>,
}

impl Pack for FixedWindow {
    type Packed = PackedWindow;

    #[inline(always)]
    fn pack(Tracker { quota, state }: &Tracker<Self>) -> Option<PackedWindow> {
        Some(PackedWindow {
            limit: Int::new(quota.limit())?,
            window: Int::new(quota.window())?,
            at: Int::new(state.at)?,
            count: Int::new(state.count)?,
        })
    }

    #[inline(always)]
    fn unpack(packed: &PackedWindow) -> Tracker<Self> {
        Tracker {
            quota: WindowQuota::new_unchecked(packed.limit.get(), packed.window.get()),
            state: Self { at: packed.at.get(), count: packed.count.get() },
        }
    }
}
