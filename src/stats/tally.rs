//! Counting what became of requests.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limiter::{Decision, Verdict};

/// Counts the requests of an algorithm or a policy.
#[derive(Debug, Default)]
pub struct Tally {
    allowed: Count,
    denied: Count,
    forced: Count,
    refunded: Count,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it was allowed.
    pub allowed: bool,
    /// Whether its cost was taken.
    pub taken: bool,
}

impl From<Decision> for Outcome {
    #[inline(always)]
    fn from(Decision { allowed, taken, .. }: Decision) -> Self {
        Self { allowed, taken }
    }
}

impl From<Verdict> for Outcome {
    #[inline(always)]
    fn from(Verdict { allowed, taken, .. }: Verdict) -> Self {
        Self { allowed, taken }
    }
}

/// What a tally has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Those of the denied whose cost was taken all the same.
    pub forced: u64,
    /// Refunds that gave something back.
    pub refunded: u64,
}

impl Tally {
    /// Nothing counted yet.
    pub const fn new() -> Self {
        Self { allowed: Count::new(), denied: Count::new(), forced: Count::new(), refunded: Count::new() }
    }

    /// Counts a request.
    #[inline(always)]
    pub fn request(&self, outcome: Outcome) {
        if outcome.allowed {
            self.allowed.add_one();
            return;
        }
        self.denied.add_one();
        if outcome.taken {
            self.forced.add_one();
        }
    }

    /// Counts a refund.
    pub fn refund(&self) {
        self.refunded.add_one();
    }

    /// What it has come to.
    pub fn counts(&self) -> Counts {
        Counts {
            allowed: self.allowed.get(),
            denied: self.denied.get(),
            forced: self.forced.get(),
            refunded: self.refunded.get(),
        }
    }

    /// Starts from zero.
    pub fn reset(&self) {
        for count in [&self.allowed, &self.denied, &self.forced, &self.refunded] {
            count.0.store(0, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Commands run one at a time, so there is nobody to be excluded, which would take longer than the counting.
    #[inline(always)]
    fn add_one(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Outcome, Tally};

    #[test]
    fn what_is_forced_was_denied() {
        let tally = Tally::new();
        for (allowed, taken) in [(true, true), (false, false), (false, true)] {
            tally.request(Outcome { allowed, taken });
        }
        tally.refund();
        assert_eq!(tally.counts(), Counts { allowed: 1, denied: 2, forced: 1, refunded: 1 });
        tally.reset();
        assert_eq!(tally.counts(), Counts::default());
    }
}
