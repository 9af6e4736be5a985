//! The accuracy of the sliding counter, compared with the exact log: for random traffic, and in the worst case.

use std::fmt;

use fastrand::Rng;
use limiter::{Algorithm, Micros};

use super::outcome::{admitted, ask, in_last_window, most, quota, Outcome};
use super::traffic::{self, SECOND};

pub const WINDOW: Micros = 60 * SECOND;
/// The number of random requests of each kind.
pub const REQUESTS: usize = 200_000;

/// The results.
pub struct Findings {
    /// Single requests, on average at the limit.
    pub at_the_limit: Accuracy,
    /// Single requests, on average 50 % above the limit.
    pub above_the_limit: Accuracy,
    /// Single requests, on average at a limit ten times as large.
    pub larger_limit: Accuracy,
    /// Bursts, on average at the limit.
    pub bursts: Accuracy,
    /// The requests that the counter and the log admit in any window, in the worst case.
    pub unlucky: [Vec<(Micros, u64)>; 2],
}

/// The counter and the log with the same requests.
pub struct Accuracy {
    pub limit: u64,
    /// The requests that the counter admitted.
    pub counter: Spread,
    /// The percentage of requests on which they disagree.
    pub differing: f64,
    /// How many more requests the counter admits, in percent.
    pub more: f64,
}

/// The time during which the last window has 0, 1, 2 … requests.
pub struct Spread(pub Vec<Micros>);

impl Findings {
    pub fn find() -> Self {
        let mut rng = Rng::with_seed(1);
        let mut steady = |apart| traffic::steady(&mut rng, apart).take(REQUESTS).collect::<Vec<_>>();
        let at_the_limit = Accuracy::of(100, &steady(WINDOW / 100));
        let above_the_limit = Accuracy::of(100, &steady(WINDOW / 150));
        let larger_limit = Accuracy::of(1000, &steady(WINDOW / 1000));
        let bursts = Accuracy::of(100, &traffic::random_bursts(&mut rng, WINDOW / 100, REQUESTS));
        let unlucky = traffic::unlucky(100, WINDOW);
        let unlucky = [Algorithm::SlidingCounter, Algorithm::SlidingLog]
            .map(|algorithm| in_last_window(&ask(&quota(algorithm, "100", "60"), &unlucky), WINDOW));
        Self { at_the_limit, above_the_limit, larger_limit, bursts, unlucky }
    }
}

impl fmt::Display for Findings {
    /// First the sentence of the README, then all figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_the_limit, above_the_limit, larger_limit, bursts, unlucky } = self;
        let [steady, large, bursty] =
            [at_the_limit, larger_limit, bursts].map(|it| [it.usually(), it.most()].map(|share| format!("{share} %")));
        let (thousands, worst) = (REQUESTS / 1_000, most(&unlucky[0]));
        writeln!(
            f,
            "When as many requests come at random as the limit allows, a minute holds up to {} of a limit of 100 for \
             99 % of the time, and {} at the most in {thousands},000 requests; of a limit of 1000, {}; in bursts of up \
             to 59 requests, {} of a limit of 100. Of all decisions {:.1} %, {:.1} % and {:.1} % are not those of the \
             exact log. At worst a minute holds {worst} %: a whole limit at the very end of a window, and another as \
             that one fades.\n",
            steady[0],
            steady[1],
            large.join(" and "),
            bursty.join(" and "),
            at_the_limit.differing,
            larger_limit.differing,
            bursts.differing,
        )?;
        let all = [
            ("one by one, 100 a minute", at_the_limit),
            ("one by one, 150 a minute", above_the_limit),
            ("one by one, 1000 a minute", larger_limit),
            ("in bursts, 100 a minute", bursts),
        ];
        for (traffic, it) in all {
            let Accuracy { limit, differing, more, .. } = it;
            let (usually, most, above) = (it.usually(), it.most(), it.counter.above(*limit));
            writeln!(
                f,
                "{traffic}, limit {limit}: 99 % of the time up to {usually} %, {most} % at the most, above the limit \
                 {above:.1} % of the time; unlike the log in {differing:.1} % of decisions, {more:.1} % more admitted"
            )?;
        }
        Ok(())
    }
}

impl Accuracy {
    fn of(limit: u64, traffic: &[Micros]) -> Self {
        let ask = |algorithm| ask(&quota(algorithm, &limit.to_string(), "60"), traffic);
        let (counter, log) = (ask(Algorithm::SlidingCounter), ask(Algorithm::SlidingLog));
        let differing = counter.iter().zip(&log).filter(|(counter, log)| counter.allowed != log.allowed).count();
        Self {
            limit,
            differing: percent(differing as u64, traffic.len() as u64),
            more: percent(admitted(&counter), admitted(&log)) - 100.0,
            counter: Spread::of(&counter),
        }
    }

    /// The 99th percentile of the counter's requests in a window, in percent of the limit.
    pub fn usually(&self) -> u64 {
        (100 * self.counter.usually()).div_ceil(self.limit)
    }

    /// Their maximum, in percent of the limit.
    pub fn most(&self) -> u64 {
        (100 * self.counter.most()).div_ceil(self.limit)
    }
}

impl Spread {
    /// From the first request to the last.
    fn of(outcomes: &[Outcome]) -> Self {
        let steps = in_last_window(outcomes, WINDOW);
        let end = outcomes.last().map_or(0, |outcome| outcome.came);
        let mut times = vec![0; usize::try_from(most(&steps)).expect("few") + 1];
        for (&(start, count), &(next, _)) in steps.iter().zip(steps.iter().skip(1)) {
            times[usize::try_from(count).expect("few")] += next.min(end).saturating_sub(start);
        }
        Self(times)
    }

    /// The maximum.
    pub fn most(&self) -> u64 {
        self.0.len() as u64 - 1
    }

    /// The 99th percentile.
    pub fn usually(&self) -> u64 {
        let mut so_far = 0;
        let is_less = |time: &&Micros| {
            so_far += **time;
            100 * so_far < 99 * self.time()
        };
        self.0.iter().take_while(is_less).count() as u64
    }

    /// The percentage of the time with more than this many.
    pub fn above(&self, count: u64) -> f64 {
        let above: Micros = (0..).zip(&self.0).filter(|(it, _)| *it > count).map(|(_, time)| time).sum();
        percent(above, self.time())
    }

    fn time(&self) -> Micros {
        self.0.iter().sum()
    }
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}
