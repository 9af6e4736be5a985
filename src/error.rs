//! The errors that clients see. A command that fails has no side effects.

use std::fmt;

use limiter::{Algorithm, ArgumentError, Quoted, Value, WrongAlgorithm};

/// An error reply: a code and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Too few or too many arguments.
    WrongArity,
    /// An argument is refused, for the reason that the message gives.
    Invalid(String),
    /// An argument is no integer of its range.
    InvalidInteger {
        /// The argument.
        name: &'static str,
        /// What was given.
        given: Vec<u8>,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// `numlimits` of `RL.ALL` is larger than the number of limits.
    MissingLimits {
        /// `numlimits`.
        expected: usize,
        /// The limits that were given.
        found: usize,
    },
    /// A word is no option of the command.
    UnknownOption {
        /// The word.
        given: Vec<u8>,
        /// The options of the command.
        expected: String,
    },
    /// An option is given twice.
    DuplicateOption(&'static str),
    /// The value of an option is missing.
    MissingValue {
        /// The option.
        option: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// A key is given twice.
    DuplicateKey(Vec<u8>),
    /// The key holds a value of another type; of several keys this one.
    WrongType(Option<Vec<u8>>),
    /// The key holds a limiter of another algorithm; of several keys this one.
    WrongAlgorithm(Option<Vec<u8>>, WrongAlgorithm),
    /// The key holds the limits of a policy; of several keys this one.
    HoldsPolicy {
        /// The key.
        key: Option<Vec<u8>>,
        /// The algorithms of the limits.
        held: Vec<&'static str>,
        /// The algorithm of the command.
        requested: Algorithm,
    },
    /// The key holds a single limiter, not the limits of a policy.
    HoldsLimiter(Algorithm),
    /// There is no policy of this name.
    UnknownPolicy {
        /// The name.
        name: Vec<u8>,
        /// The first policies that there are.
        known: Vec<String>,
        /// How many more there are.
        more: usize,
    },
    /// There is no policy file.
    NoPolicyFile,
    /// `CL.THROTTLE` is disabled.
    ThrottleDisabled,
    /// The user may not reset the statistics.
    MayNotReset,
    /// An effect cannot be applied to the key.
    EffectMismatch,
    /// More keys than one command may have.
    TooManyEffects(usize),
    /// The command panicked.
    Internal,
}

impl Error {
    /// An argument is refused.
    #[cold]
    pub fn invalid(reason: impl fmt::Display) -> Self {
        Self::Invalid(reason.to_string())
    }

    /// The key holds this value, the limits of a policy.
    #[cold]
    pub fn holds_policy(value: &Value, requested: Algorithm) -> Self {
        Self::HoldsPolicy { key: None, held: value.algorithms(), requested }
    }

    /// Names the key that the error is about, for commands with several keys.
    #[cold]
    #[must_use]
    pub fn with_key(mut self, name: &[u8]) -> Self {
        if let Self::WrongType(key) | Self::WrongAlgorithm(key, _) | Self::HoldsPolicy { key, .. } = &mut self {
            *key = Some(name.to_vec());
        }
        self
    }
}

impl From<WrongAlgorithm> for Error {
    #[cold]
    fn from(error: WrongAlgorithm) -> Self {
        Self::WrongAlgorithm(None, error)
    }
}

impl From<ArgumentError> for Error {
    fn from(error: ArgumentError) -> Self {
        Self::invalid(error)
    }
}

/// The server's own message for a key of another type.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongArity => f.write_str("ERR wrong number of arguments"),
            Self::Invalid(reason) => write!(f, "ERR {reason}"),
            Self::InvalidInteger { name, given, min, max } => {
                write!(f, "ERR invalid {name} {}: expected an integer from {min} to {max}", Quoted(given))
            }
            Self::MissingLimits { expected, found } => {
                write!(f, "ERR numlimits is {expected}, but limits given: {found}; each limit is ALGORITHM key a b")
            }
            Self::UnknownOption { given, expected } => {
                write!(f, "ERR unknown option {}: expected {expected}", Quoted(given))
            }
            Self::DuplicateOption(option) => write!(f, "ERR duplicate option {option}"),
            Self::MissingValue { option, expected } => write!(f, "ERR {option} requires a value: {expected}"),
            Self::DuplicateKey(key) => write!(f, "ERR duplicate key {}", Quoted(key)),
            Self::WrongType(None) => f.write_str(WRONG_TYPE),
            Self::WrongType(Some(key)) => write!(f, "{WRONG_TYPE}: {}", Quoted(key)),
            Self::WrongAlgorithm(key, algorithms) => wrong_algorithm(f, key.as_deref(), algorithms),
            Self::HoldsPolicy { key, held, requested } => {
                let held = format_args!("the limits of a policy ({}), not {}", held.join(", "), requested.name());
                wrong_algorithm(f, key.as_deref(), held)
            }
            Self::HoldsLimiter(held) => {
                wrong_algorithm(f, None, format_args!("a {} limiter, not the limits of a policy", held.name()))
            }
            Self::UnknownPolicy { name, known, more } => {
                write!(f, "ERR unknown policy {}, ", Quoted(name))?;
                match more {
                    _ if known.is_empty() => f.write_str("no policies are defined, create one with RL.POLICY SET"),
                    0 => write!(f, "known policies: {}", known.join(", ")),
                    more => write!(f, "known policies: {} and {more} more", known.join(", ")),
                }
            }
            Self::NoPolicyFile => {
                f.write_str("ERR this instance is not configured to use a policy file, see ratelimit.policy-file")
            }
            Self::ThrottleDisabled => f.write_str("ERR CL.THROTTLE is disabled, see ratelimit.cl-throttle"),
            Self::MayNotReset => f.write_str(
                "NOPERM RL.STATS RESET requires the permission to run CONFIG RESETSTAT, and is not allowed from scripts",
            ),
            Self::EffectMismatch => f.write_str("ERR the effect does not match the value of the key"),
            Self::TooManyEffects(most) => write!(f, "ERR too many effects: expected at most {most}"),
            Self::Internal => f.write_str("ERR internal error in redis-ratelimit, see the server log"),
        }
    }
}

fn wrong_algorithm(
    f: &mut fmt::Formatter<'_>,
    key: Option<&[u8]>,
    held_and_requested: impl fmt::Display,
) -> fmt::Result {
    f.write_str("WRONGTYPE key ")?;
    if let Some(key) = key {
        write!(f, "{} ", Quoted(key))?;
    }
    write!(f, "holds {held_and_requested}; delete the key to start over")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_a_code() {
        let key = Some(b"k\n".to_vec());
        let algorithms = WrongAlgorithm { held: Algorithm::TokenBucket, requested: Algorithm::SlidingLog };
        for (error, message) in [
            (
                Error::WrongAlgorithm(None, algorithms),
                "WRONGTYPE key holds a TOKENBUCKET limiter, not SLIDINGLOG; delete the key to start over",
            ),
            (
                Error::HoldsPolicy { key, held: vec!["TOKENBUCKET", "SLIDINGLOG"], requested: Algorithm::FixedWindow },
                "WRONGTYPE key 'k\\n' holds the limits of a policy (TOKENBUCKET, SLIDINGLOG), not FIXEDWINDOW; delete \
                 the key to start over",
            ),
            (
                Error::UnknownPolicy { name: b"x".to_vec(), known: vec!["a".to_owned(), "b".to_owned()], more: 3 },
                "ERR unknown policy 'x', known policies: a, b and 3 more",
            ),
            (
                Error::UnknownPolicy { name: b"x".to_vec(), known: Vec::new(), more: 0 },
                "ERR unknown policy 'x', no policies are defined, create one with RL.POLICY SET",
            ),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
}
