//! The state of the watched server.

use std::time::Instant;

use super::rates::Rates;
use super::sample::Sample;
use super::view::Picture;

pub struct Watch {
    address: String,
    /// The last sample.
    sample: Sample,
    rates: Rates,
    /// Since when the server has not replied, and why.
    lost: Option<(Instant, String)>,
}

impl Watch {
    pub fn new(address: String, sample: Sample) -> Self {
        Self { address, rates: Rates::between(None, &sample), sample, lost: None }
    }

    /// Records a sample, or an error.
    pub fn record(&mut self, news: Result<Sample, String>) {
        match news {
            Ok(sample) => {
                // After an outage it may be another server, or one with reset counters.
                let old = self.lost.is_none().then_some(&self.sample);
                self.rates = Rates::between(old, &sample);
                (self.sample, self.lost) = (sample, None);
            }
            Err(why) => {
                let since = self.lost.take().map_or_else(Instant::now, |lost| lost.0);
                self.lost = Some((since, why));
            }
        }
    }

    pub fn picture(&self) -> Picture<'_> {
        let lost = self.lost.as_ref().map(|(since, why)| (since.elapsed(), why.as_str()));
        Picture { address: &self.address, sample: &self.sample, rates: &self.rates, lost }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::rates::Pace;
    use super::super::sample::{Counts, Ranking, Stats};
    use super::*;

    /// A sample at a time in seconds, with a number of allowed requests.
    fn sample(start: Instant, second: u64, allowed: u64) -> Sample {
        let policies = vec![Counts { name: "login".to_owned(), allowed, denied: 0, keys: 0 }];
        let stats = Stats { policies, ..Stats::default() };
        let taken = start + Duration::from_secs(second);
        Sample { taken, stats, denied: Ok(Ranking::default()), memory: Ok(0) }
    }

    fn pace(watch: &Watch) -> Option<Pace> {
        watch.picture().rates.policies[0].per_second
    }

    #[test]
    fn each_sample_is_compared_with_the_one_before() {
        let start = Instant::now();
        let mut watch = Watch::new("server:1".to_owned(), sample(start, 0, 1_000));
        assert_eq!(pace(&watch), None);
        for (second, allowed, expected) in [(1, 1_005, 5.0), (3, 1_025, 10.0), (4, 1_025, 0.0)] {
            watch.record(Ok(sample(start, second, allowed)));
            assert_eq!(pace(&watch), Some(Pace { allowed: expected, denied: 0.0 }));
        }
    }

    #[test]
    fn the_first_sample_after_an_outage_has_no_rates() {
        let start = Instant::now();
        let mut watch = Watch::new("server:1".to_owned(), sample(start, 0, 1_000));
        watch.record(Ok(sample(start, 1, 1_005)));
        let before = pace(&watch);
        watch.record(Err("refused".to_owned()));
        let since = watch.lost.as_ref().map(|lost| lost.0);
        watch.record(Err("no route".to_owned()));
        // The last sample stays, and so does the time of the loss.
        assert_eq!((pace(&watch), watch.lost.as_ref().map(|lost| lost.0)), (before, since));
        assert_eq!(watch.picture().lost.map(|lost| lost.1), Some("no route"));
        watch.record(Ok(sample(start, 9, 9_000_000)));
        assert_eq!((pace(&watch), watch.picture().lost), (None, None));
        watch.record(Ok(sample(start, 10, 9_000_001)));
        assert_eq!(pace(&watch), Some(Pace { allowed: 1.0, denied: 0.0 }));
    }
}
