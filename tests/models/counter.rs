//! A sliding counter as counts by window, weighted in exact fractions.

use std::collections::BTreeMap;

use redis_ratelimit::limiter::Quota;

use super::{limit, take_off_the_end, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Counter {
    at: u64,
    /// What was taken, by the start of its window.
    counts: BTreeMap<u64, u64>,
}

impl Counter {
    fn count(&self, start: Option<u64>) -> u64 {
        start.and_then(|start| self.counts.get(&start)).copied().unwrap_or(0)
    }
}

impl Naive for Counter {
    fn last(&self) -> u64 {
        self.at
    }

    /// ⌊previous·(1 − elapsed/window) + current⌋
    fn used(&self, quota: &Quota, now: u64) -> u64 {
        let length = window(quota);
        let elapsed = now % length;
        let start = now - elapsed;
        let (previous, current) = (self.count(start.checked_sub(length)), self.count(Some(start)));
        let weighted = u128::from(previous) * u128::from(length - elapsed) / u128::from(length);
        u64::try_from(weighted).expect("fits") + current
    }

    fn settled(&self, quota: &Quota, now: u64) -> Self {
        let length = window(quota);
        let start = now - now % length;
        let keep = |window: u64| window == start || window + length == start;
        Self { at: now, counts: self.counts.iter().map(|(k, v)| (*k, *v)).filter(|(k, _)| keep(*k)).collect() }
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let mut next = self.settled(quota, now);
        let room = (2 * limit(quota)).saturating_sub(next.used(quota, now));
        *next.counts.entry(now - now % window(quota)).or_default() += cost.min(room);
        next
    }

    fn given_back(&self, quota: &Quota, amount: u64, now: u64) -> Self {
        let mut next = self.settled(quota, now);
        take_off_the_end(next.counts.values_mut().rev(), amount);
        next
    }

    fn carried_over(&self, from: &Quota, to: &Quota) -> Self {
        if window(from) == window(to) {
            let mut next = self.clone();
            if let Some(current) = next.counts.get_mut(&(self.at - self.at % window(to))) {
                *current = limit(to).min(*current);
            }
            return next;
        }
        let start = self.at - self.at % window(to);
        Self { at: self.at, counts: BTreeMap::from([(start, self.used(from, self.at).min(limit(to)))]) }
    }
}
