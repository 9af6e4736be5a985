//! The leaky bucket: requests queue for a place, and the queue drains at a steady rate.
//!
//! The level of the queue and what a token bucket lacks are the same number. The difference is the delay that the client
//! is told: the time in which the requests before it drain.

use std::borrow::Cow;

use super::packed::Pack;
use super::tracker::{State, Tracker};
use super::TokenBucket;
use crate::varint::{Reader, Sink};
use crate::{BucketQuota, Micros};

/// The level of the queue, and as of when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeakyBucket(TokenBucket);

impl State for LeakyBucket {
    /// The level, in parts of a place.
    type Reading = u128;

    #[inline(always)]
    fn last_taken(&self) -> Micros {
        self.0.last_taken()
    }

    fn span(quota: &BucketQuota) -> Micros {
        TokenBucket::span(quota)
    }

    #[inline(always)]
    fn read(&self, quota: &BucketQuota, now: Micros) -> u128 {
        self.0.read(quota, now)
    }

    #[inline(always)]
    fn used(&self, level: u128, quota: &BucketQuota) -> u64 {
        self.0.used(level, quota)
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, level: u128, quota: &BucketQuota) -> Micros {
        self.0.wait_until_used(amount, level, quota)
    }

    fn settle(&mut self, level: u128, quota: &BucketQuota, now: Micros) {
        self.0.settle(level, quota, now);
    }

    #[inline(always)]
    fn take(&mut self, cost: u64, level: u128, quota: &BucketQuota, now: Micros) {
        self.0.take(cost, level, quota, now);
    }

    fn give_back(&mut self, amount: u64, level: u128, quota: &BucketQuota, now: Micros) {
        self.0.give_back(amount, level, quota, now);
    }

    fn carried_over(&self, from: &BucketQuota, to: &BucketQuota) -> Cow<'_, Self> {
        Cow::Owned(Self(self.0.carried_over(from, to).into_owned()))
    }

    #[inline(always)]
    fn delay(&self, level: u128, quota: &BucketQuota) -> Option<Micros> {
        Some(self.wait_until_used(0, level, quota))
    }

    fn encode(&self, out: &mut impl Sink) {
        self.0.encode(out);
    }

    fn decode(reader: &mut Reader<'_>, quota: &BucketQuota) -> Option<Self> {
        TokenBucket::decode(reader, quota).map(Self)
    }
}

impl Pack for LeakyBucket {
    type Packed = <TokenBucket as Pack>::Packed;

    #[inline(always)]
    fn pack(Tracker { quota, state }: &Tracker<Self>) -> Option<Self::Packed> {
        TokenBucket::pack(&Tracker { quota: *quota, state: state.0 })
    }

    #[inline(always)]
    fn unpack(packed: &Self::Packed) -> Tracker<Self> {
        let Tracker { quota, state } = TokenBucket::unpack(packed);
        Tracker { quota, state: Self(state) }
    }
}
