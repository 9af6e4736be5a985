//! A sliding counter as a list of everything that was taken, counted and weighted by its definition.

use limiter::Quota;

use super::list::List;
use super::{limit, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Counter {
    last: u64,
    taken: List,
}

impl Counter {
    /// What was taken in the window before that of this moment, and in that of this moment.
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

    fn given_back(&self, _quota: &Quota, amount: u64, now: u64) -> Self {
        Self { last: now, taken: self.taken.clone().given_back(amount) }
    }

    /// As if all that is used had been taken at this moment. If the window is the same, what was taken before it stays
    /// where it is, and is no debt: it has faded when this window ends.
    fn changed(&self, from: &Quota, to: &Quota, now: u64) -> Self {
        if window(from) != window(to) {
            return Self { last: now, taken: List::of(now, self.used(from, now).min(limit(to))) };
        }
        let (_, current) = self.counts(from, now);
        let debt = current.saturating_sub(limit(to));
        Self { last: now, taken: self.taken.clone().given_back(debt) }
    }
}
