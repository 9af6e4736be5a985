//! The leaky bucket: requests queue for a place and drain at a steady rate.
//!
//! The level of the queue and what is missing from a token bucket are the same figure. What differs is what the user
//! is told: how long to hold the request, which is how long those before it take to drain.

use std::borrow::Cow;

use super::meter::Meter;
use super::quota::{BucketQuota, Micros};
use super::token_bucket::TokenBucket;

/// How many are queued, and when that was so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeakyBucket(pub(super) TokenBucket);

impl Meter for LeakyBucket {
    type Quota = BucketQuota;
    type Reading = u128;

    fn limit(quota: &BucketQuota) -> u64 {
        TokenBucket::limit(quota)
    }

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
}
