//! The parameters of windows: a limit and a length.

use super::number::{amount, duration, is_amount, AMOUNT_FORM};
use super::{ArgumentError, Micros, Parameters, MAX_WINDOW};
use crate::varint::{push_varint, Reader, Sink};

const MIN_WINDOW: Micros = 1_000;

const WINDOW_FORM: &str = "seconds such as 60 or 0.5, or a number with a unit (us, ms, s, m, h, d, w) such as 500ms \
                           or 1d, in whole microseconds from 1ms to 10 years";

/// At most `limit` in each `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowQuota {
    limit: u64,
    window: Micros,
}

impl WindowQuota {
    /// At most `limit` in each `window`; `None` if one of them is out of range.
    #[inline(always)]
    pub fn new(limit: u64, window: Micros) -> Option<Self> {
        (is_amount(limit) && (MIN_WINDOW..=MAX_WINDOW).contains(&window)).then_some(Self { limit, window })
    }

    /// The numbers of a quota that was checked before.
    pub(crate) const fn new_unchecked(limit: u64, window: Micros) -> Self {
        Self { limit, window }
    }

    /// How much may be taken in each window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of a window.
    pub const fn window(&self) -> Micros {
        self.window
    }
}

impl Parameters for WindowQuota {
    #[inline(always)]
    fn parse(limit: &[u8], window: &[u8]) -> Option<Self> {
        Self::new(amount(limit)?, duration(window)?)
    }

    fn argument_error(limit: &[u8], window: &[u8]) -> ArgumentError {
        match amount(limit) {
            None => ArgumentError::expected("limit", limit, AMOUNT_FORM),
            Some(_) => ArgumentError::expected("window", window, WINDOW_FORM),
        }
    }

    #[inline(always)]
    fn limit(&self) -> u64 {
        self.limit
    }

    fn encode(&self, out: &mut impl Sink) {
        push_varint(out, self.limit);
        push_varint(out, self.window);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Self::new(reader.varint()?, reader.varint()?)
    }
}
