//! Numbers as commands spell them: amounts, decimals and durations.

use super::{ArgumentError, Micros, DAY, MAX_AMOUNT, SECOND};

/// The form of an amount, for messages.
pub const AMOUNT_FORM: &str = "an integer from 1 to 9007199254740991";

/// Reads an amount: a capacity, a limit or a cost.
///
/// # Errors
/// When it is not an integer from 1 to [`MAX_AMOUNT`].
#[inline(always)]
pub fn parse_amount(name: &'static str, text: &[u8]) -> Result<u64, ArgumentError> {
    amount(text).ok_or_else(|| ArgumentError::expected(name, text, AMOUNT_FORM))
}

#[inline(always)]
pub(super) fn amount(text: &[u8]) -> Option<u64> {
    // Sixteen digits fit a u64: nothing wraps.
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    let mut value = 0_u64;
    for &c in text {
        value = value.wrapping_mul(10).wrapping_add(digit(c)?);
    }
    is_amount(value).then_some(value)
}

#[inline(always)]
pub(super) fn is_amount(value: u64) -> bool {
    (1..=MAX_AMOUNT).contains(&value)
}

#[inline(always)]
fn digit(c: u8) -> Option<u64> {
    c.is_ascii_digit().then(|| u64::from(c - b'0'))
}

/// A decimal number: `mantissa / 10^places`.
pub(super) struct Decimal {
    pub mantissa: u64,
    pub places: u32,
    /// Whether non-zero digits beyond the kept places were dropped.
    cut: bool,
}

impl Decimal {
    pub const fn is_integer(&self) -> bool {
        self.places == 0 && !self.cut
    }
}

/// Reads `digits` or `digits.digits` with at most `max_places` places, and returns the rest of the text. `None` also for
/// more than 18 significant digits.
#[inline(always)]
pub(super) fn decimal(text: &[u8], max_places: u32) -> Option<(Decimal, &[u8])> {
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

/// Reads a duration: seconds, or a number with a unit. `None` also if it is not whole microseconds.
#[inline(always)]
pub(super) fn duration(text: &[u8]) -> Option<Micros> {
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
pub(super) fn unit_length(unit: &[u8]) -> Option<Micros> {
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
