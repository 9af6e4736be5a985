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

    fn limit(quota: &BucketQuota) -> u64 {
        TokenBucket::limit(quota)
    }

    fn last_taken(&self) -> Micros {
        self.0.last_taken()
    }

    fn used(&self, quota: &BucketQuota, now: Micros) -> u64 {
        self.0.used(quota, now)
    }

    fn wait_until_used(&self, amount: u64, quota: &BucketQuota, now: Micros) -> Micros {
        self.0.wait_until_used(amount, quota, now)
    }

    fn settle(&mut self, quota: &BucketQuota, now: Micros) {
        self.0.settle(quota, now);
    }

    fn take(&mut self, cost: u64, quota: &BucketQuota, now: Micros) {
        self.0.take(cost, quota, now);
    }

    fn carried_over(&self, from: &BucketQuota, to: &BucketQuota) -> Cow<'_, Self> {
        Cow::Owned(Self(self.0.carried_over(from, to).into_owned()))
    }

    fn delay(&self, quota: &BucketQuota, now: Micros) -> Option<Micros> {
        Some(self.wait_until_used(0, quota, now))
    }
}
