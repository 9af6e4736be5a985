//! A fixed window as a list of what was taken in it.

use redis_ratelimit::limiter::Quota;

use super::{limit, take_off_the_end, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Window {
    at: u64,
    taken: Vec<u64>,
}

impl Naive for Window {
    fn last(&self) -> u64 {
        self.at
    }

    fn used(&self, quota: &Quota, now: u64) -> u64 {
        self.settled(quota, now).taken.iter().sum()
    }

    fn settled(&self, quota: &Quota, now: u64) -> Self {
        let start = now - now % window(quota);
        let same = (start..start + window(quota)).contains(&self.at);
        Self { at: now, taken: if same { self.taken.clone() } else { Vec::new() } }
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let mut next = self.settled(quota, now);
        let room = 2 * limit(quota) - next.taken.iter().sum::<u64>();
        next.taken.push(cost.min(room));
        next
    }

    fn given_back(&self, quota: &Quota, amount: u64, now: u64) -> Self {
        let mut next = self.settled(quota, now);
        take_off_the_end(next.taken.iter_mut().rev(), amount);
        next
    }

    fn carried_over(&self, _from: &Quota, to: &Quota) -> Self {
        let count = self.taken.iter().sum::<u64>().min(limit(to));
        Self { at: self.at, taken: vec![count] }
    }
}
