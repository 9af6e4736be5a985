//! A fixed window as a list of costs, of which those in the current window count.

use limiter::Quota;

use super::list::List;
use super::{limit, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Window {
    last: u64,
    taken: List,
}

impl Naive for Window {
    fn last(&self) -> u64 {
        self.last
    }

    fn used(&self, quota: &Quota, now: u64) -> u64 {
        let start = now - now % window(quota);
        self.taken.sum(start..start + window(quota))
    }

    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let room = 2 * limit(quota) - self.used(quota, now);
        Self { last: now, taken: self.taken.clone().with(now, cost.min(room)) }
    }

    fn refunded(&self, _quota: &Quota, amount: u64, now: u64) -> Self {
        Self { last: now, taken: self.taken.clone().refunded(amount) }
    }

    /// As if all that is used were taken now: it counts until the current new window ends.
    fn changed(&self, from: &Quota, to: &Quota, now: u64) -> Self {
        Self { last: now, taken: List::of(now, self.used(from, now).min(limit(to))) }
    }
}
