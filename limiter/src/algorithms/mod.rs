//! The algorithms: a file each, with its state, its arithmetic, its packed form and its encoding.
//!
//! The table below lists them. What exists once for each algorithm, and the dispatch to one of them, is made from it; a
//! `match` elsewhere has no wildcard that a new algorithm could fall into. [`Tracker`] has the rules that all algorithms
//! share.

mod arithmetic;
mod fixed_window;
mod leaky_bucket;
pub mod packed;
mod sliding_counter;
pub mod sliding_log;
mod token_bucket;
mod tracker;

use std::fmt;

pub use fixed_window::FixedWindow;
pub use leaky_bucket::LeakyBucket;
pub use sliding_counter::SlidingCounter;
pub use sliding_log::SlidingLog;
pub use token_bucket::TokenBucket;
pub use tracker::{State, Tracker};

use crate::encoding::POLICY;
use crate::varint::{Reader, Sink};
use crate::{ArgumentError, BucketQuota, Decision, Entries, Micros, Parameters, Request, WindowQuota};

/// An algorithm's line of the table, seen from its state.
pub trait Listed: Sized {
    /// Its parameters.
    type Quota: Parameters;
    /// Its name.
    const ALGORITHM: Algorithm;

    /// The parameters of a quota, if the quota is for this algorithm.
    fn quota(quota: &Quota) -> Option<&Self::Quota>;

    /// The algorithm's unpacked limiter among those of all algorithms.
    fn unpacked(tracker: Tracker<Self>) -> Unpacked
    where
        Self: State;
}

macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident($quota:ty) = $tag:literal, $word:literal;)*) => {
        /// An algorithm.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Algorithm {
            $($(#[$doc])* $name,)*
        }

        impl Algorithm {
            /// All algorithms.
            pub const ALL: [Self; [$($tag),*].len()] = [$(Self::$name),*];

            /// Its name in commands.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// The byte that stands for it in everything that is saved or replicated.
            pub(crate) const fn tag(self) -> u8 {
                match self {
                    $(Self::$name => $tag,)*
                }
            }
        }

        // Decoders tell algorithms, and policies, by their tags.
        const _: () = {
            let tags = [$($tag),*];
            let mut index = 0;
            while index < tags.len() {
                assert!(0 < tags[index] && tags[index] < POLICY, "a tag is out of range");
                let mut other = 0;
                while other < index {
                    assert!(tags[index] != tags[other], "two algorithms have the same tag");
                    other += 1;
                }
                index += 1;
            }
        };

        /// An algorithm with its parameters.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Quota {
            $($(#[$doc])* $name($quota),)*
        }

        impl Quota {
            /// Reads the two parameters of an algorithm, as they stand in a command.
            ///
            /// # Errors
            /// When a parameter is malformed or out of range.
            #[inline(always)]
            pub fn parse(algorithm: Algorithm, a: &[u8], b: &[u8]) -> Result<Self, ArgumentError> {
                // Every request passes here, and hardly any has an error: its cause is looked for when there is one.
                let quota = match algorithm {
                    $(Algorithm::$name => Parameters::parse(a, b).map(Self::$name),)*
                };
                quota.ok_or_else(|| Self::argument_error(algorithm, a, b))
            }

            #[cold]
            fn argument_error(algorithm: Algorithm, a: &[u8], b: &[u8]) -> ArgumentError {
                match algorithm {
                    $(Algorithm::$name => <$quota>::argument_error(a, b),)*
                }
            }

            /// The algorithm that the parameters are for.
            pub const fn algorithm(&self) -> Algorithm {
                match self {
                    $(Self::$name(_) => Algorithm::$name,)*
                }
            }

            /// The capacity or limit.
            pub fn limit(&self) -> u64 {
                match self {
                    $(Self::$name(quota) => Parameters::limit(quota),)*
                }
            }

            /// Writes the algorithm's tag and the parameters.
            pub fn encode(&self, out: &mut impl Sink) {
                out.push_byte(self.algorithm().tag());
                match self {
                    $(Self::$name(quota) => quota.encode(out),)*
                }
            }

            /// Reads what [`Self::encode`] wrote; `None` for anything else.
            pub fn decode(reader: &mut Reader<'_>) -> Option<Self> {
                Some(match reader.byte()? {
                    $($tag => Self::$name(Parameters::decode(reader)?),)*
                    _ => return None,
                })
            }
        }

        /// The quota and the state of a limiter of any algorithm.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, private_interfaces)] // the content of a variant is its algorithm's own
        pub enum Unpacked {
            $($name(Tracker<$name>),)*
        }

        impl Unpacked {
            /// A limiter of which nothing is used.
            pub fn new(quota: &Quota) -> Self {
                match *quota {
                    $(Quota::$name(quota) => Self::$name(Tracker::new(quota)),)*
                }
            }

            /// Reads what [`Self::encode`] wrote; `None` for anything else.
            pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
                Some(match Quota::decode(reader)? {
                    $(Quota::$name(quota) => {
                        Self::$name(Tracker { quota, state: State::decode(reader, &quota)? })
                    })*
                })
            }

            /// The quota it was last used with.
            pub const fn quota(&self) -> Quota {
                match self {
                    $(Self::$name(it) => Quota::$name(it.quota),)*
                }
            }
        }

        /// Evaluates the same expression with the tracker of any algorithm.
        macro_rules! with_tracker {
            ($unpacked:expr, $it:ident => $body:expr) => {
                match $unpacked {
                    $(Unpacked::$name($it) => $body,)*
                }
            };
        }

        $(impl Listed for $name {
            type Quota = $quota;
            const ALGORITHM: Algorithm = Algorithm::$name;

            #[inline(always)]
            fn quota(quota: &Quota) -> Option<&$quota> {
                if let Quota::$name(quota) = quota { Some(quota) } else { None }
            }

            fn unpacked(tracker: Tracker<Self>) -> Unpacked {
                Unpacked::$name(tracker)
            }
        })*
    };
}

// The numbers stand in files and replication streams: they are never changed.
algorithms! {
    /// A bucket of tokens that refills at a steady rate.
    TokenBucket(BucketQuota) = 1, "TOKENBUCKET";
    /// A queue that drains at a steady rate.
    LeakyBucket(BucketQuota) = 2, "LEAKYBUCKET";
    /// A count that starts at zero in each window.
    FixedWindow(WindowQuota) = 3, "FIXEDWINDOW";
    /// A log of every request in the last window.
    SlidingLog(WindowQuota) = 4, "SLIDINGLOG";
    /// The counts of two windows, the older one weighted.
    SlidingCounter(WindowQuota) = 5, "SLIDINGCOUNTER";
}

impl Algorithm {
    /// The algorithm of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        // Upper case is the usual case, and a few instructions cheaper.
        let exact = Self::ALL.into_iter().find(|it| it.name().as_bytes() == name);
        exact.or_else(|| Self::ALL.into_iter().find(|it| it.name().as_bytes().eq_ignore_ascii_case(name)))
    }
}

/// A quota was used on a limiter of another algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongAlgorithm {
    /// The limiter's algorithm.
    pub held: Algorithm,
    /// The quota's algorithm.
    pub requested: Algorithm,
}

impl std::error::Error for WrongAlgorithm {}

impl fmt::Display for WrongAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} limiter, not {}", self.held.name(), self.requested.name())
    }
}

impl Unpacked {
    /// See [`crate::Limiter::request`].
    ///
    /// # Errors
    /// When the quota is for another algorithm; nothing has changed then.
    // Inlined where the algorithm is known, only that of a log is left.
    #[inline(always)]
    pub fn request(&mut self, quota: &Quota, request: Request) -> Result<Decision, WrongAlgorithm> {
        with_tracker!(self, it => Ok(it.request(it.own_quota(quota)?, request)))
    }

    /// See [`crate::Limiter::peek`].
    ///
    /// # Errors
    /// When the quota is for another algorithm.
    pub fn peek(&self, quota: &Quota, cost: u64, now: Micros) -> Result<Decision, WrongAlgorithm> {
        with_tracker!(self, it => Ok(it.peek(it.own_quota(quota)?, cost, now)))
    }

    /// See [`crate::Limiter::peek_current`].
    pub fn peek_current(&self, cost: u64, now: Micros) -> Decision {
        with_tracker!(self, it => it.peek(&it.quota, cost, now))
    }

    /// See [`crate::Limiter::refund`].
    pub fn refund(&mut self, amount: u64, now: Micros) -> bool {
        with_tracker!(self, it => it.refund(amount, now))
    }

    /// See [`crate::Limiter::used`].
    pub fn used(&self, now: Micros) -> u64 {
        with_tracker!(self, it => it.used(now))
    }

    /// When something was last taken or given back, or 0; a log knows only its newest entry.
    pub fn last_changed(&self) -> Micros {
        with_tracker!(self, it => it.state.last_taken())
    }

    /// See [`crate::Limiter::resets_at`].
    pub fn resets_at(&self, now: Micros) -> Micros {
        with_tracker!(self, it => it.resets_at(now))
    }

    /// The entries of a log.
    pub fn entries(&self) -> Option<&Entries> {
        with_tracker!(self, it => it.state.entries())
    }

    /// The entries of a log, to move them or to append to them.
    pub fn entries_mut(&mut self) -> Option<&mut Entries> {
        with_tracker!(self, it => it.state.entries_mut())
    }

    /// Writes the quota and the state, but not the entries of a log.
    pub(crate) fn encode(&self, out: &mut impl Sink) {
        self.quota().encode(out);
        with_tracker!(self, it => it.state.encode(out));
    }
}
