//! Parsing of capacities, limits, costs, rates and windows.

use limiter::{parse_amount, Algorithm, Quota, Quoted};

fn rate(capacity: &str, text: &str) -> Result<(u64, u64), String> {
    match Quota::parse(Algorithm::TokenBucket, capacity.as_bytes(), text.as_bytes()) {
        Ok(Quota::TokenBucket(quota)) => Ok((quota.rate().count(), quota.rate().period())),
        Ok(other) => panic!("{other:?}"),
        Err(bad) => Err(bad.to_string()),
    }
}

fn window(text: &str) -> Result<u64, String> {
    match Quota::parse(Algorithm::SlidingLog, b"1", text.as_bytes()) {
        Ok(Quota::SlidingLog(quota)) => Ok(quota.window()),
        Ok(other) => panic!("{other:?}"),
        Err(bad) => Err(bad.to_string()),
    }
}

#[test]
fn rates_parse_exactly_in_every_notation() {
    let table = [
        ("10", (1, 100_000)),
        ("10.0", (1, 100_000)),
        ("1", (1, 1_000_000)),
        ("0.6", (3, 5_000_000)),
        ("3/5s", (3, 5_000_000)),
        ("3/5", (3, 5_000_000)),
        ("3/5000ms", (3, 5_000_000)),
        ("6/10s", (3, 5_000_000)),
        ("100/m", (1, 600_000)),
        ("100/1m", (1, 600_000)),
        ("1000/1h", (1, 3_600_000)),
        ("1/500ms", (1, 500_000)),
        ("1/0.5", (1, 500_000)),
        ("3/1.5h", (1, 1_800_000_000)),
        ("1/d", (1, 86_400_000_000)),
        ("2/w", (1, 302_400_000_000)),
        ("1/us", (1, 1)),
        ("1000000000", (1_000, 1)),
        ("1000/us", (1_000, 1)),
        ("1/3650d", (1, 315_360_000_000_000)),
        ("1.666666666666", (833_333_333_333, 500_000_000_000_000_000)),
        // Floats as clients print them: twelve decimal places count.
        ("1.6666666666666667", (833_333_333_333, 500_000_000_000_000_000)),
        ("0.1000000000000000055511151231257827", (1, 10_000_000)),
        // Eighteen digits count; trailing zeros are ignored.
        ("999999.999999999999", (999_999_999_999_999_999, 1_000_000_000_000_000_000)),
        ("999999999.999999999", (999_999_999_999_999_999, 1_000_000_000_000_000)),
        ("999999999.999999999000", (999_999_999_999_999_999, 1_000_000_000_000_000)),
        ("000000000999999999.999999999000000000001", (999_999_999_999_999_999, 1_000_000_000_000_000)),
        ("123456789.1234567890001", (123_456_789_123_456_789, 1_000_000_000_000_000)),
    ];
    for (text, (count, period)) in table {
        assert_eq!(rate("1", text), Ok((count, period)), "{text}");
    }
}

#[test]
fn malformed_and_out_of_range_rates_are_rejected() {
    let bad = [
        "",
        "0",
        "0.0",
        "-1",
        "+1",
        "1e3",
        "1e-5",
        ".5",
        "5.",
        "1.2.3",
        " 1",
        "1 ",
        "1,5",
        "inf",
        "nan",
        "abc",
        "1s",
        "/",
        "/s",
        "1/",
        "0/s",
        "1/0",
        "1/0s",
        "1.5/s",
        "1/s/s",
        "1/-1s",
        "1/1y",
        "1/1M",
        "1/1 s",
        "1/s1",
        "1/.5",
        "1/0.0000001",
        "1000000001",
        "1001/us",
        "1/3651d",
        "0.000000003",
        "99999999999999999999999999",
        "1/99999999w",
        "9007199254740992/d",
        "1\0",
        // Too many digits: none of the first twelve decimal places is ever dropped.
        "123456789.123456789999",
        "123456789.123456789001",
        "1000000.000000000001",
    ];
    for text in bad {
        let message = rate("1", text).expect_err(text);
        let given = Quoted(text.as_bytes()).to_string();
        assert!(message.starts_with(&format!("invalid rate {given}: expected tokens per second")), "{message}");
    }
}

#[test]
fn windows_are_seconds_or_have_a_unit() {
    let table = [
        ("60", 60_000_000),
        ("0.5", 500_000),
        ("0.001", 1_000),
        ("1000us", 1_000),
        ("1ms", 1_000),
        ("500ms", 500_000),
        ("1.5ms", 1_500),
        ("1s", 1_000_000),
        ("15m", 900_000_000),
        ("1h", 3_600_000_000),
        ("1d", 86_400_000_000),
        ("1w", 604_800_000_000),
        ("60.000", 60_000_000),
        ("3650d", 315_360_000_000_000),
        ("315360000", 315_360_000_000_000),
    ];
    for (text, micros) in table {
        assert_eq!(window(text), Ok(micros), "{text}");
    }
}

#[test]
fn malformed_and_out_of_range_windows_are_rejected() {
    let bad = [
        "",
        "0",
        "-1",
        "0.0001",
        "999us",
        "0.9ms",
        "3650.1d",
        "3651d",
        "1y",
        "1M",
        "1S",
        "1 s",
        "s",
        "ms",
        ".5",
        "5.",
        "1e3",
        "0.0010001",
        "1.0000001",
        "x",
        "18446744073709551616",
        "1s1",
        "99999999999999999d",
    ];
    for text in bad {
        let message = window(text).expect_err(text);
        assert!(message.starts_with(&format!("invalid window '{text}': expected seconds")), "{message}");
    }
}

#[test]
fn amounts_are_positive_integers_below_2_to_the_53() {
    for (text, value) in [("1", 1), ("10", 10), ("9007199254740991", 9_007_199_254_740_991)] {
        assert_eq!(parse_amount("limit", text.as_bytes()), Ok(value));
    }
    let bad = ["", "0", "-1", "+1", "1.0", "1e3", " 1", "abc", "9007199254740992", "18446744073709551617", "0x10"];
    for text in bad {
        let message = parse_amount("limit", text.as_bytes()).expect_err(text).to_string();
        assert_eq!(message, format!("invalid limit '{text}': expected an integer from 1 to 9007199254740991"));
    }
}

#[test]
fn a_bucket_that_takes_over_a_hundred_years_to_fill_is_rejected() {
    assert!(rate("36500", "1/d").is_ok());
    let message = rate("36501", "1/d").expect_err("too slow");
    assert_eq!(message, "invalid rate '1/d': a bucket of 36501 would take longer than 100 years to fill");
    assert!(rate("9007199254740991", "1000000000").is_ok());
}

#[test]
fn error_messages_are_one_short_printable_line() {
    let message = rate("1", &"9\r\n\0'é".repeat(1_000)).expect_err("nonsense");
    assert!(message.len() < 500 && message.chars().all(|c| c.is_ascii() && !c.is_ascii_control()), "{message}");
}
