//! A named policy: the limits that a request has to meet, written as `ALGORITHM a b [ALGORITHM a b …]`.

use std::fmt;
use std::sync::Arc;

use crate::limiter::{Algorithm, BadArgument, PolicyName, Quota, Quoted, MAX_LIMITS};
use crate::stats::Tally;

/// The longest parameter: it is kept as it was written, with all its zeros.
const MAX_PARAMETER: usize = 64;

/// The limits of a policy, and how they were written.
#[derive(Debug, Clone)]
pub struct Policy {
    limits: Arc<CountedLimits>,
    /// Separated by blanks.
    definition: Box<str>,
}

/// What a request under a policy has to meet, and where it is counted what became of it.
#[derive(Debug)]
pub struct CountedLimits {
    /// The limits.
    pub quotas: Box<[Quota]>,
    /// Where it is counted.
    pub tally: Arc<Tally>,
}

/// Why something is no policy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the messages say it
pub enum BadPolicy {
    Name(Vec<u8>),
    NoLimits,
    TooManyLimits,
    Incomplete { limit: usize },
    TooLong { limit: usize, given: Vec<u8> },
    Limit { limit: usize, problem: BadLimit },
}

/// Why something is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the messages say it
pub enum BadLimit {
    Algorithm(Vec<u8>),
    Argument(BadArgument),
}

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "invalid name {}: expected up to {} letters, digits, and any of _ - . : /",
                Quoted(name),
                PolicyName::MAX
            ),
            Self::NoLimits => f.write_str("a policy needs a limit: ALGORITHM a b"),
            Self::TooManyLimits => write!(f, "a policy has at most {MAX_LIMITS} limits"),
            Self::Incomplete { limit } => write!(f, "limit {limit} is incomplete: expected ALGORITHM a b"),
            Self::TooLong { limit, given } => {
                write!(f, "limit {limit}: {} is longer than {MAX_PARAMETER} characters", Quoted(given))
            }
            Self::Limit { limit, problem } => write!(f, "limit {limit}: {problem}"),
        }
    }
}

impl fmt::Display for BadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(given) => {
                write!(f, "unknown algorithm {}: expected ", Quoted(given))?;
                let [others @ .., last] = Algorithm::ALL.map(Algorithm::name);
                write!(f, "{} or {last}", others.join(", "))
            }
            Self::Argument(bad) => bad.fmt(f),
        }
    }
}

/// Reads a limit, as it stands in a policy and in `RL.ALL`.
///
/// # Errors
/// When there is no such algorithm, or a parameter is not of its form or out of its range.
pub fn parse_limit(algorithm: &[u8], a: &[u8], b: &[u8]) -> Result<Quota, BadLimit> {
    let algorithm = Algorithm::named(algorithm).ok_or_else(|| BadLimit::Algorithm(algorithm.to_vec()))?;
    Quota::parse(algorithm, a, b).map_err(BadLimit::Argument)
}

/// Reads the name of a policy.
///
/// # Errors
/// When it is none.
pub fn parse_name(name: &[u8]) -> Result<PolicyName, BadPolicy> {
    PolicyName::new(name).ok_or_else(|| BadPolicy::Name(name.to_vec()))
}

impl Policy {
    /// Reads the words of a definition.
    ///
    /// # Errors
    /// When they are no list of limits.
    pub fn parse<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Self, BadPolicy> {
        let (mut quotas, mut definition) = (Vec::new(), String::new());
        while let Some(algorithm) = words.next() {
            let limit = quotas.len() + 1;
            if limit > MAX_LIMITS {
                return Err(BadPolicy::TooManyLimits);
            }
            let (Some(a), Some(b)) = (words.next(), words.next()) else { return Err(BadPolicy::Incomplete { limit }) };
            if let Some(long) = [a, b].into_iter().find(|parameter| parameter.len() > MAX_PARAMETER) {
                return Err(BadPolicy::TooLong { limit, given: long.to_vec() });
            }
            let quota = parse_limit(algorithm, a, b).map_err(|problem| BadPolicy::Limit { limit, problem })?;
            quotas.push(quota);
            // A valid parameter consists of digits, letters, points and slashes.
            for word in [quota.algorithm().name().as_bytes(), a, b] {
                if !definition.is_empty() {
                    definition.push(' ');
                }
                definition.push_str(&String::from_utf8_lossy(word));
            }
        }
        if quotas.is_empty() {
            return Err(BadPolicy::NoLimits);
        }
        let limits = CountedLimits { quotas: quotas.into(), tally: Arc::default() };
        Ok(Self { limits: Arc::new(limits), definition: definition.into() })
    }

    /// Its limits.
    pub const fn limits(&self) -> &Arc<CountedLimits> {
        &self.limits
    }

    /// Makes it be counted where the policy is that it replaces. It has just been made, and nobody uses it yet.
    pub(super) fn count_on(&mut self, replaced: &Self) {
        if let Some(limits) = Arc::get_mut(&mut self.limits) {
            limits.tally = Arc::clone(&replaced.limits.tally);
        }
    }

    /// Its limits as they were written, separated by blanks.
    pub fn definition(&self) -> &str {
        &self.definition
    }
}

/// What is written alike is alike.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.definition == other.definition
    }
}
