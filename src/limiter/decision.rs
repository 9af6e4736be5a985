//! What a request is told.

use super::quota::Micros;

/// The outcome of a request, and where the limiter stands after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may go ahead.
    pub allowed: bool,
    /// Whether its cost was taken: when it was allowed, or forced.
    pub taken: bool,
    /// The capacity or limit in force.
    pub limit: u64,
    /// What is left for whoever asks next.
    pub remaining: u64,
    /// When the same request is worth another try.
    pub retry: Retry,
    /// Until the limiter is as good as new.
    pub reset_after: Micros,
    /// How long to hold the request; only a leaky bucket says so.
    pub delay: Option<Micros>,
}

/// When the same request would be allowed, if nobody else comes: the later, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// It was allowed.
    Now,
    /// After this long, and not before.
    After(Micros),
    /// Not ever: it costs more than the limit.
    Never,
}

/// The integers of a reply, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// What every algorithm says.
    pub five: [i64; 5],
    /// What a leaky bucket says besides.
    pub delay: Option<i64>,
}

impl Retry {
    /// The wait in milliseconds, rounded up; -1 where none is long enough.
    pub fn to_millis(self) -> i64 {
        match self {
            Self::Now => 0,
            Self::After(wait) => to_millis(wait),
            Self::Never => -1,
        }
    }
}

impl Decision {
    /// The same where every wait begins only after this time. How long to hold a request is no such wait: that is the
    /// distance from the request before.
    pub(super) fn waiting_longer_by(self, time: Micros) -> Self {
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

/// Milliseconds, rounded up: whoever waits that long has waited long enough.
#[allow(clippy::manual_div_ceil)] // half the instructions, and no time is long enough to overflow
fn to_millis(time: Micros) -> i64 {
    to_integer((time + 999) / 1_000)
}

/// Amounts are below 2^54, and times below 2^62.
fn to_integer(value: u64) -> i64 {
    value.cast_signed()
}
