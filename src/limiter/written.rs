//! How rates and durations are written, so that they can be read again: exactly, and as people would.

use super::quota::{Micros, Rate, MAX_AMOUNT, RATE_PLACES, SECOND};

/// The units, from the longest.
const UNITS: [(&str, Micros); 7] = [
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// In the longest unit of which it is a whole number: `15m`, `500ms`.
pub fn write_duration(duration: Micros) -> String {
    let (unit, length) = UNITS.into_iter().find(|(_, length)| duration.is_multiple_of(*length)).unwrap_or(("us", 1));
    format!("{}{unit}", duration / length)
}

/// A whole number for the shortest unit, from a second on, for which it is one: `10/s`, `36/m`; otherwise as a count per
/// period, `7/11s`; and if no count may be so large, as the decimal that it was read from.
pub fn write_rate(rate: &Rate) -> String {
    let in_unit = |length: Micros| {
        let count = u128::from(rate.count()) * u128::from(length);
        let period = u128::from(rate.period());
        (count.is_multiple_of(period) && count / period <= u128::from(MAX_AMOUNT)).then(|| count / period)
    };
    let whole = UNITS.into_iter().rev().skip(2).find_map(|(unit, length)| Some(format!("{}/{unit}", in_unit(length)?)));
    whole.unwrap_or_else(|| {
        if rate.count() > MAX_AMOUNT {
            return write_decimal(rate);
        }
        format!("{}/{}", rate.count(), write_duration(rate.period()))
    })
}

fn write_decimal(rate: &Rate) -> String {
    const UNIT: u128 = 10_u128.pow(RATE_PLACES);
    let parts = u128::from(rate.count()) * u128::from(SECOND) * UNIT / u128::from(rate.period());
    let text = format!("{}.{:0places$}", parts / UNIT, parts % UNIT, places = RATE_PLACES as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Quota};
    use super::*;

    #[test]
    fn what_is_written_reads_well_and_reads_back_the_same() {
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
            assert_eq!(write_rate(bucket.rate()), written);
            assert_eq!(quota(written), Ok(Quota::TokenBucket(bucket)), "{given}");
        }
        for (given, written) in
            [("60", "1m"), ("90", "90s"), ("0.5", "500ms"), ("7d", "1w"), ("36h", "36h"), ("1500us", "1500us")]
        {
            let quota = |window: &str| Quota::parse(Algorithm::FixedWindow, b"1", window.as_bytes());
            let Ok(Quota::FixedWindow(it)) = quota(given) else { panic!("{given}") };
            assert_eq!(write_duration(it.window()), written);
            assert_eq!(quota(written), Ok(Quota::FixedWindow(it)), "{given}");
        }
    }
}
