//! Counters of requests.

use std::sync::atomic::{AtomicU64, Ordering};

use limiter::{Decision, Verdict};

/// The counters of an algorithm or a policy.
#[derive(Debug, Default)]
pub struct Counters {
    allowed: Counter,
    denied: Counter,
    forced: Counter,
    refunded: Counter,
}

/// The outcome of a request.
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

/// The values of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allowed requests.
    pub allowed: u64,
    /// Denied requests.
    pub denied: u64,
    /// Denied requests whose cost was taken because of `FORCE`.
    pub forced: u64,
    /// Refunds that gave back something.
    pub refunded: u64,
}

impl Counters {
    /// Counters at zero.
    pub const fn new() -> Self {
        Self { allowed: Counter::new(), denied: Counter::new(), forced: Counter::new(), refunded: Counter::new() }
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

    /// The values of the counters.
    pub fn counts(&self) -> Counts {
        Counts {
            allowed: self.allowed.get(),
            denied: self.denied.get(),
            forced: self.forced.get(),
            refunded: self.refunded.get(),
        }
    }

    /// Starts at zero.
    pub fn reset(&self) {
        for count in [&self.allowed, &self.denied, &self.forced, &self.refunded] {
            count.0.store(0, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Commands run one at a time, so no atomic addition is needed, which would cost more than the counting.
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
    use super::{Counters, Counts, Outcome};

    #[test]
    fn a_forced_request_counts_as_denied() {
        let counters = Counters::new();
        for (allowed, taken) in [(true, true), (false, false), (false, true)] {
            counters.request(Outcome { allowed, taken });
        }
        counters.refund();
        assert_eq!(counters.counts(), Counts { allowed: 1, denied: 2, forced: 1, refunded: 1 });
        counters.reset();
        assert_eq!(counters.counts(), Counts::default());
    }
}
