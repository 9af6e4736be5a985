//! The commands make the same decisions as the usual Lua scripts. Both get the same requests at the same times, and
//! every difference has an exactly known reason. The figures are those of `docs/moving-from-lua.md`.

use limiter::Quota;

use super::account::{is_explained, Account};
use super::gaps::Gaps;
use super::page::{says, text};
use super::script::{alike, exactly, Limit, Script};
use super::script::{FIXED_WINDOW, LEAKY_BUCKET, SCRIPTS, SLIDING_COUNTER, SLIDING_LOG, TOKEN_BUCKET};
use super::tally::Tally;
use super::Both;

/// The number of requests to each limit.
const REQUESTS: u32 = 2_500;

/// Rates that are binary fractions, and others.
const BUCKETS: [Limit; 8] = [
    alike(1, "10"),
    alike(5, "1"),
    alike(10, "0.3"),
    exactly(3, "3/5s", "0.6"),
    exactly(4, "1/3s", "0.3333333333333333"),
    exactly(20, "100/m", "1.6666666666666667"),
    alike(100, "1000"),
    alike(3, "9"),
];

const WINDOWS: [Limit; 8] = [
    alike(1, "1"),
    alike(5, "0.5"),
    alike(10, "60"),
    alike(20, "7"),
    alike(3, "0.3"),
    alike(100, "10"),
    alike(50, "0.7"),
    alike(2, "3600"),
];

/// The interval of requests that use exactly this limit.
fn even(quota: &Quota) -> u64 {
    match quota {
        Quota::TokenBucket(it) | Quota::LeakyBucket(it) => it.rate().period() / it.rate().count(),
        Quota::FixedWindow(it) | Quota::SlidingLog(it) | Quota::SlidingCounter(it) => it.window() / it.limit(),
    }
}

/// Sends the same requests to both, and counts the differences, all of which must be explained.
fn drive(script: &'static Script, limits: &[Limit]) -> Tally {
    let (mut both, mut tally) = (Both::of(script), Tally::default());
    for (seed, limit) in (1..).zip(limits) {
        let mut gaps = Gaps::new(seed, even(&limit.quota(script)), limit.most);
        let mut account = Account::new(script, limit);
        both.next_user();
        for request in 0..REQUESTS {
            let now = both.now();
            let possible = account.script_replies(now);
            let exact = account.request(now);
            let (of_script, of_command) = (both.script(limit), both.command(limit));
            assert_eq!(of_command, exact, "request {request} to {limit:?} at {now}");
            let explained = is_explained(&of_script, &possible);
            assert!(explained, "request {request} to {limit:?} at {now}: {of_script:?}, not in {possible:?}");
            tally.count(&of_script, &of_command);
            let gap = gaps.next(&of_script, &of_command, &account, now);
            if of_script.allowed != of_command.allowed {
                // Their counts differ now, so continue with a new user.
                both.next_user();
                account = Account::new(script, limit);
            }
            both.server.clock().advance_us(gap);
        }
    }
    assert!(
        tally.denied * 4 > tally.requests && tally.denied * 4 < tally.requests * 3,
        "the test covers too little: {tally:?}"
    );
    tally
}

/// Checks the row of the page's table of differences.
fn assert_row(script: &Script, tally: &Tally) {
    says(&tally.row(script.title()));
}

#[test]
fn a_token_bucket_differs_only_within_a_quarter_of_a_microsecond_of_a_refill() {
    let tally = drive(&TOKEN_BUCKET, &BUCKETS);
    assert_row(&TOKEN_BUCKET, &tally);
}

#[test]
fn a_leaky_bucket_differs_only_within_a_quarter_of_a_microsecond_of_a_free_place() {
    let tally = drive(&LEAKY_BUCKET, &BUCKETS);
    assert_row(&LEAKY_BUCKET, &tally);
    says(&format!("[below](#how-it-is-compared) {} times it tells that −1 remain", tally.negative));
}

#[test]
fn a_fixed_window_never_differs() {
    let tally = drive(&FIXED_WINDOW, &WINDOWS);
    assert_eq!((tally.too_early, tally.too_late, tally.numbers), (0, 0, [0; 4]));
    assert_row(&FIXED_WINDOW, &tally);
}

#[test]
fn a_sliding_log_differs_only_if_requests_share_a_microsecond() {
    let tally = drive(&SLIDING_LOG, &WINDOWS);
    assert_row(&SLIDING_LOG, &tally);
}

#[test]
fn a_sliding_counter_differs_only_by_parts_of_a_millisecond_and_in_its_waits() {
    let tally = drive(&SLIDING_COUNTER, &WINDOWS);
    assert_row(&SLIDING_COUNTER, &tally);
}

#[test]
fn the_page_shows_each_script_with_its_command() {
    for script in SCRIPTS {
        let limit = if script.is_bucket() { exactly(100, "100/m", "1.6666666666666667") } else { alike(100, "60") };
        let (call, command) = (script.call("$SHA", "user:42", &limit), script.command("user:42", &limit));
        let beside = format!("```lua\n{}```\n\n```\n{call}\n{command}\n```\n", script.text);
        assert!(text().contains(&beside), "the page does not have:\n{beside}");
    }
}
