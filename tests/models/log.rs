//! A log as a plain list.

use redis_ratelimit::limiter::Quota;

use super::{limit, take_off_the_end, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Log {
    requests: Vec<(u64, u64)>,
}

impl Naive for Log {
    fn last(&self) -> u64 {
        self.requests.last().map_or(0, |(time, _)| *time)
    }

    fn used(&self, quota: &Quota, now: u64) -> u64 {
        self.settled(quota, now).requests.iter().map(|(_, cost)| cost).sum()
    }

    fn settled(&self, quota: &Quota, now: u64) -> Self {
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

    fn given_back(&self, quota: &Quota, amount: u64, now: u64) -> Self {
        let mut next = self.settled(quota, now);
        take_off_the_end(next.requests.iter_mut().rev().map(|(_, cost)| cost), amount);
        next.requests.retain(|(_, cost)| *cost > 0);
        next
    }

    fn carried_over(&self, _from: &Quota, _to: &Quota) -> Self {
        self.clone()
    }
}
