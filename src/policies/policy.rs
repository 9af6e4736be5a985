//! A policy: the limits of a request, written as `ALGORITHM a b [ALGORITHM a b …]`.

use std::fmt;
use std::sync::Arc;

use limiter::{Algorithm, ArgumentError, PolicyName, Quota, Quoted, MAX_LIMITS};

use crate::stats::Counters;

/// The length of the longest parameter. It is kept as it was written, including zeros.
const MAX_PARAMETER: usize = 64;

/// A policy: its limits, and how they were written.
#[derive(Debug, Clone)]
pub struct Policy {
    limits: Arc<CountedLimits>,
    /// Words separated by spaces.
    definition: Box<str>,
}

/// The limits of a policy, and its counters.
#[derive(Debug)]
pub struct CountedLimits {
    /// The limits.
    pub quotas: Box<[Quota]>,
    /// The counters of requests under the policy.
    pub counters: Arc<Counters>,
}

/// Why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the messages explain the variants
pub enum PolicyError {
    Name(Vec<u8>),
    NoLimits,
    TooManyLimits,
    Incomplete { limit: usize },
    TooLong { limit: usize, given: Vec<u8> },
    Limit { limit: usize, problem: LimitError },
}

/// Why a limit is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the messages explain the variants
pub enum LimitError {
    Algorithm(Vec<u8>),
    Argument(ArgumentError),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "invalid name {}: expected up to {} letters, digits, and any of _ - . : /",
                Quoted(name),
                PolicyName::MAX
            ),
            Self::NoLimits => f.write_str("a policy requires at least one limit: ALGORITHM a b"),
            Self::TooManyLimits => write!(f, "a policy has at most {MAX_LIMITS} limits"),
            Self::Incomplete { limit } => write!(f, "limit {limit} is incomplete: expected ALGORITHM a b"),
            Self::TooLong { limit, given } => {
                write!(f, "limit {limit}: {} is longer than {MAX_PARAMETER} characters", Quoted(given))
            }
            Self::Limit { limit, problem } => write!(f, "limit {limit}: {problem}"),
        }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(given) => {
                write!(f, "unknown algorithm {}: expected ", Quoted(given))?;
                let [others @ .., last] = Algorithm::ALL.map(Algorithm::name);
                write!(f, "{} or {last}", others.join(", "))
            }
            Self::Argument(error) => error.fmt(f),
        }
    }
}

/// Reads a limit of a policy or of `RL.ALL`.
///
/// # Errors
/// When the algorithm is unknown, or a parameter is malformed or out of range.
pub fn parse_limit(algorithm: &[u8], a: &[u8], b: &[u8]) -> Result<Quota, LimitError> {
    let algorithm = Algorithm::named(algorithm).ok_or_else(|| LimitError::Algorithm(algorithm.to_vec()))?;
    Quota::parse(algorithm, a, b).map_err(LimitError::Argument)
}

/// Reads the name of a policy.
///
/// # Errors
/// When it is no valid name.
pub fn parse_name(name: &[u8]) -> Result<PolicyName, PolicyError> {
    PolicyName::new(name).ok_or_else(|| PolicyError::Name(name.to_vec()))
}

impl Policy {
    /// Reads the words of a definition.
    ///
    /// # Errors
    /// When a limit is invalid, or there is none.
    pub fn parse<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Self, PolicyError> {
        let (mut quotas, mut definition) = (Vec::new(), String::new());
        while let Some(algorithm) = words.next() {
            let limit = quotas.len() + 1;
            if limit > MAX_LIMITS {
                return Err(PolicyError::TooManyLimits);
            }
            let (Some(a), Some(b)) = (words.next(), words.next()) else {
                return Err(PolicyError::Incomplete { limit });
            };
            if let Some(long) = [a, b].into_iter().find(|parameter| parameter.len() > MAX_PARAMETER) {
                return Err(PolicyError::TooLong { limit, given: long.to_vec() });
            }
            let quota = parse_limit(algorithm, a, b).map_err(|problem| PolicyError::Limit { limit, problem })?;
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
            return Err(PolicyError::NoLimits);
        }
        let limits = CountedLimits { quotas: quotas.into(), counters: Arc::default() };
        Ok(Self { limits: Arc::new(limits), definition: definition.into() })
    }

    /// Its limits.
    pub const fn limits(&self) -> &Arc<CountedLimits> {
        &self.limits
    }

    /// Continues the counters of the policy that it replaces. Only for a policy that has just been parsed.
    pub(super) fn continue_counters(&mut self, replaced: &Self) {
        if let Some(limits) = Arc::get_mut(&mut self.limits) {
            limits.counters = Arc::clone(&replaced.limits.counters);
        }
    }

    /// Its limits as they were written, as words separated by spaces.
    pub fn definition(&self) -> &str {
        &self.definition
    }
}

/// Policies are equal if they are written alike.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.definition == other.definition
    }
}
