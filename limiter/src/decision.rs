//! The decision on a request.

use crate::Micros;

/// The decision on a request, and the state of the limiter after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may proceed.
    pub allowed: bool,
    /// Whether its cost was taken: it was allowed, or forced.
    pub taken: bool,
    /// The capacity or limit in force.
    pub limit: u64,
    /// The remaining quota, rounded down.
    pub remaining: u64,
    /// When the same request would be allowed.
    pub retry: Retry,
    /// The time until the limit fully resets.
    pub reset_after: Micros,
    /// How long to delay the request so that requests are evenly spaced; only a leaky bucket tells.
    pub delay: Option<Micros>,
}

/// When the same request would be allowed, if no other comes first. Later is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// It was allowed.
    Now,
    /// After exactly this time.
    After(Micros),
    /// Never: it costs more than the limit.
    Never,
}

/// The integers of a reply, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// `allowed`, `limit`, `remaining`, `retry_after_ms`, `reset_after_ms`.
    pub five: [i64; 5],
    /// `delay_ms`, for a leaky bucket.
    pub delay: Option<i64>,
}

impl Retry {
    /// The wait in milliseconds, rounded up; -1 for never.
    pub fn to_millis(self) -> i64 {
        match self {
            Self::Now => 0,
            Self::After(wait) => to_millis(wait),
            Self::Never => -1,
        }
    }
}

impl Decision {
    /// The same decision with every wait longer by `time`. The delay is no wait: it is the distance from the request
    /// before.
    pub(crate) fn with_longer_waits(self, time: Micros) -> Self {
        let longer = |wait| if wait == 0 { 0 } else { wait + time };
        let retry = match self.retry {
            Retry::After(wait) => Retry::After(longer(wait)),
            retry => retry,
        };
        Self { retry, reset_after: longer(self.reset_after), ..self }
    }

    /// The integers of the reply.
    pub fn to_reply(self) -> Reply {
        Reply {
            five: [
                i64::from(self.allowed),
                to_integer(self.limit),
                to_integer(self.remaining),
                self.retry.to_millis(),
                to_millis(self.reset_after),
            ],
            delay: self.delay.map(to_millis),
        }
    }
}

/// Milliseconds, rounded up, so that a client that waits for them waits long enough.
#[allow(clippy::manual_div_ceil)] // half the instructions, and no time is long enough to overflow
fn to_millis(time: Micros) -> i64 {
    to_integer((time + 999) / 1_000)
}

/// Amounts are below 2^54, and times below 2^62.
fn to_integer(value: u64) -> i64 {
    value.cast_signed()
}
