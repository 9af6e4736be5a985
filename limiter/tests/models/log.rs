//! A log as a plain list of what was taken in the last window.

use limiter::Quota;

use super::list::List;
use super::{limit, window, Naive};

#[derive(Debug, Clone, Default)]
pub struct Log(List);

impl Log {
    /// What is younger than the window.
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

    /// "A log keeps its newest limit's worth".
    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let mut taken = self.live(quota, now).with(now, cost.min(limit(quota)));
        while taken.without_oldest().sum(..) >= limit(quota) {
            taken = taken.without_oldest();
        }
        Self(taken)
    }

    fn given_back(&self, quota: &Quota, amount: u64, now: u64) -> Self {
        Self(self.live(quota, now).given_back(amount))
    }

    /// Entries keep their times, so each counts as long as it is younger than both windows. No limit makes one stay for
    /// longer, so there is no debt to be forgiven.
    fn changed(&self, from: &Quota, _to: &Quota, now: u64) -> Self {
        Self(self.live(from, now))
    }
}
