//! A log as a plain list.

use redis_ratelimit::limiter::Quota;

use super::{limit, take_off_the_end, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Log {
    requests: Vec<(u64, u64)>,
}

impl Naive for Log {
    fn used(&self, quota: &Quota, now: u64) -> u64 {
        self.settled(quota, now).requests.iter().map(|(_, cost)| cost).sum()
    }

    fn settled(&self, quota: &Quota, now: u64) -> Self {
        let newest = self.requests.iter().map(|(time, _)| *time).max().unwrap_or(0);
        let live = |(time, _): &&(u64, u64)| time + window(quota) > now.max(newest);
        let requests: Vec<_> = self.requests.iter().filter(live).copied().collect();
        let all_in_the_future = requests.iter().all(|(time, _)| *time > now);
        Self { requests: if all_in_the_future { Vec::new() } else { requests } }
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let mut requests = self.settled(quota, now).requests;
        let future: u64 = requests.iter().filter(|(time, _)| *time > now).map(|(_, cost)| cost).sum();
        requests.retain(|(time, _)| *time <= now);
        if future > 0 {
            requests.push((now, future.min(limit(quota))));
        }
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
