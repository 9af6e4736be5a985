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

pub(super) const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
const MIN_WINDOW: Micros = 1_000;
/// Ten years, of 365 days each.
const MAX_WINDOW: Micros = 3_650 * DAY;
/// A hundred years, of 365 days each.
const MAX_FILL: Micros = 36_500 * DAY;
/// A billion tokens a second.
const MAX_TOKENS_PER_MICRO: u64 = 1_000;

/// Decimal places of a rate that count. Further ones are dropped: a rate calculated with floats (`1.6666666666666667`)
/// is to work, and may only come out slower than it was written. No float has more digits than fit beside them.
pub(super) const RATE_PLACES: u32 = 12;

/// What an amount looks like, for messages.
pub const AMOUNT_FORM: &str = "an integer from 1 to 9007199254740991";
const RATE_FORM: &str = "tokens per second such as 10 or 0.6, in up to 18 digits, or a count per period such as 3/5s \
                         or 100/m (units: us, ms, s, m, h, d, w), from 1 per 10 years to 1000000000 per second";
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
    // No amount has more digits, and so many fit a u64: nothing wraps.
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let mut value = 0_u64;
    for &c in text {
        value = value.wrapping_mul(10).wrapping_add(digit(c)?);
    }
    is_amount(value).then_some(value)
}

fn is_amount(value: u64) -> bool {
    (1..=MAX_AMOUNT).contains(&value)
}

fn digit(c: u8) -> Option<u64> {
    c.is_ascii_digit().then(|| u64::from(c - b'0'))
}

/// A decimal number: `mantissa / 10^places`.
struct Decimal {
    mantissa: u64,
    places: u32,
    /// Digits other than zero stood beyond the places that were kept.
    cut: bool,
}

impl Decimal {
    const fn is_integer(&self) -> bool {
        self.places == 0 && !self.cut
    }
}

/// Reads `digits` or `digits.digits`, keeping at most `max_places` places, and returns what follows. `None` also when these
/// would be more than 18 digits.
#[inline(always)]
fn decimal(text: &[u8], max_places: u32) -> Option<(Decimal, &[u8])> {
    const ROOM: u64 = 10_u64.pow(17);
    let mut number = Decimal { mantissa: 0, places: 0, cut: false };
    let mut rest = text;
    while let Some((digit, after)) = split_digit(rest) {
        if number.mantissa >= ROOM {
            return None;
        }
        number.mantissa = number.mantissa * 10 + digit;
        rest = after;
    }
    if rest.len() == text.len() {
        return None;
    }
    let Some((b'.', mut rest)) = rest.split_first() else { return Some((number, rest)) };
    let mut place = 0_u32;
    while let Some((digit, after)) = split_digit(rest) {
        if place < max_places && number.mantissa < ROOM {
            number.mantissa = number.mantissa * 10 + digit;
            number.places += 1;
        } else if digit != 0 {
            if place < max_places {
                return None;
            }
            number.cut = true;
        }
        place = place.saturating_add(1);
        rest = after;
    }
    (place > 0).then_some((number, rest))
}

fn split_digit(text: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = text.split_first()?;
    Some((digit(first)?, rest))
}

/// Reads a length of time: seconds, or a number with a unit. `None` also when it is not whole microseconds.
#[inline(always)]
fn duration(text: &[u8]) -> Option<Micros> {
    let (number, unit) = decimal(text, 17)?;
    let unit = if unit.is_empty() { SECOND } else { unit_length(unit)? };
    if number.is_integer() {
        return number.mantissa.checked_mul(unit);
    }
    let scaled = u128::from(number.mantissa) * u128::from(unit);
    let scale = 10_u128.pow(number.places);
    if number.cut || scaled % scale != 0 {
        return None;
    }
    u64::try_from(scaled / scale).ok()
}

#[inline(always)]
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
                // A unit alone stands for one of it: 100/m.
                Self::new(number.mantissa, unit_length(period).or_else(|| duration(period))?)
            }
            Some(_) => None,
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

/// The same ratio in lowest terms; neither number is zero.
#[inline(always)]
fn lowest_terms(a: u64, b: u64) -> (u64, u64) {
    if b.is_multiple_of(a) {
        // So most rates are, such as 100/m.
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

    /// The quota that these numbers were taken from.
    pub(super) const fn of_known(capacity: u64, count: u64, period: Micros) -> Self {
        Self { capacity, rate: Rate { count, period } }
    }

    #[inline(always)]
    fn parse(capacity: &[u8], rate: &[u8]) -> Option<Self> {
        Self::new(amount(capacity)?, Rate::parse(rate)?)
    }

    /// Why [`Self::parse`] refuses these.
    fn problem(capacity: &[u8], rate: &[u8]) -> BadArgument {
        let Some(amount) = amount(capacity) else {
            return BadArgument::expected("capacity", capacity, AMOUNT_FORM);
        };
        match Rate::parse(rate) {
            None => BadArgument::expected("rate", rate, RATE_FORM),
            Some(_) => BadArgument {
                name: "rate",
                given: rate.to_vec(),
                problem: Problem::FillsTooSlowly { capacity: amount },
            },
        }
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

    /// The quota that these numbers were taken from.
    pub(super) const fn of_known(limit: u64, window: Micros) -> Self {
        Self { limit, window }
    }

    #[inline(always)]
    fn parse(limit: &[u8], window: &[u8]) -> Option<Self> {
        Self::new(amount(limit)?, duration(window)?)
    }

    /// Why [`Self::parse`] refuses these.
    fn problem(limit: &[u8], window: &[u8]) -> BadArgument {
        match amount(limit) {
            None => BadArgument::expected("limit", limit, AMOUNT_FORM),
            Some(_) => BadArgument::expected("window", window, WINDOW_FORM),
        }
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

    /// The algorithm of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        // Most people write it as it is written here, which is found out in a few instructions.
        let exact = Self::ALL.into_iter().find(|it| it.name().as_bytes() == name);
        exact.or_else(|| Self::ALL.into_iter().find(|it| it.name().as_bytes().eq_ignore_ascii_case(name)))
    }

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
    #[inline(always)]
    pub fn parse(algorithm: Algorithm, a: &[u8], b: &[u8]) -> Result<Self, BadArgument> {
        // Every request comes by here, hardly any with an error: what is wrong is found out when something is.
        let quota = match algorithm {
            Algorithm::TokenBucket => BucketQuota::parse(a, b).map(Self::TokenBucket),
            Algorithm::LeakyBucket => BucketQuota::parse(a, b).map(Self::LeakyBucket),
            Algorithm::FixedWindow => WindowQuota::parse(a, b).map(Self::FixedWindow),
            Algorithm::SlidingLog => WindowQuota::parse(a, b).map(Self::SlidingLog),
            Algorithm::SlidingCounter => WindowQuota::parse(a, b).map(Self::SlidingCounter),
        };
        quota.ok_or_else(|| Self::problem(algorithm, a, b))
    }

    #[cold]
    fn problem(algorithm: Algorithm, a: &[u8], b: &[u8]) -> BadArgument {
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => BucketQuota::problem(a, b),
            Algorithm::FixedWindow | Algorithm::SlidingLog | Algorithm::SlidingCounter => WindowQuota::problem(a, b),
        }
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
