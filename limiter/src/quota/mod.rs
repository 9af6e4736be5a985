//! Quotas: the parameters of the algorithms, how they are written, and their bounds.
//!
//! A value of these types is valid by construction, so the algorithms calculate without checks: their arithmetic fits
//! because of the bounds below.

mod bucket;
mod display;
mod error;
mod number;
mod window;

use std::fmt::Debug;

pub use bucket::{BucketQuota, Rate};
pub use display::DurationDisplay;
pub use error::{ArgumentError, Quoted};
pub use number::{parse_amount, AMOUNT_FORM};
pub use window::WindowQuota;

use crate::varint::{Reader, Sink};

/// Microseconds: a duration, or a time since the epoch.
pub type Micros = u64;

/// The largest capacity, limit or cost: the largest integer that every client represents exactly.
pub const MAX_AMOUNT: u64 = (1 << 53) - 1;
/// The latest time, some 36,000 years after the epoch. Any wait can be added to it.
pub const MAX_TIME: Micros = 1 << 60;

const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
/// Ten years of 365 days.
const MAX_WINDOW: Micros = 3_650 * DAY;

/// The two parameters of an algorithm. Several algorithms share a type of parameters.
pub trait Parameters: Copy + Debug + PartialEq {
    /// Reads the two words of a command; `None` if one of them is invalid.
    fn parse(a: &[u8], b: &[u8]) -> Option<Self>;

    /// Why [`Self::parse`] refuses these words.
    fn argument_error(a: &[u8], b: &[u8]) -> ArgumentError;

    /// The capacity or limit.
    fn limit(&self) -> u64;

    /// Writes the parameters.
    fn encode(&self, out: &mut impl Sink);

    /// Reads what [`Self::encode`] wrote; `None` for anything else.
    fn decode(reader: &mut Reader<'_>) -> Option<Self>;
}
