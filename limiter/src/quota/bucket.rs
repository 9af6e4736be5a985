//! The parameters of buckets: a capacity and a rate.

use super::number::{amount, decimal, duration, is_amount, unit_length, AMOUNT_FORM};
use super::{ArgumentError, Micros, Parameters, DAY, MAX_WINDOW, SECOND};
use crate::varint::{push_varint, Reader, Sink};

/// A hundred years of 365 days.
const MAX_FILL: Micros = 36_500 * DAY;
/// A billion tokens a second.
const MAX_TOKENS_PER_MICRO: u64 = 1_000;

/// Decimal places of a rate that count; further ones are dropped, so the rate is never higher than written. A rate that
/// was computed with floats (`1.6666666666666667`) is accepted: no float has more digits than fit beside them.
pub(super) const RATE_PLACES: u32 = 12;

const RATE_FORM: &str = "tokens per second such as 10 or 0.6, in up to 18 digits, or a count per period such as 3/5s \
                         or 100/m (units: us, ms, s, m, h, d, w), from 1 per 10 years to 1000000000 per second";

/// How fast a bucket refills: exactly `count` tokens every `period` microseconds, in lowest terms, so equal rates are
/// equal values however they were written.
///
/// ```
/// use limiter::Rate;
///
/// let rate = Rate::new(6, 10_000_000).unwrap();
/// assert_eq!((rate.count(), rate.period()), (3, 5_000_000));
/// assert_eq!(rate.to_string(), "36/m");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period: Micros,
}

impl Rate {
    /// `count` tokens every `period`; `None` beyond the bounds of a rate or of the arithmetic.
    #[inline(always)]
    pub fn new(count: u64, period: Micros) -> Option<Self> {
        // Keeps products of a count and a time, and of two periods, below 2^120.
        const MAX_TERM: u64 = 10_u64.pow(18);
        if count == 0 || period == 0 {
            return None;
        }
        let (count, period) = lowest_terms(count, period);
        let in_range = count <= MAX_TERM
            && period <= MAX_TERM
            && u128::from(count) <= u128::from(period) * u128::from(MAX_TOKENS_PER_MICRO)
            && u128::from(period) <= u128::from(count) * u128::from(MAX_WINDOW);
        in_range.then_some(Self { count, period })
    }

    #[inline(always)]
    fn parse(text: &[u8]) -> Option<Self> {
        let (number, rest) = decimal(text, RATE_PLACES)?;
        match rest.split_first() {
            None => Self::new(number.mantissa, SECOND * 10_u64.pow(number.places)),
            Some((b'/', period)) if number.is_integer() && is_amount(number.mantissa) => {
                // A unit alone is one of it: 100/m.
                Self::new(number.mantissa, unit_length(period).or_else(|| duration(period))?)
            }
            Some(_) => None,
        }
    }

    /// The tokens that are added every [`Self::period`].
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The time in which [`Self::count`] tokens are added.
    pub const fn period(&self) -> Micros {
        self.period
    }
}

/// The same ratio in lowest terms; neither number is zero.
#[inline(always)]
fn lowest_terms(a: u64, b: u64) -> (u64, u64) {
    if b.is_multiple_of(a) {
        // The usual case, such as 100/m.
        return (1, b / a);
    }
    let divisor = greatest_common_divisor(a, b);
    (a / divisor, b / divisor)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A capacity and the rate at which it refills or drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketQuota {
    capacity: u64,
    rate: Rate,
}

impl BucketQuota {
    /// A bucket of `capacity` at `rate`; `None` if the capacity is out of range or takes over a hundred years to fill.
    #[inline(always)]
    pub fn new(capacity: u64, rate: Rate) -> Option<Self> {
        let fills = u128::from(capacity) * u128::from(rate.period) <= u128::from(rate.count) * u128::from(MAX_FILL);
        (is_amount(capacity) && fills).then_some(Self { capacity, rate })
    }

    /// The numbers of a quota that was checked before.
    pub(crate) const fn new_unchecked(capacity: u64, count: u64, period: Micros) -> Self {
        Self { capacity, rate: Rate { count, period } }
    }

    /// How many tokens it holds.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How fast it refills.
    pub const fn rate(&self) -> &Rate {
        &self.rate
    }
}

impl Parameters for BucketQuota {
    #[inline(always)]
    fn parse(capacity: &[u8], rate: &[u8]) -> Option<Self> {
        Self::new(amount(capacity)?, Rate::parse(rate)?)
    }

    fn argument_error(capacity: &[u8], rate: &[u8]) -> ArgumentError {
        match (amount(capacity), Rate::parse(rate)) {
            (None, _) => ArgumentError::expected("capacity", capacity, AMOUNT_FORM),
            (Some(_), None) => ArgumentError::expected("rate", rate, RATE_FORM),
            (Some(capacity), Some(_)) => ArgumentError::fills_too_slowly(capacity, rate),
        }
    }

    #[inline(always)]
    fn limit(&self) -> u64 {
        self.capacity
    }

    fn encode(&self, out: &mut impl Sink) {
        push_varint(out, self.capacity);
        push_varint(out, self.rate.count);
        push_varint(out, self.rate.period);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let capacity = reader.varint()?;
        Self::new(capacity, Rate::new(reader.varint()?, reader.varint()?)?)
    }
}
