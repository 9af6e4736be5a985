//! All that is counted, for `RL.STATS` and `INFO`.

use std::collections::BTreeMap;

use crate::datatype::live;
use crate::limiter::Algorithm;
use crate::policies;
use crate::server::section::{InInfo, Sections};
use crate::stats::{self, Counts};

/// The module's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All that is counted.
pub struct Report {
    /// Since when requests are counted, in milliseconds since the epoch.
    pub since_millis: u64,
    /// How many keys there are.
    pub keys: u64,
    /// The bytes that logs take.
    pub log_bytes: u64,
    /// What came by no policy, by algorithm.
    pub algorithms: Vec<(&'static str, Row)>,
    /// What came by a policy: those in force, and those that are not and have keys.
    pub policies: Vec<(String, Row)>,
}

/// What is counted of an algorithm or a policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row {
    counts: Counts,
    keys: u64,
}

impl Row {
    /// By name.
    pub const fn fields(&self) -> [(&'static str, u64); 5] {
        let Counts { allowed, denied, forced, refunded } = self.counts;
        [("allowed", allowed), ("denied", denied), ("forced", forced), ("refunded", refunded), ("keys", self.keys)]
    }
}

impl Report {
    /// As it stands now.
    pub fn now() -> Self {
        let row = |algorithm| Row { counts: stats::of(algorithm).counts(), keys: live::keys(algorithm) };
        let algorithms: Vec<_> = Algorithm::ALL.map(|algorithm| (algorithm.name(), row(algorithm))).into();
        let mut policies: BTreeMap<String, Row> =
            policies::counts().into_iter().map(|(name, counts)| (name, Row { counts, keys: 0 })).collect();
        for (name, keys) in live::keys_under_policies() {
            policies.entry(name.to_string()).or_default().keys = keys;
        }
        let keys = algorithms.iter().map(|it| it.1).chain(policies.values().copied()).map(|row| row.keys).sum();
        Self {
            since_millis: stats::since() / 1_000,
            keys,
            log_bytes: live::log_bytes(),
            algorithms,
            policies: policies.into_iter().collect(),
        }
    }
}

impl InInfo for Report {
    fn show(sections: &Sections) {
        let report = Self::now();
        if let Some(section) = sections.begin("") {
            section.text("version", VERSION);
            section.number("counted_since_ms", report.since_millis);
            section.number("keys", report.keys);
            section.number("log_bytes", report.log_bytes);
        }
        if let Some(section) = sections.begin("algorithms") {
            for (name, row) in report.algorithms {
                section.numbers(name, &row.fields());
            }
        }
        if let Some(section) = sections.begin("policies") {
            for (name, row) in report.policies {
                section.numbers(&format!("policy_{name}"), &row.fields());
            }
        }
    }
}
