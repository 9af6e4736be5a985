//! The small form of a limiter: its numbers side by side, in 31 bytes.
//!
//! The places below hold what people use: amounts up to 280 million million, windows and periods of up to nine years,
//! times for two thousand years. A limiter with a number that does not fit its place has no small form.

use std::fmt::Debug;

use super::decision::Decision;
use super::fixed_window::FixedWindow;
use super::leaky_bucket::LeakyBucket;
use super::meter::{Meter, Metered};
use super::quota::{BucketQuota, Micros, WindowQuota};
use super::sliding_counter::SlidingCounter;
use super::state::State;
use super::token_bucket::TokenBucket;

/// A meter with its quota, packed.
#[derive(Debug, Clone, Copy)]
pub struct Small<M: Compact>(M::Packed);

/// A meter that has a small form.
pub trait Compact: Meter {
    /// The form.
    type Packed: Copy + Debug;

    /// `None` if a number is too large.
    fn pack(metered: &Metered<Self>) -> Option<Self::Packed>;

    /// What was packed.
    fn unpack(packed: &Self::Packed) -> Metered<Self>;

    /// As a state among those of the other algorithms.
    fn state(metered: Metered<Self>) -> State;
}

impl<M: Compact> Small<M> {
    pub fn new(metered: &Metered<M>) -> Option<Self> {
        M::pack(metered).map(Self)
    }

    /// As [`Metered::request`]. If what is left does not fit any more, it is returned, to be kept instead.
    #[inline(always)]
    pub fn request(&mut self, quota: &M::Quota, cost: u64, force: bool, now: Micros) -> (Decision, Option<Box<State>>) {
        let mut metered = M::unpack(&self.0);
        let decision = metered.request(quota, cost, force, now);
        let too_large = if decision.taken { self.set(metered) } else { None };
        (decision, too_large)
    }

    /// As [`Metered::take`]. If what is left does not fit any more, it is returned, to be kept instead.
    pub fn take(&mut self, quota: &M::Quota, cost: u64, at: Micros) -> Option<Box<State>> {
        let mut metered = M::unpack(&self.0);
        metered.take(quota, cost, at);
        self.set(metered)
    }

    pub fn state(&self) -> State {
        M::state(M::unpack(&self.0))
    }

    #[inline(always)]
    fn set(&mut self, metered: Metered<M>) -> Option<Box<State>> {
        match M::pack(&metered) {
            Some(packed) => {
                self.0 = packed;
                None
            }
            None => Some(Box::new(M::state(metered))),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PackedBucket {
    capacity: Int<6>,
    count: Int<4>,
    period: Int<6>,
    at: Int<7>,
    missing: Int<8>,
}

impl Compact for TokenBucket {
    type Packed = PackedBucket;

    #[inline(always)]
    fn pack(Metered { quota, meter }: &Metered<Self>) -> Option<PackedBucket> {
        Some(PackedBucket {
            capacity: Int::new(quota.capacity())?,
            count: Int::new(quota.rate().count())?,
            period: Int::new(quota.rate().period())?,
            at: Int::new(meter.at)?,
            missing: Int::new(u64::try_from(meter.missing).ok()?)?,
        })
    }

    #[inline(always)]
    fn unpack(packed: &PackedBucket) -> Metered<Self> {
        Metered {
            quota: BucketQuota::of_known(packed.capacity.get(), packed.count.get(), packed.period.get()),
            meter: Self { at: packed.at.get(), missing: u128::from(packed.missing.get()) },
        }
    }

    fn state(metered: Metered<Self>) -> State {
        State::TokenBucket(metered)
    }
}

impl Compact for LeakyBucket {
    type Packed = PackedBucket;

    #[inline(always)]
    fn pack(Metered { quota, meter }: &Metered<Self>) -> Option<PackedBucket> {
        TokenBucket::pack(&Metered { quota: *quota, meter: meter.0 })
    }

    #[inline(always)]
    fn unpack(packed: &PackedBucket) -> Metered<Self> {
        let Metered { quota, meter } = TokenBucket::unpack(packed);
        Metered { quota, meter: Self(meter) }
    }

    fn state(metered: Metered<Self>) -> State {
        State::LeakyBucket(metered)
    }
}

/// Every one of a fixed window's numbers fits its place.
#[derive(Debug, Clone, Copy)]
pub struct PackedWindow {
    limit: Int<8>,
    window: Int<8>,
    at: Int<8>,
    count: Int<7>,
}

impl Compact for FixedWindow {
    type Packed = PackedWindow;

    #[inline(always)]
    fn pack(Metered { quota, meter }: &Metered<Self>) -> Option<PackedWindow> {
        Some(PackedWindow {
            limit: Int::new(quota.limit())?,
            window: Int::new(quota.window())?,
            at: Int::new(meter.at)?,
            count: Int::new(meter.count)?,
        })
    }

    #[inline(always)]
    fn unpack(packed: &PackedWindow) -> Metered<Self> {
        Metered {
            quota: WindowQuota::of_known(packed.limit.get(), packed.window.get()),
            meter: Self { at: packed.at.get(), count: packed.count.get() },
        }
    }

    fn state(metered: Metered<Self>) -> State {
        State::FixedWindow(metered)
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

impl Compact for SlidingCounter {
    type Packed = PackedCounter;

    #[inline(always)]
    fn pack(Metered { quota, meter }: &Metered<Self>) -> Option<PackedCounter> {
        Some(PackedCounter {
            limit: Int::new(quota.limit())?,
            window: Int::new(quota.window())?,
            at: Int::new(meter.at)?,
            previous: Int::new(meter.previous)?,
            current: Int::new(meter.current)?,
        })
    }

    #[inline(always)]
    fn unpack(packed: &PackedCounter) -> Metered<Self> {
        Metered {
            quota: WindowQuota::of_known(packed.limit.get(), packed.window.get()),
            meter: Self { at: packed.at.get(), previous: packed.previous.get(), current: packed.current.get() },
        }
    }

    fn state(metered: Metered<Self>) -> State {
        State::SlidingCounter(metered)
    }
}

/// An integer of so many bytes, of which there are at most eight.
#[derive(Debug, Clone, Copy)]
pub struct Int<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Int<BYTES> {
    /// `None` if the value is too large.
    #[inline(always)]
    fn new(value: u64) -> Option<Self> {
        if BYTES < 8 && value >> (8 * BYTES) != 0 {
            return None;
        }
        value.to_le_bytes().first_chunk().copied().map(Self)
    }

    #[inline(always)]
    fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Int;

    #[test]
    fn an_integer_that_fits_comes_back_as_it_was() {
        for value in [0, 1, 0x1234_5678_9ABC, (1 << 48) - 1] {
            assert_eq!(Int::<6>::new(value).map(Int::get), Some(value));
        }
        assert_eq!(Int::<8>::new(u64::MAX).map(Int::get), Some(u64::MAX));
    }

    #[test]
    fn an_integer_that_does_not_fit_is_refused() {
        assert!(Int::<6>::new(1 << 48).is_none());
        assert!(Int::<4>::new(1 << 32).is_none());
        assert!(Int::<7>::new(u64::MAX).is_none());
    }
}
