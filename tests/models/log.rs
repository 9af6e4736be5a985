//! A log as a plain list.

use redis_ratelimit::limiter::Quota;

use super::{limit, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Log {
    requests: Vec<(u64, u64)>,
}

impl Naive for Log {
    fn used(&self, quota: &Quota, now: u64) -> u64 {
        self.settled(quota, now).requests.iter().map(|(_, cost)| cost).sum()
    }

    fn settled(&self, quota: &Quota, now: u64) -> Self {
        if self.requests.iter().any(|(time, _)| *time > now) {
            return Self::default();
        }
        let live = |(time, _): &&(u64, u64)| time + window(quota) > now;
        Self { requests: self.requests.iter().filter(live).copied().collect() }
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let mut requests = self.settled(quota, now).requests;
        requests.push((now, cost.min(limit(quota))));
        while requests[1..].iter().map(|(_, cost)| cost).sum::<u64>() >= limit(quota) {
            requests.remove(0);
        }
        Self { requests }
    }

    fn carried_over(&self, _from: &Quota, _to: &Quota) -> Self {
        self.clone()
    }
}
