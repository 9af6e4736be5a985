//! A sliding log as a plain list of the costs in the last window.

use limiter::Quota;

use super::list::List;
use super::{limit, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Log(List);

impl Log {
    /// The costs within the window.
    fn live(&self, quota: &Quota, now: u64) -> List {
        self.0.within((now + 1).saturating_sub(window(quota))..)
    }
}

impl Naive for Log {
    fn last(&self) -> u64 {
        self.0.last()
    }

    fn used(&self, quota: &Quota, now: u64) -> u64 {
        self.live(quota, now).sum(..)
    }

    /// A log keeps its newest entries, as many as the limit counts.
    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let mut taken = self.live(quota, now).with(now, cost.min(limit(quota)));
        while taken.without_oldest().sum(..) >= limit(quota) {
            taken = taken.without_oldest();
        }
        Self(taken)
    }

    fn refunded(&self, quota: &Quota, amount: u64, now: u64) -> Self {
        Self(self.live(quota, now).refunded(amount))
    }

    /// Entries keep their times, so each counts as long as it is within both windows. There is no debt, as no limit
    /// makes an entry stay longer.
    fn changed(&self, from: &Quota, _to: &Quota, now: u64) -> Self {
        Self(self.live(from, now))
    }
}
