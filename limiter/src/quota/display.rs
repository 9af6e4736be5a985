//! Rates and durations as people write them, in a form that parses to the same value.

use std::fmt;

use super::bucket::{Rate, RATE_PLACES};
use super::{Micros, MAX_AMOUNT, SECOND};

/// The units, longest first.
const UNITS: [(&str, Micros); 7] = [
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Displays a duration in the longest unit of which it is a whole number.
///
/// ```
/// assert_eq!(limiter::DurationDisplay(90_000_000).to_string(), "90s");
/// ```
pub struct DurationDisplay(pub Micros);

impl fmt::Display for DurationDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&(_, length): &(&str, Micros)| self.0.is_multiple_of(length);
        let (unit, length) = UNITS.into_iter().find(fits).unwrap_or(("us", 1));
        write!(f, "{}{unit}", self.0 / length)
    }
}

/// A whole number in the shortest unit from a second on: `10/s`, `36/m`; otherwise a count per period, `7/11s`; and if
/// the count is out of range, the decimal that was parsed.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_unit = |length: Micros| {
            let count = u128::from(self.count()) * u128::from(length);
            let period = u128::from(self.period());
            (count.is_multiple_of(period) && count / period <= u128::from(MAX_AMOUNT)).then(|| count / period)
        };
        let mut units = UNITS.into_iter().rev().skip_while(|(_, length)| *length < SECOND);
        match units.find_map(|(unit, length)| Some((in_unit(length)?, unit))) {
            Some((count, unit)) => write!(f, "{count}/{unit}"),
            None if self.count() > MAX_AMOUNT => write_decimal(self, f),
            None => write!(f, "{}/{}", self.count(), DurationDisplay(self.period())),
        }
    }
}

fn write_decimal(rate: &Rate, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const UNIT: u128 = 10_u128.pow(RATE_PLACES);
    let parts = u128::from(rate.count()) * u128::from(SECOND) * UNIT / u128::from(rate.period());
    let text = format!("{}.{:0places$}", parts / UNIT, parts % UNIT, places = RATE_PLACES as usize);
    f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Quota};

    #[test]
    fn rates_and_durations_display_in_natural_units_and_parse_back() {
        for (given, written) in [
            ("10", "10/s"),
            ("0.6", "36/m"),
            ("3/5s", "36/m"),
            ("100/m", "100/m"),
            ("1/3s", "20/m"),
            ("1000/h", "1000/h"),
            ("7/11s", "7/11s"),
            ("1/3650d", "1/3650d"),
            ("0.333333333333", "333333333333/1000000000000s"),
            ("1000000000", "1000000000/s"),
            ("123456.123456789012", "123456.123456789012"),
            ("123456789.1234567810", "123456789.123456781"),
            ("99999.9999999999990", "99999.999999999999"),
            ("1/1us", "1000000/s"),
        ] {
            let quota = |rate: &str| Quota::parse(Algorithm::TokenBucket, b"1", rate.as_bytes());
            let Ok(Quota::TokenBucket(bucket)) = quota(given) else { panic!("{given}") };
            assert_eq!(bucket.rate().to_string(), written);
            assert_eq!(quota(written), Ok(Quota::TokenBucket(bucket)), "{given}");
        }
        for (given, written) in
            [("60", "1m"), ("90", "90s"), ("0.5", "500ms"), ("7d", "1w"), ("36h", "36h"), ("1500us", "1500us")]
        {
            let quota = |window: &str| Quota::parse(Algorithm::FixedWindow, b"1", window.as_bytes());
            let Ok(Quota::FixedWindow(it)) = quota(given) else { panic!("{given}") };
            assert_eq!(DurationDisplay(it.window()).to_string(), written);
            assert_eq!(quota(written), Ok(Quota::FixedWindow(it)), "{given}");
        }
    }
}
