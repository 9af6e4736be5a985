//! A plain list of costs and their times, in order of time. All kinds of windows are counted from it.

use std::ops::RangeBounds;

#[derive(Debug, Clone, Default)]
pub struct List(Vec<(u64, u64)>);

impl List {
    /// A list of one.
    pub fn of(time: u64, amount: u64) -> Self {
        Self(vec![(time, amount)])
    }

    /// The time of the newest cost.
    pub fn last(&self) -> u64 {
        self.0.last().map_or(0, |(time, _)| *time)
    }

    pub fn sum(&self, times: impl RangeBounds<u64>) -> u64 {
        self.within(times).0.iter().map(|(_, amount)| amount).sum()
    }

    /// The costs in this range of times.
    pub fn within(&self, times: impl RangeBounds<u64>) -> Self {
        Self(self.0.iter().filter(|(time, _)| times.contains(time)).copied().collect())
    }

    pub fn with(mut self, time: u64, amount: u64) -> Self {
        self.0.push((time, amount));
        self
    }

    pub fn without_oldest(&self) -> Self {
        Self(self.0[1..].to_vec())
    }

    /// Without `amount` of the newest costs. A cost that is refunded entirely is removed.
    pub fn refunded(mut self, amount: u64) -> Self {
        let mut left = amount;
        while let Some((_, newest)) = self.0.last_mut() {
            if *newest > left {
                *newest -= left;
                break;
            }
            left -= *newest;
            self.0.pop();
        }
        self
    }
}
