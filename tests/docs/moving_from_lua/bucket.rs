//! A bucket in integers, with its replies a moment earlier or later.

use limiter::{BucketQuota, Quota};

use super::Reply;

/// Moments in a microsecond. A script's time is a float of seconds since the epoch; adjacent floats are almost a
/// quarter of a microsecond apart.
const MOMENTS: i128 = 4;

#[derive(Debug, Clone)]
pub struct Bucket {
    capacity: i128,
    /// The refill in a moment, in units.
    count: i128,
    /// The units in a token.
    token: i128,
    is_leaky: bool,
    at: u64,
    missing: i128,
}

fn round_up(over: i128, under: i128) -> i128 {
    -(-over).div_euclid(under)
}

fn integer(value: i128) -> i64 {
    i64::try_from(value).expect("a small number")
}

impl Bucket {
    pub fn new(quota: &BucketQuota, kind: &Quota) -> Self {
        Self {
            capacity: i128::from(quota.capacity()),
            count: i128::from(quota.rate().count()),
            token: i128::from(quota.rate().period()) * MOMENTS,
            is_leaky: matches!(kind, Quota::LeakyBucket(_)),
            at: 0,
            missing: 0,
        }
    }

    fn missing(&self, now: u64, moments: i128) -> i128 {
        let passed = i128::from(now - self.at) * MOMENTS + moments;
        (self.missing - passed * self.count).max(0)
    }

    fn allows(&self, now: u64, moments: i128) -> bool {
        self.missing(now, moments) + self.token <= self.capacity * self.token
    }

    fn millis(&self, missing: i128) -> i64 {
        integer(round_up(missing.max(0), self.count * MOMENTS * 1_000))
    }

    /// The reply with this decision, `moments` later.
    fn reply(&self, now: u64, moments: i128, allowed: bool) -> Reply {
        let (before, full) = (self.missing(now, moments), self.capacity * self.token);
        let after = if allowed { before + self.token } else { before };
        let remaining = integer((full - after).div_euclid(self.token));
        let retry = if allowed { 0 } else { self.millis(before + self.token - full) };
        let delay = if allowed && self.is_leaky { self.millis(before) } else { 0 };
        Reply { allowed, numbers: [remaining, retry, self.millis(after), delay] }
    }

    pub fn exact(&self, now: u64) -> Reply {
        self.reply(now, 0, self.allows(now, 0))
    }

    /// The possible replies if the time is off by at most a moment.
    pub fn nearly(&self, now: u64) -> Vec<Reply> {
        let around = [-1, 0, 1];
        let decisions = around.map(|moments| self.allows(now, moments));
        around.iter().flat_map(|moments| decisions.map(|allowed| self.reply(now, *moments, allowed))).collect()
    }

    pub fn take(&mut self, now: u64) {
        self.missing = self.missing(now, 0) + self.token;
        self.at = now;
    }
}
