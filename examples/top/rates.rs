//! Rates, from the counters of two samples.

use std::collections::HashMap;
use std::time::Duration;

use super::sample::{Counts, Sample};

/// The rates of all algorithms and policies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    pub algorithms: Vec<Rate>,
    pub policies: Vec<Rate>,
}

/// The rates of one of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rate {
    pub name: String,
    /// Allowed and denied requests per second; `None` without an older sample.
    pub per_second: Option<Pace>,
    pub keys: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    pub allowed: f64,
    pub denied: f64,
}

impl Rates {
    /// The rates since an older sample of the same server.
    pub fn between(old: Option<&Sample>, new: &Sample) -> Self {
        let elapsed = old.map(|old| new.taken.saturating_duration_since(old.taken));
        // After a reset all counters start at zero, even if some are higher again.
        let old = old.map(|old| &old.stats).filter(|old| old.since_millis == new.stats.since_millis);
        let rates = |old: Option<&Vec<Counts>>, new| rates(old.map_or(&[], Vec::as_slice), new, elapsed);
        Self {
            algorithms: rates(old.map(|old| &old.algorithms), &new.stats.algorithms),
            policies: rates(old.map(|old| &old.policies), &new.stats.policies),
        }
    }

    /// The sum.
    pub fn total(&self) -> Option<Pace> {
        let all = self.algorithms.iter().chain(&self.policies);
        all.map(|rate| rate.per_second).try_fold(Pace::default(), |sum, pace| {
            let pace = pace?;
            Some(Pace { allowed: sum.allowed + pace.allowed, denied: sum.denied + pace.denied })
        })
    }
}

fn rates(old: &[Counts], new: &[Counts], elapsed: Option<Duration>) -> Vec<Rate> {
    let old: HashMap<&str, &Counts> = old.iter().map(|counts| (counts.name.as_str(), counts)).collect();
    let elapsed = elapsed.filter(|elapsed| !elapsed.is_zero());
    let rate = |new: &Counts| {
        // New rows start at zero.
        let (allowed, denied) = old.get(new.name.as_str()).map_or((0, 0), |old| (old.allowed, old.denied));
        let per_second = elapsed.map(|elapsed| Pace {
            allowed: per_second(allowed, new.allowed, elapsed),
            denied: per_second(denied, new.denied, elapsed),
        });
        Rate { name: new.name.clone(), per_second, keys: new.keys }
    };
    new.iter().map(rate).collect()
}

/// The rate of a counter. A counter that is lower now was reset.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn per_second(old: u64, new: u64, elapsed: Duration) -> f64 {
    new.checked_sub(old).unwrap_or(new) as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::sample::{Ranking, Stats};
    use super::*;

    /// A sample at a time in milliseconds, with the counters of one algorithm and of policies.
    fn sample(start: Instant, millis: u64, allowed: u64, policies: &[(&str, u64)]) -> Sample {
        let counts = |name: &str, allowed| Counts { name: name.to_owned(), allowed, denied: allowed / 2, keys: 1 };
        let stats = Stats {
            since_millis: 1,
            algorithms: vec![counts("TOKENBUCKET", allowed)],
            policies: policies.iter().map(|(name, allowed)| counts(name, *allowed)).collect(),
            ..Stats::default()
        };
        let taken = start + Duration::from_millis(millis);
        Sample { taken, stats, denied: Ok(Ranking::default()), memory: Ok(0) }
    }

    /// Allowed and denied requests per second, in the order of the rows.
    fn paces(old: Option<&Sample>, new: &Sample) -> Vec<Option<(f64, f64)>> {
        let rates = Rates::between(old, new);
        let rows = rates.algorithms.iter().chain(&rates.policies);
        rows.map(|rate| rate.per_second.map(|pace| (pace.allowed, pace.denied))).collect()
    }

    #[test]
    fn a_rate_is_the_increase_per_second() {
        let start = Instant::now();
        let old = sample(start, 0, 100, &[("login", 10)]);
        let new = sample(start, 2_000, 140, &[("login", 10)]);
        assert_eq!(paces(Some(&old), &new), [Some((20.0, 10.0)), Some((0.0, 0.0))]);
        let total = Rates::between(Some(&old), &new).total().expect("a total");
        assert_eq!((total.allowed, total.denied), (20.0, 10.0));
    }

    #[test]
    fn there_are_no_rates_before_the_second_sample() {
        let start = Instant::now();
        let new = sample(start, 0, 1_000_000, &[("login", 5)]);
        assert_eq!(paces(None, &new), [None, None]);
        assert_eq!(paces(Some(&new), &new), [None, None], "in no time");
        assert_eq!(Rates::between(None, &new).total(), None);
    }

    #[test]
    fn a_counter_that_is_lower_was_reset() {
        let start = Instant::now();
        let old = sample(start, 0, 1_000_000, &[("login", 1_000)]);
        let new = sample(start, 1_000, 6, &[("login", 2_000)]);
        assert_eq!(paces(Some(&old), &new), [Some((6.0, 3.0)), Some((1_000.0, 500.0))]);
    }

    #[test]
    fn after_a_reset_all_counters_start_at_zero() {
        let start = Instant::now();
        let old = sample(start, 0, 10, &[("login", 10)]);
        let mut new = sample(start, 1_000, 40, &[("login", 12)]);
        new.stats.since_millis = 2;
        assert_eq!(paces(Some(&old), &new), [Some((40.0, 20.0)), Some((12.0, 6.0))]);
    }

    #[test]
    fn policies_come_and_go() {
        let start = Instant::now();
        let old = sample(start, 0, 0, &[("gone", 100), ("stays", 100)]);
        let new = sample(start, 1_000, 0, &[("new", 4), ("stays", 102)]);
        assert_eq!(paces(Some(&old), &new), [Some((0.0, 0.0)), Some((4.0, 2.0)), Some((2.0, 1.0))]);
    }
}
