//! What a client asks for.

use crate::Micros;

/// A request to a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How much to take.
    pub cost: u64,
    /// What happens if there is not enough.
    pub mode: Mode,
    /// When the request is decided, in microseconds since the epoch.
    pub now: Micros,
}

/// What happens if less than the cost is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The request is denied and takes nothing.
    #[default]
    Enforce,
    /// The request is denied and takes its cost all the same.
    Force,
}

impl Request {
    /// A request that takes its cost if it is allowed.
    pub const fn new(cost: u64, now: Micros) -> Self {
        Self { cost, mode: Mode::Enforce, now }
    }

    /// A request that takes its cost in any case.
    pub const fn forced(cost: u64, now: Micros) -> Self {
        Self { cost, mode: Mode::Force, now }
    }

    /// The same request at another time.
    #[must_use]
    pub const fn at(self, now: Micros) -> Self {
        Self { now, ..self }
    }

    /// Whether it takes its cost even if it is denied.
    #[inline(always)]
    pub(crate) const fn is_forced(&self) -> bool {
        matches!(self.mode, Mode::Force)
    }
}
