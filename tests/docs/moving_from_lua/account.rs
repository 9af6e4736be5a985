//! An exact model of one user, and the replies that a script may give for it.

use limiter::Quota;

use super::bucket::Bucket;
use super::script::{Limit, Script};
use super::Reply;
use crate::models::{limit, window, AnyModel};

#[derive(Clone)]
pub struct Account {
    quota: Quota,
    exact: AnyModel,
    bucket: Option<Bucket>,
    /// The times of admitted requests.
    admitted: Vec<u64>,
}

fn millis(micros: u64) -> i64 {
    i64::try_from(micros.div_ceil(1_000)).expect("a wait")
}

impl Account {
    pub fn new(script: &Script, limit: &Limit) -> Self {
        let quota = limit.quota(script);
        let bucket = match &quota {
            Quota::TokenBucket(it) | Quota::LeakyBucket(it) => Some(Bucket::new(it, &quota)),
            _ => None,
        };
        Self { quota, exact: AnyModel::new(quota), bucket, admitted: Vec::new() }
    }

    /// The expected reply to a request, which is taken if it is allowed.
    pub fn request(&mut self, now: u64) -> Reply {
        let reply = Reply::from(self.exact.request(self.quota, 1, false, now));
        if let Some(bucket) = &mut self.bucket {
            assert_eq!(bucket.exact(now), reply, "the two exact models differ");
            if reply.allowed {
                bucket.take(now);
            }
        } else if reply.allowed {
            self.admitted.push(now);
        }
        reply
    }

    /// The first microsecond at which a request is allowed.
    pub fn due(&self, now: u64) -> u64 {
        let allowed = |at: &u64| self.exact.peek(self.quota, 1, *at).allowed;
        let millis = self.exact.peek(self.quota, 1, now).retry_ms;
        let latest = now + u64::try_from(millis).expect("a wait") * 1_000;
        let last_thousand: Vec<u64> = (latest.saturating_sub(999).max(now)..latest).collect();
        last_thousand.get(last_thousand.partition_point(|at| !allowed(at))).copied().unwrap_or(latest)
    }

    /// The replies that the script may give: exact for the precision of its times.
    pub fn script_replies(&self, now: u64) -> Vec<Reply> {
        match (&self.quota, &self.bucket) {
            (Quota::SlidingLog(_), _) => vec![self.log_of_distinct_times(now)],
            (Quota::SlidingCounter(_), _) => vec![self.counter_of_milliseconds(now)],
            (_, Some(bucket)) => bucket.nearly(now),
            (_, None) => vec![self.clone().request(now)],
        }
    }

    /// The script's sorted set has one member for each microsecond.
    fn log_of_distinct_times(&self, now: u64) -> Reply {
        let (most, window) = (limit(&self.quota), window(&self.quota));
        let mut times: Vec<u64> = self.admitted.iter().copied().filter(|time| time + window > now).collect();
        times.dedup();
        let leaves = |time: Option<&u64>| time.map_or(0, |time| millis(time + window - now));
        match i64::try_from(most).expect("few") - i64::try_from(times.len()).expect("few") {
            0 => Reply { allowed: false, numbers: [0, leaves(times.first()), leaves(times.last()), 0] },
            room => Reply { allowed: true, numbers: [room - 1, 0, millis(window), 0] },
        }
    }

    /// The script's counter has times in milliseconds, and its waits last until the next window.
    fn counter_of_milliseconds(&self, now: u64) -> Reply {
        let (most, window) = (limit(&self.quota), window(&self.quota));
        let now = now - now % 1_000;
        let (start, left) = (now - now % window, window - now % window);
        let admitted_from = |from: u64| self.admitted.iter().filter(|time| **time >= from).count() as u64;
        let current = admitted_from(start);
        let used = (admitted_from(start - window) - current) * left / window + current;
        let (allowed, room) = (used < most, i64::try_from(most.saturating_sub(used)).expect("few"));
        let wait = if allowed { 0 } else { millis(left) };
        Reply { allowed, numbers: [room - i64::from(allowed), wait, millis(left + window), 0] }
    }
}

/// Whether each number of the script's reply is in one of the possible replies with the same decision.
pub fn is_explained(script: &Reply, possible: &[Reply]) -> bool {
    let alike = || possible.iter().filter(|reply| reply.allowed == script.allowed);
    (0..script.numbers.len()).all(|index| alike().any(|reply| reply.numbers[index] == script.numbers[index]))
}
