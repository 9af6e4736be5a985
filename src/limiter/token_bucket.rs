//! The token bucket: tokens refill at a steady rate up to the capacity, and a request takes some.

use std::borrow::Cow;

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
    fn missing(&self, quota: &BucketQuota, now: Micros) -> u128 {
        let count = u128::from(quota.rate().count());
        if now >= self.at {
            return self.missing.saturating_sub(count * u128::from(now - self.at));
        }
        // The clock was turned back: as much more is missing as comes back until it is where it was. So a small step
        // back changes nothing; but when nobody could take even one token within the time that a bucket fills in, what
        // was taken is forgotten.
        let missing = self.missing + count * u128::from(self.at - now);
        if missing > parts(2 * quota.capacity() - 1, quota) {
            0
        } else {
            missing
        }
    }
}

impl Meter for TokenBucket {
    type Quota = BucketQuota;

    fn limit(quota: &BucketQuota) -> u64 {
        quota.capacity()
    }

    fn last_taken(&self) -> Micros {
        self.at
    }

    fn used(&self, quota: &BucketQuota, now: Micros) -> u64 {
        saturate(self.missing(quota, now).div_ceil(u128::from(quota.rate().period())))
    }

    fn wait_until_used(&self, amount: u64, quota: &BucketQuota, now: Micros) -> Micros {
        let excess = self.missing(quota, now).saturating_sub(parts(amount, quota));
        saturate(excess.div_ceil(u128::from(quota.rate().count())))
    }

    fn settle(&mut self, quota: &BucketQuota, now: Micros) {
        self.missing = self.missing(quota, now);
        self.at = now;
    }

    fn take(&mut self, cost: u64, quota: &BucketQuota, now: Micros) {
        self.settle(quota, now);
        self.missing = (self.missing + parts(cost, quota)).min(2 * parts(quota.capacity(), quota));
    }

    fn carried_over(&self, from: &BucketQuota, to: &BucketQuota) -> Cow<'_, Self> {
        let (old, new) = (u128::from(from.rate().period()), u128::from(to.rate().period()));
        // Whole tokens stay whole; of a broken one the parts are rounded up, which makes it no larger than it was in
        // whole tokens.
        let missing = self.missing / old * new + (self.missing % old * new).div_ceil(old);
        Cow::Owned(Self { at: self.at, missing: missing.min(parts(to.capacity(), to)) })
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
