//! A snapshot of all statistics, for `RL.STATS` and `INFO`.

use std::collections::BTreeMap;

use limiter::Algorithm;

use super::{keys, Counts};
use crate::server::info_section::Sections;

/// The module's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All statistics.
pub struct Snapshot {
    /// When counting started, in milliseconds since the epoch.
    pub since_millis: u64,
    /// The number of keys.
    pub keys: u64,
    /// The bytes that logs take.
    pub log_bytes: u64,
    /// Requests without a policy, by algorithm.
    pub algorithms: Vec<(&'static str, Row)>,
    /// Requests by policy: the policies in force, and others that still have keys.
    pub policies: Vec<(String, Row)>,
}

/// The statistics of an algorithm or a policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row {
    counts: Counts,
    keys: u64,
}

impl Row {
    /// The fields by name.
    pub const fn fields(&self) -> [(&'static str, u64); 5] {
        let Counts { allowed, denied, forced, refunded } = self.counts;
        [("allowed", allowed), ("denied", denied), ("forced", forced), ("refunded", refunded), ("keys", self.keys)]
    }
}

impl Snapshot {
    /// The statistics now, with the counters of the policies in force.
    pub fn take(policies: Vec<(String, Counts)>) -> Self {
        let row = |algorithm| Row { counts: super::of(algorithm).counts(), keys: keys::of_algorithm(algorithm) };
        let algorithms: Vec<_> = Algorithm::ALL.map(|algorithm| (algorithm.name(), row(algorithm))).into();
        let mut policies: BTreeMap<String, Row> =
            policies.into_iter().map(|(name, counts)| (name, Row { counts, keys: 0 })).collect();
        for (name, keys) in keys::of_policies() {
            policies.entry(name.to_string()).or_default().keys = keys;
        }
        let keys = algorithms.iter().map(|it| it.1).chain(policies.values().copied()).map(|row| row.keys).sum();
        Self {
            since_millis: super::since() / 1_000,
            keys,
            log_bytes: keys::log_bytes(),
            algorithms,
            policies: policies.into_iter().collect(),
        }
    }

    /// Adds the sections of `INFO`.
    pub fn add_to(&self, sections: &Sections) {
        if let Some(section) = sections.begin("") {
            section.text("version", VERSION);
            section.number("counted_since_ms", self.since_millis);
            section.number("keys", self.keys);
            section.number("log_bytes", self.log_bytes);
        }
        if let Some(section) = sections.begin("algorithms") {
            for (name, row) in &self.algorithms {
                section.numbers(name, &row.fields());
            }
        }
        if let Some(section) = sections.begin("policies") {
            for (name, row) in &self.policies {
                section.numbers(&format!("policy_{name}"), &row.fields());
            }
        }
    }
}
