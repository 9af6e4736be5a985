//! A sliding counter as a list of all costs, counted and weighted by its definition.

use limiter::Quota;

use super::list::List;
use super::{limit, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Counter {
    last: u64,
    taken: List,
}

impl Counter {
    /// The counts of the previous and of the current window.
    fn counts(&self, quota: &Quota, now: u64) -> (u64, u64) {
        let start = now - now % window(quota);
        let before = start.saturating_sub(window(quota));
        (self.taken.sum(before..start), self.taken.sum(start..start + window(quota)))
    }
}

impl Naive for Counter {
    fn last(&self) -> u64 {
        self.last
    }

    /// ⌊previous·(1 − elapsed/window) + current⌋, as one fraction over the window.
    fn used(&self, quota: &Quota, now: u64) -> u64 {
        let (previous, current) = self.counts(quota, now);
        let (elapsed, window) = (now % window(quota), window(quota));
        let [previous, current, left, window] = [previous, current, window - elapsed, window].map(u128::from);
        u64::try_from((previous * left + current * window) / window).expect("fits")
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let room = (2 * limit(quota)).saturating_sub(self.used(quota, now));
        Self { last: now, taken: self.taken.clone().with(now, cost.min(room)) }
    }

    fn refunded(&self, _quota: &Quota, amount: u64, now: u64) -> Self {
        Self { last: now, taken: self.taken.clone().refunded(amount) }
    }

    /// As if all that is used were taken now. If the window's length stays the same, the previous window keeps its
    /// count: that is no debt, as it fades until the current window ends.
    fn changed(&self, from: &Quota, to: &Quota, now: u64) -> Self {
        if window(from) != window(to) {
            return Self { last: now, taken: List::of(now, self.used(from, now).min(limit(to))) };
        }
        let (_, current) = self.counts(from, now);
        let debt = current.saturating_sub(limit(to));
        Self { last: now, taken: self.taken.clone().refunded(debt) }
    }
}
