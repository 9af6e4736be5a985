//! A bucket in exact fractions of a token.

use limiter::{BucketQuota, Quota};

use super::fraction::Fraction;
use super::Naive;

#[derive(Debug, Clone)]
pub struct Bucket {
    at: u64,
    used: Fraction,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { at: 0, used: Fraction::ZERO }
    }
}

fn parameters(quota: &Quota) -> &BucketQuota {
    match quota {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => quota,
        _ => panic!("not a bucket"),
    }
}

/// The refill in this time.
fn refill(quota: &BucketQuota, micros: u64) -> Fraction {
    Fraction::new(i128::from(quota.rate().count()) * i128::from(micros), i128::from(quota.rate().period()))
}

impl Bucket {
    fn exact(&self, quota: &Quota, now: u64) -> Fraction {
        self.used.minus(refill(parameters(quota), now - self.at)).at_least_zero()
    }
}

impl Naive for Bucket {
    fn last(&self) -> u64 {
        self.at
    }

    fn used(&self, quota: &Quota, now: u64) -> u64 {
        self.exact(quota, now).ceiling()
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let most = Fraction::whole(2 * parameters(quota).capacity());
        Self { at: now, used: self.exact(quota, now).plus(Fraction::whole(cost)).min(most) }
    }

    fn refunded(&self, quota: &Quota, amount: u64, now: u64) -> Self {
        Self { at: now, used: self.exact(quota, now).minus(Fraction::whole(amount)).at_least_zero() }
    }

    /// What is used is rounded up to the units of the new rate, of which a microsecond refills `count`, and `period`
    /// make a token.
    fn changed(&self, from: &Quota, to: &Quota, now: u64) -> Self {
        let used = self.exact(from, now).rounded_up_to(parameters(to).rate().period());
        Self { at: now, used: used.min(Fraction::whole(parameters(to).capacity())) }
    }
}
