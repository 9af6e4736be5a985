//! The rate limiters of redis-ratelimit: five algorithms with exact integer arithmetic.
//!
//! A [`Limiter`] is a plain value. It knows no clock, no Redis and no global state: every call gets the time with the
//! [`Request`], so the same calls give the same result on every machine.
//!
//! ```
//! use limiter::{Algorithm, Limiter, Quota, Request, Retry};
//!
//! // Ten tokens, refilled at one a second.
//! let quota = Quota::parse(Algorithm::TokenBucket, b"10", b"1/s")?;
//! let mut limiter = Limiter::new(&quota);
//!
//! let now = 1_790_000_000_000_000; // microseconds since the epoch
//! let decision = limiter.request(&quota, Request::new(10, now))?;
//! assert!(decision.allowed);
//! assert_eq!(decision.remaining, 0);
//!
//! // The bucket is empty: the next token comes in a second.
//! let decision = limiter.request(&quota, Request::new(1, now))?;
//! assert!(!decision.allowed);
//! assert_eq!(decision.retry, Retry::After(1_000_000));
//! assert!(limiter.request(&quota, Request::new(1, now + 1_000_000))?.allowed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`request_all`] checks a request against several limits, all or nothing. A [`Value`] is what a key of the module
//! holds: one limiter, or the limits of a policy. It can be encoded, saved and loaded; decoding trusts no input.

#![forbid(unsafe_code)]

mod algorithms;
mod decision;
mod encoding;
mod limiter;
mod multi;
mod policy_name;
mod quota;
mod rdb;
mod request;
mod value;
pub mod varint;

pub use algorithms::sliding_log::{Entries, Entry, Queue, Segment};
pub use algorithms::{Algorithm, Quota, Unpacked, WrongAlgorithm};
pub use decision::{Decision, Reply, Retry};
pub use encoding::{
    decode_policy_name, decode_quotas, decode_segment, encode_policy_name, encode_quotas, encode_segment, DecodeError,
    VALUE_VERSION,
};
pub use limiter::Limiter;
pub use multi::{request_all, Limits, PerLimit, Verdict, WrongAlgorithmAt, MAX_LIMITS};
pub use policy_name::PolicyName;
pub use quota::{
    parse_amount, ArgumentError, BucketQuota, DurationDisplay, Micros, Parameters, Quoted, Rate, WindowQuota,
    AMOUNT_FORM, MAX_AMOUNT, MAX_TIME,
};
pub use rdb::{RdbReader, RdbWriter};
pub use request::{Mode, Request};
pub use value::{PolicyLimits, Value, ValueDecision};
