//! What the numbers of a command mean: amounts, durations, rates, and the quotas made of them.
//!
//! Everything is decided here, once: how they are written, their bounds, and the exact integers they become. A value
//! of these types is valid by construction, so the limiters calculate without checking; their arithmetic fits because
//! of the bounds below.

use std::fmt;

/// Microseconds, as a length of time or since the epoch.
pub type Micros = u64;

/// The largest amount (capacity, limit, cost): the largest integer that every client can hold.
pub const MAX_AMOUNT: u64 = (1 << 53) - 1;
/// The latest instant that is calculated with, some 36,000 years away; it leaves room to add any wait to it.
pub const MAX_TIME: Micros = 1 << 60;

const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
const MIN_WINDOW: Micros = 1_000;
/// Ten years, of 365 days each.
const MAX_WINDOW: Micros = 3_650 * DAY;
/// A hundred years, of 365 days each.
const MAX_FILL: Micros = 36_500 * DAY;
/// A billion tokens a second.
const MAX_TOKENS_PER_MICRO: u64 = 1_000;

/// Decimal places of a rate that count. Further ones are dropped: a rate calculated with floats (`1.6666666666666667`)
/// is to work, and may only come out slower than it was written.
const RATE_PLACES: u32 = 12;

/// What an amount looks like, for messages.
pub const AMOUNT_FORM: &str = "an integer from 1 to 9007199254740991";
const RATE_FORM: &str = "tokens per second such as 10 or 0.6, or a count per period such as 3/5s or 100/m \
                         (units: us, ms, s, m, h, d, w), from 1 per 10 years to 1000000000 per second";
const WINDOW_FORM: &str = "seconds such as 60 or 0.5, or a number with a unit (us, ms, s, m, h, d, w) such as 500ms \
                           or 1d, in whole microseconds from 1ms to 10 years";

/// An argument that cannot be accepted: its name, what was given, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadArgument {
    name: &'static str,
    given: Vec<u8>,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Expected(&'static str),
    FillsTooSlowly { capacity: u64 },
}

impl BadArgument {
    fn expected(name: &'static str, given: &[u8], form: &'static str) -> Self {
        Self { name, given: given.to_vec(), problem: Problem::Expected(form) }
    }
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid {} {}: ", self.name, Quoted(&self.given))?;
        match self.problem {
            Problem::Expected(form) => write!(f, "expected {form}"),
            Problem::FillsTooSlowly { capacity } => {
                write!(f, "a bucket of {capacity} would take longer than 100 years to fill")
            }
        }
    }
}

/// Bytes from a client, quoted so that a message stays one short, printable line.
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        let more = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "'{}{more}'", shown.escape_ascii())
    }
}

/// Reads an amount: a capacity, a limit or a cost.
///
/// # Errors
/// When it is not an integer from 1 to [`MAX_AMOUNT`].
pub fn parse_amount(name: &'static str, text: &[u8]) -> Result<u64, BadArgument> {
    amount(text).ok_or_else(|| BadArgument::expected(name, text, AMOUNT_FORM))
}

fn amount(text: &[u8]) -> Option<u64> {
    // No amount has more digits, and so many fit a u64 without a check at each.
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let mut value = 0;
    for &c in text {
        value = value * 10 + u64::from(digit(c)?);
    }
    is_amount(value).then_some(value)
}

fn is_amount(value: u64) -> bool {
    (1..=MAX_AMOUNT).contains(&value)
}

fn digit(c: u8) -> Option<u8> {
    c.is_ascii_digit().then(|| c - b'0')
}

/// A decimal number: `mantissa / 10^places`.
struct Decimal {
    mantissa: u64,
    places: u32,
    /// Digits other than zero stood beyond the places that were kept.
    cut: bool,
}

/// Reads `digits` or `digits.digits`, keeping at most `max_places` places and 18 digits.
fn decimal(text: &[u8], max_places: u32) -> Option<Decimal> {
    const ROOM: u64 = 10_u64.pow(17);
    let point = text.iter().position(|&c| c == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[..0]),
    };
    if whole.is_empty() || (point.is_some() && fraction.is_empty()) {
        return None;
    }
    let mut number = Decimal { mantissa: 0, places: 0, cut: false };
    for &c in whole {
        if number.mantissa >= ROOM {
            return None;
        }
        number.mantissa = number.mantissa * 10 + u64::from(digit(c)?);
    }
    for &c in fraction {
        let digit = digit(c)?;
        if number.places < max_places && number.mantissa < ROOM {
            number.mantissa = number.mantissa * 10 + u64::from(digit);
            number.places += 1;
        } else if digit != 0 {
            number.cut = true;
        }
    }
    Some(number)
}

/// Reads a length of time: seconds, or a number with a unit. `None` also when it is not whole microseconds.
fn duration(text: &[u8]) -> Option<Micros> {
    let number_ends = text.iter().position(|c| !(c.is_ascii_digit() || *c == b'.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let unit = if unit.is_empty() { SECOND } else { unit_length(unit)? };
    let number = decimal(number, 17)?;
    let scaled = u128::from(number.mantissa) * u128::from(unit);
    let scale = 10_u128.pow(number.places);
    if number.cut || scaled % scale != 0 {
        return None;
    }
    u64::try_from(scaled / scale).ok()
}

fn unit_length(unit: &[u8]) -> Option<Micros> {
    Some(match unit {
        b"us" => 1,
        b"ms" => 1_000,
        b"s" => SECOND,
        b"m" => 60 * SECOND,
        b"h" => 3_600 * SECOND,
        b"d" => DAY,
        b"w" => 7 * DAY,
        _ => return None,
    })
}

/// How fast a bucket refills: exactly `count` tokens every `period` microseconds, in lowest terms, so that equal
/// rates are equal values however they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period: Micros,
}

impl Rate {
    /// `count` tokens every `period`, if that lies within the bounds of a rate and of the arithmetic.
    pub fn new(count: u64, period: Micros) -> Option<Self> {
        // Products of a count with a time, and of two periods, are to stay below 2^120.
        const MAX_TERM: u64 = 10_u64.pow(18);
        if count == 0 || period == 0 {
            return None;
        }
        let divisor = greatest_common_divisor(count, period);
        let (count, period) = (count / divisor, period / divisor);
        let in_range = count <= MAX_TERM
            && period <= MAX_TERM
            && u128::from(count) <= u128::from(period) * u128::from(MAX_TOKENS_PER_MICRO)
            && u128::from(period) <= u128::from(count) * u128::from(MAX_WINDOW);
        in_range.then_some(Self { count, period })
    }

    fn parse(text: &[u8]) -> Option<Self> {
        if let Some(slash) = text.iter().position(|&c| c == b'/') {
            let period = &text[slash + 1..];
            // A unit alone stands for one of it: 100/m.
            let period = unit_length(period).or_else(|| duration(period))?;
            Self::new(amount(&text[..slash])?, period)
        } else {
            let rate = decimal(text, RATE_PLACES)?;
            Self::new(rate.mantissa, SECOND * 10_u64.pow(rate.places))
        }
    }

    /// Tokens that come every [`Self::period`].
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The time in which [`Self::count`] tokens come.
    pub const fn period(&self) -> Micros {
        self.period
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The parameters of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketQuota {
    capacity: u64,
    rate: Rate,
}

impl BucketQuota {
    /// A bucket of `capacity` at `rate`, if the capacity is an amount and fills within a hundred years.
    pub fn new(capacity: u64, rate: Rate) -> Option<Self> {
        let fills = u128::from(capacity) * u128::from(rate.period) <= u128::from(rate.count) * u128::from(MAX_FILL);
        (is_amount(capacity) && fills).then_some(Self { capacity, rate })
    }

    fn parse(capacity: &[u8], rate: &[u8]) -> Result<Self, BadArgument> {
        let amount = parse_amount("capacity", capacity)?;
        let parsed = Rate::parse(rate).ok_or_else(|| BadArgument::expected("rate", rate, RATE_FORM))?;
        Self::new(amount, parsed).ok_or_else(|| BadArgument {
            name: "rate",
            given: rate.to_vec(),
            problem: Problem::FillsTooSlowly { capacity: amount },
        })
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

/// The parameters of a window: at most `limit` in each `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowQuota {
    limit: u64,
    window: Micros,
}

impl WindowQuota {
    /// At most `limit` in each `window`, if both are in range.
    pub fn new(limit: u64, window: Micros) -> Option<Self> {
        (is_amount(limit) && (MIN_WINDOW..=MAX_WINDOW).contains(&window)).then_some(Self { limit, window })
    }

    fn parse(limit: &[u8], window: &[u8]) -> Result<Self, BadArgument> {
        let limit = parse_amount("limit", limit)?;
        duration(window)
            .and_then(|length| Self::new(limit, length))
            .ok_or_else(|| BadArgument::expected("window", window, WINDOW_FORM))
    }

    /// How much may be taken in each window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a window is.
    pub const fn window(&self) -> Micros {
        self.window
    }
}

/// The five algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Tokens that refill.
    TokenBucket,
    /// A queue that drains evenly.
    LeakyBucket,
    /// A count that starts afresh at each boundary.
    FixedWindow,
    /// Every request of the last window.
    SlidingLog,
    /// Two counts, the older one weighted.
    SlidingCounter,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::TokenBucket, Self::LeakyBucket, Self::FixedWindow, Self::SlidingLog, Self::SlidingCounter];

    /// The name by which users know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "TOKENBUCKET",
            Self::LeakyBucket => "LEAKYBUCKET",
            Self::FixedWindow => "FIXEDWINDOW",
            Self::SlidingLog => "SLIDINGLOG",
            Self::SlidingCounter => "SLIDINGCOUNTER",
        }
    }
}

/// An algorithm with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the algorithms
pub enum Quota {
    TokenBucket(BucketQuota),
    LeakyBucket(BucketQuota),
    FixedWindow(WindowQuota),
    SlidingLog(WindowQuota),
    SlidingCounter(WindowQuota),
}

impl Quota {
    /// Reads the two parameters that every algorithm has, as they stand in a command.
    ///
    /// # Errors
    /// When one of them is not of its form or out of its range.
    pub fn parse(algorithm: Algorithm, a: &[u8], b: &[u8]) -> Result<Self, BadArgument> {
        Ok(match algorithm {
            Algorithm::TokenBucket => Self::TokenBucket(BucketQuota::parse(a, b)?),
            Algorithm::LeakyBucket => Self::LeakyBucket(BucketQuota::parse(a, b)?),
            Algorithm::FixedWindow => Self::FixedWindow(WindowQuota::parse(a, b)?),
            Algorithm::SlidingLog => Self::SlidingLog(WindowQuota::parse(a, b)?),
            Algorithm::SlidingCounter => Self::SlidingCounter(WindowQuota::parse(a, b)?),
        })
    }

    /// The algorithm whose parameters these are.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::TokenBucket(_) => Algorithm::TokenBucket,
            Self::LeakyBucket(_) => Algorithm::LeakyBucket,
            Self::FixedWindow(_) => Algorithm::FixedWindow,
            Self::SlidingLog(_) => Algorithm::SlidingLog,
            Self::SlidingCounter(_) => Algorithm::SlidingCounter,
        }
    }
}
