//! The token bucket: tokens refill at a steady rate up to the capacity, and a request takes some.

use std::borrow::Cow;

use super::arithmetic::{div_ceil, div_floor};
use super::meter::Meter;
use super::quota::{BucketQuota, Micros};

/// How much is missing from a full bucket, and when that was so.
// Not all servers' allocators align to more than 8 bytes, which a u128 would ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(Rust, packed(8))]
pub struct TokenBucket {
    /// When something was last taken.
    pub(super) at: Micros,
    /// What was missing then, in parts of a token: `period` parts are one token, and `count` parts come back every
    /// microsecond. In these parts everything is a whole number, so nothing is ever rounded away.
    pub(super) missing: u128,
}

/// The parts that `tokens` are.
pub(super) fn parts(tokens: u64, quota: &BucketQuota) -> u128 {
    u128::from(tokens) * u128::from(quota.rate().period())
}

impl TokenBucket {
    /// A bucket that is being filled until then; it cannot have been emptier than empty.
    pub(super) fn full_at(quota: &BucketQuota, full_at: Micros, now: Micros) -> Self {
        let missing = u128::from(quota.rate().count()) * u128::from(full_at.saturating_sub(now));
        Self { at: now, missing: missing.min(parts(quota.capacity(), quota)) }
    }
}

impl Meter for TokenBucket {
    type Quota = BucketQuota;
    /// What is missing, in parts of a token.
    type Reading = u128;

    fn limit(quota: &BucketQuota) -> u64 {
        quota.capacity()
    }

    fn last_taken(&self) -> Micros {
        self.at
    }

    fn span(quota: &BucketQuota) -> Micros {
        div_floor(parts(quota.capacity(), quota), quota.rate().count())
    }

    #[inline(always)]
    fn read(&self, quota: &BucketQuota, now: Micros) -> u128 {
        self.missing.saturating_sub(u128::from(quota.rate().count()) * u128::from(now - self.at))
    }

    #[inline(always)]
    fn used(&self, missing: u128, quota: &BucketQuota) -> u64 {
        div_ceil(missing, quota.rate().period())
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, missing: u128, quota: &BucketQuota) -> Micros {
        div_ceil(missing.saturating_sub(parts(amount, quota)), quota.rate().count())
    }

    fn settle(&mut self, missing: u128, _quota: &BucketQuota, now: Micros) {
        *self = Self { at: now, missing };
    }

    #[inline(always)]
    fn take(&mut self, cost: u64, missing: u128, quota: &BucketQuota, now: Micros) {
        let missing = (missing + parts(cost, quota)).min(2 * parts(quota.capacity(), quota));
        *self = Self { at: now, missing };
    }

    fn give_back(&mut self, amount: u64, missing: u128, quota: &BucketQuota, now: Micros) {
        *self = Self { at: now, missing: missing.saturating_sub(parts(amount, quota)) };
    }

    fn carried_over(&self, from: &BucketQuota, to: &BucketQuota) -> Cow<'_, Self> {
        let (old, new) = (u128::from(from.rate().period()), u128::from(to.rate().period()));
        // Whole tokens stay whole; of a broken one the parts are rounded up, which makes it no larger than it was in
        // whole tokens.
        let missing = self.missing / old * new + (self.missing % old * new).div_ceil(old);
        Cow::Owned(Self { at: self.at, missing: missing.min(parts(to.capacity(), to)) })
    }
}
