//! Many requests and extreme values: rounding errors that add up, long logs, the first and the last times of the clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use limiter::{Algorithm, Decision, Limiter, Micros, Quota, Request, Retry, MAX_AMOUNT, MAX_TIME};

const START: Micros = 1_790_000_000_123_457;

fn quota(algorithm: Algorithm, a: &str, b: &str) -> Quota {
    Quota::parse(algorithm, a.as_bytes(), b.as_bytes()).expect("a valid quota")
}

fn request(limiter: &mut Limiter, quota: &Quota, cost: u64, now: Micros) -> Decision {
    limiter.request(quota, Request::new(cost, now)).expect("one algorithm")
}

/// Sends `requests`, retries each when its wait, in whole milliseconds, is over, and returns the time that passes.
fn time_taken(quota: &Quota, requests: u64) -> Micros {
    let mut limiter = Limiter::new(quota);
    let mut now = START;
    for _ in 0..requests {
        loop {
            match request(&mut limiter, quota, 1, now).retry {
                Retry::Now => break,
                Retry::After(wait) => now += wait.div_ceil(1_000) * 1_000,
                Retry::Never => panic!("a cost of one"),
            }
        }
    }
    now - START
}

#[test]
fn a_million_requests_that_retry_on_time_get_the_exact_rate() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        for (capacity, rate, count, period) in [
            ("2", "3", 3, 1_000_000),
            ("5", "0.7", 7, 10_000_000),
            ("3", "7/3s", 7, 3_000_000),
            ("10", "999", 999, 1_000_000),
        ] {
            let took = u128::from(time_taken(&quota(algorithm, capacity, rate), 1_000_000));
            let capacity: u128 = capacity.parse().expect("a number");
            // The exact time, plus up to one millisecond, as the last wait is rounded up.
            let least = (1_000_000 - capacity) * period / count;
            assert!((least..=least + 1_000).contains(&took), "{rate}: {took} us, expected {least}");
        }
    }
    // A log allows its limit at once, window after window.
    let took = time_taken(&quota(Algorithm::SlidingLog, "1000", "1s"), 1_000_000);
    assert!((999_000_000..=999_001_000).contains(&took), "{took}");
}

#[test]
fn requests_to_a_log_of_a_million_entries_take_less_than_a_millisecond() {
    let quota = quota(Algorithm::SlidingLog, "1000000", "1h");
    // A million entries fill the window; each later request also drops the oldest entry.
    let mut least = vec![Duration::MAX; 1_100_000];
    let mut slowest = Duration::MAX;
    // Other processes may delay a request, but not the same one in each round.
    for _ in 0..20 {
        let mut limiter = Limiter::new(&quota);
        for (now, least) in (START..).step_by(3_600).zip(&mut least) {
            let started = Instant::now();
            request(&mut limiter, &quota, 1, now);
            *least = (*least).min(started.elapsed());
        }
        slowest = *least.iter().max().expect("many");
        if slowest < Duration::from_millis(1) {
            break;
        }
    }
    assert!(slowest < Duration::from_millis(1), "{slowest:?}");
}

/// A pseudorandom number.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_long_log_agrees_with_a_plain_list() {
    let (limit, window) = (20_000, 10_000_000);
    let quota = quota(Algorithm::SlidingLog, "20000", "10s");
    let mut limiter = Limiter::new(&quota);
    let mut list: VecDeque<(Micros, u64)> = VecDeque::new();
    let (mut sum, mut now, mut seed) = (0, START, 42);
    let (mut denied, mut longest) = (0, 0);
    for _ in 0..300_000 {
        now += match random(&mut seed) % 5_000 {
            0 => random(&mut seed) % 12_000_000,
            other => other % 400,
        };
        let cost = match random(&mut seed) % 4_000 {
            0 => 1 + random(&mut seed) % 9_000,
            _ => 1,
        };
        while list.front().is_some_and(|(time, _)| time + window <= now) {
            sum -= list.pop_front().map_or(0, |(_, cost)| cost);
        }
        let decision = request(&mut limiter, &quota, cost, now);
        assert_eq!(decision.allowed, sum + cost <= limit);
        if decision.allowed {
            list.push_back((now, cost));
            sum += cost;
        } else {
            denied += 1;
            let mut rest = sum;
            let leaves = list.iter().find(|(_, taken)| {
                rest -= taken;
                rest + cost <= limit
            });
            let leaves = leaves.expect("all entries expire in the end").0;
            assert_eq!(decision.retry, Retry::After(leaves + window - now));
        }
        longest = longest.max(list.len());
        assert_eq!(decision.remaining, limit - sum);
        let newest = list.back().map_or(0, |(time, _)| time + window - now);
        assert_eq!(decision.reset_after, newest);
    }
    assert!(denied > 1_000 && longest > 10_000, "the test covers too little: {denied} denied, {longest} entries");
}

#[test]
fn refunds_from_a_long_log_agree_with_a_plain_list() {
    const ROUNDS: u32 = 100_000;
    let (limit, window) = (200_000, 3_600_000_000);
    let quota = quota(Algorithm::SlidingLog, "200000", "1h");
    let mut limiter = Limiter::new(&quota);
    let mut list: VecDeque<(Micros, u64)> = VecDeque::new();
    let (mut sum, mut now, mut seed) = (0, START, 11);
    let (mut longest, mut most) = (0, 0);
    for round in 1..=ROUNDS {
        now += random(&mut seed) % 200_000;
        while list.front().is_some_and(|(time, _)| time + window <= now) {
            sum -= list.pop_front().map_or(0, |(_, cost)| cost);
        }
        let cost = if random(&mut seed).is_multiple_of(20) { random(&mut seed) % 50 + 1 } else { 1 };
        assert_eq!(request(&mut limiter, &quota, cost, now).remaining, limit - sum - cost);
        list.push_back((now, cost));
        sum += cost;
        // Mostly a small refund, sometimes a large one, in the last round all of it.
        let mut amount = match random(&mut seed) % 20_000 {
            _ if round == ROUNDS => limit,
            0 => random(&mut seed) % sum + 1,
            1..200 => random(&mut seed) % 60 + 1,
            _ => continue,
        };
        assert!(limiter.refund(amount, now));
        (longest, most) = (longest.max(list.len()), most.max(amount.min(sum)));
        while let Some((_, cost)) = list.back_mut().filter(|_| amount > 0) {
            let part = amount.min(*cost);
            (*cost, amount, sum) = (*cost - part, amount - part, sum - part);
            if *cost == 0 {
                list.pop_back();
            }
        }
        let entries = limiter.entries().expect("a log");
        assert!(entries.iter().map(|entry| (entry.time, entry.cost)).eq(list.iter().copied()));
        assert_eq!(entries.len(), list.len());
    }
    assert!(
        longest > 20_000 && most > 20_000,
        "the test covers too little: {longest} entries, at most {most} refunded at once"
    );
    assert_eq!(limiter.entries().expect("a log").heap_bytes(), 0, "an empty log keeps memory");
}

#[test]
fn a_log_grows_and_shrinks_with_its_entries() {
    let quota = quota(Algorithm::SlidingLog, "1000000", "60s");
    let mut limiter = Limiter::new(&quota);
    for i in 0..1_000_000 {
        assert!(request(&mut limiter, &quota, 1, START + i * 50).allowed);
    }
    let entries = limiter.entries().expect("a log");
    assert_eq!(entries.iter().count(), 1_000_000);
    assert!(entries.heap_bytes() <= 3_000_000, "{} bytes", entries.heap_bytes());
    request(&mut limiter, &quota, 1, START + 120_000_000);
    let entries = limiter.entries().expect("a log");
    assert_eq!(entries.iter().count(), 1);
    assert!(entries.heap_bytes() <= 2_000, "{} bytes", entries.heap_bytes());
}

#[test]
fn a_log_with_few_entries_stays_small_over_many_requests() {
    let quota = quota(Algorithm::SlidingLog, "5", "1s");
    let mut limiter = Limiter::new(&quota);
    for i in 0..100_000 {
        request(&mut limiter, &quota, 1, START + i * 300_000);
        assert!(limiter.entries().expect("a log").heap_bytes() <= 64);
    }
}

#[test]
fn nothing_overflows_at_the_extremes() {
    let extremes = [
        (Algorithm::TokenBucket, "9007199254740991", "1000000000"),
        (Algorithm::TokenBucket, "9007199254740991", "9007199.54740991111"),
        (Algorithm::TokenBucket, "900719925474099", "999999.999999999999"),
        (Algorithm::TokenBucket, "10", "1/3650d"),
        (Algorithm::LeakyBucket, "9007199254740991", "9007199254740991/3650d"),
        (Algorithm::LeakyBucket, "1", "0.000000031710"),
        (Algorithm::FixedWindow, "9007199254740991", "1ms"),
        (Algorithm::FixedWindow, "9007199254740991", "3650d"),
        (Algorithm::SlidingLog, "9007199254740991", "3650d"),
        (Algorithm::SlidingCounter, "9007199254740991", "3650d"),
        (Algorithm::SlidingCounter, "9007199254740991", "1ms"),
    ];
    let times = [0, 1, 1_000_000, START, 9_223_372_036_854_775, 253_402_300_800_000_000, MAX_TIME];
    for (algorithm, a, b) in extremes {
        let first = quota(algorithm, a, b);
        for (_, a, b) in extremes.iter().filter(|(other, _, _)| *other == algorithm) {
            let second = quota(algorithm, a, b);
            for &early in &times {
                for &late in &times {
                    let mut limiter = Limiter::new(&first);
                    for cost in [1, MAX_AMOUNT, MAX_AMOUNT, 1] {
                        limiter.request(&first, Request::forced(cost, early)).expect("one algorithm");
                        let decision = limiter.request(&second, Request::new(cost, late)).expect("one algorithm");
                        assert!(decision.to_reply().five.iter().all(|&integer| integer >= -1));
                        limiter.request(&second, Request::forced(cost, late)).expect("one algorithm");
                    }
                    assert!(limiter.resets_at(late) >= late);
                }
            }
        }
    }
}

#[test]
fn a_step_forward_of_the_clock_is_like_waiting() {
    for (algorithm, b) in Algorithm::ALL.into_iter().zip(["1", "1", "10", "10", "10"]) {
        let quota = quota(algorithm, "10", b);
        let mut limiter = Limiter::new(&quota);
        while request(&mut limiter, &quota, 1, START).allowed {}
        let later = START + 86_400_000_000;
        assert_eq!(request(&mut limiter, &quota, 1, later), request(&mut Limiter::new(&quota), &quota, 1, later));
    }
}

#[test]
fn a_request_with_another_algorithm_is_rejected_and_changes_nothing() {
    for algorithm in Algorithm::ALL {
        let quota = quota(algorithm, "10", "10");
        let mut limiter = Limiter::new(&quota);
        request(&mut limiter, &quota, 3, START);
        let before = limiter.clone();
        for requested in Algorithm::ALL.into_iter().filter(|requested| *requested != algorithm) {
            let other = self::quota(requested, "10", "10");
            let error = limiter.request(&other, Request::forced(1, START)).expect_err("rejected");
            assert_eq!((error.held, error.requested), (algorithm, requested));
            assert_eq!(limiter, before);
        }
    }
}

#[test]
fn a_higher_limit_applies_at_once_and_a_lower_one_creates_no_debt() {
    for (algorithm, b) in Algorithm::ALL.into_iter().zip(["1", "1", "1h", "1h", "1h"]) {
        let ten = quota(algorithm, "10", b);
        let mut limiter = Limiter::new(&ten);
        let now = START / 3_600_000_000 * 3_600_000_000;
        request(&mut limiter, &ten, 8, now);

        let raised = request(&mut limiter.clone(), &quota(algorithm, "20", b), 1, now);
        assert_eq!((raised.allowed, raised.remaining), (true, 11), "{algorithm:?}");

        let five = quota(algorithm, "5", b);
        let lowered = request(&mut limiter, &five, 1, now);
        assert_eq!((lowered.allowed, lowered.remaining), (false, 0), "{algorithm:?}");
        if let Quota::TokenBucket(_) | Quota::LeakyBucket(_) = five {
            assert_eq!(lowered.retry, Retry::After(1_000_000), "the bucket is empty, without debt");
            assert!(request(&mut limiter.clone(), &five, 1, now + 1_000_000).allowed);
        }
        // The denial stored nothing, so the old limit still has its state.
        assert_eq!(request(&mut limiter, &ten, 1, now).remaining, 1);
    }
}

#[test]
fn a_higher_rate_shortens_waits_at_once() {
    let slow = quota(Algorithm::TokenBucket, "10", "10/d");
    let fast = quota(Algorithm::TokenBucket, "10", "10");
    let mut limiter = Limiter::new(&slow);
    request(&mut limiter, &slow, 10, START);
    assert_eq!(request(&mut limiter, &fast, 1, START).retry, Retry::After(100_000));
    assert!(request(&mut limiter, &fast, 1, START + 100_000).allowed);
}
