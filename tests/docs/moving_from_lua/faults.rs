//! Faults of the usual Lua scripts, measured beside the commands that replace them. The figures are those of
//! `docs/moving-from-lua.md`.

use fastrand::Rng;

use super::obedient::Obedient;
use super::page::{number, readme_says, says};
use super::script::{alike, exactly, Limit, Script};
use super::script::{LEAKY_BUCKET, SLIDING_COUNTER, SLIDING_LOG, TOKEN_BUCKET};
use super::{Both, Side};
use crate::common::Server;

/// The number of clients. Each starts at another time, as the rounding of floats depends on it.
const CLIENTS: u64 = 20;

/// Continues with another client at a random time.
fn next_client(both: &mut Both, random: &mut Rng) {
    both.server.clock().advance_us(random.u64(..10_000_000));
    both.next_user();
}

/// Checks how many of ten thousand waits are too short.
fn check_waits(script: &'static Script, limits: &[Limit]) {
    const WAITS: u64 = 10_000;
    let mut both = Both::of(script);
    for limit in limits {
        let (mut random, mut too_short_waits) = (Rng::with_seed(1), [0, 0]);
        for _ in 0..CLIENTS {
            next_client(&mut both, &mut random);
            for (too_short_waits, side) in too_short_waits.iter_mut().zip([Side::Script, Side::Command]) {
                // The request after a wait shows whether it was too short, hence one more wait.
                let client = Obedient::run(&mut both, side, limit, |client| client.waits <= WAITS / CLIENTS);
                *too_short_waits += client.too_short_waits;
            }
        }
        let (title, waits, [of_script, of_command]) = (script.title(), number(WAITS), too_short_waits.map(number));
        says(&format!("| {title} | `{} {}` | {waits} | {of_script} | {of_command} |", limit.most, limit.pace));
        if limit.pace == "10" {
            readme_says(&format!("after {of_script} of {waits} waits"));
        }
    }
}

#[test]
fn a_token_bucket_script_denies_clients_that_retry_on_time() {
    check_waits(
        &TOKEN_BUCKET,
        &[
            // A token in whole milliseconds, but not in a binary fraction of a second.
            alike(1, "10"),
            exactly(100, "100/m", "1.6666666666666667"),
            // Binary fractions.
            alike(1, "4"),
            exactly(10, "1/3s", "0.3333333333333333"),
            // Not whole milliseconds: waits are rounded up.
            alike(10, "0.3"),
        ],
    );
}

#[test]
fn a_leaky_bucket_script_denies_clients_that_retry_on_time() {
    check_waits(&LEAKY_BUCKET, &[alike(1, "10"), exactly(100, "100/m", "1.6666666666666667")]);
}

#[test]
fn a_token_bucket_script_admits_too_few_or_too_many_in_the_long_run() {
    const REQUESTS: u64 = 10_000;
    let mut both = Both::of(&TOKEN_BUCKET);
    for (limit, gap) in [
        (alike(1, "10"), 100_000),
        (exactly(1, "100/m", "1.6666666666666667"), 600_000),
        // Each request comes a ninth of a microsecond too early.
        (alike(1, "9"), 111_111),
        (exactly(1, "1/3s", "0.3333333333333333"), 3_000_000),
        // The command uses twelve decimal places of this rate, the script all of them.
        (alike(1, "0.3333333333333333"), 3_000_000),
    ] {
        let (mut random, mut admitted) = (Rng::with_seed(1), [0, 0]);
        for request in 0..REQUESTS {
            if request % (REQUESTS / CLIENTS) == 0 {
                next_client(&mut both, &mut random);
            }
            for (admitted, side) in admitted.iter_mut().zip([Side::Script, Side::Command]) {
                *admitted += u64::from(both.ask(side, &limit).allowed);
            }
            both.server.clock().advance_us(gap);
        }
        let [of_script, of_command] = admitted.map(number);
        says(&format!("| `1 {}` | {} µs | {of_script} | {of_command} |", limit.pace, number(gap)));
    }
}

#[test]
fn a_log_script_admits_all_requests_of_one_microsecond() {
    const REQUESTS: u64 = 1_000;
    let mut both = Both::of(&SLIDING_LOG);
    let limit = alike(5, "60");
    let mut admitted = |side| (0..REQUESTS).map(|_| u64::from(both.ask(side, &limit).allowed)).sum();
    let (of_script, of_command): (u64, u64) = (admitted(Side::Script), admitted(Side::Command));
    let (requests, of_script) = (number(REQUESTS), number(of_script));
    says(&format!(
        "Of {requests} requests in one microsecond the script admits {of_script} with a limit of 5, \
         and the command {of_command}."
    ));
    readme_says(&format!("of {requests} requests in one microsecond the script admits {of_script} with a limit of 5"));
}

#[test]
fn a_log_script_admits_a_whole_transaction_where_time_stands_still_in_it() {
    const REQUESTS: usize = 100;
    let server = Server::start(&[]);
    let mut client = server.connect();
    let (sha, limit) = (SLIDING_LOG.load(&mut client), alike(5, "60"));
    let mut admitted = |request: &str| {
        client.get::<()>("MULTI");
        for command in [&["TIME"][..], &[request; REQUESTS], &["TIME"]].concat() {
            assert_eq!(client.get::<String>(command), "QUEUED");
        }
        let mut replies: Vec<Vec<i64>> = client.get("EXEC");
        let stands_still = replies.pop() == Some(replies.remove(0));
        (replies.iter().filter(|reply| reply[0] == 1).count(), stands_still)
    };
    let (of_command, _) = admitted(&SLIDING_LOG.command("command", &limit));
    assert_eq!(of_command, 5);
    let (of_script, stands_still) = admitted(&SLIDING_LOG.call(&sha, "script", &limit));
    assert_eq!(stands_still, !client.info("redis_version").starts_with("7.0."));
    assert!(if stands_still { of_script == REQUESTS } else { of_script < REQUESTS }, "{of_script}");
    says(&format!("a transaction of {REQUESTS} requests is admitted whole"));
}

#[test]
fn a_counter_script_returns_waits_that_are_far_too_long() {
    const REQUESTS: u32 = 10_000;
    let mut both = Both::of(&SLIDING_COUNTER);
    let (limit, mut random) = (alike(10, "60"), Rng::with_seed(1));
    let (mut denied, mut waits, mut too_long, mut too_short) = (0, [0, 0], 0, 0);
    for _ in 0..REQUESTS {
        let (of_script, of_command) = (both.script(&limit), both.command(&limit));
        if of_script.allowed != of_command.allowed {
            both.next_user();
        } else if !of_script.allowed {
            let [script, command] = [of_script, of_command].map(|reply| reply.wait_ms());
            (denied, waits) = (denied + 1, [waits[0] + script, waits[1] + command]);
            too_long += u64::from(script > command);
            too_short += u64::from(script < command);
        }
        // Twenty requests a minute, with a limit of ten.
        both.server.clock().advance_us(random.u64(..6_000_000));
    }
    let [script, command] = waits.map(|sum| seconds(sum / denied));
    says(&format!(
        "in all, {} are denied by both, and told to wait {script} s on average by the script, \
         and {command} s by the command.",
        number(denied)
    ));
    says(&format!("Of the script's waits {} are too long, and {too_short} is too short.", number(too_long)));
    readme_says(&format!("waits of {script} s on average where {command} s are enough"));
}

/// Milliseconds as seconds with one decimal place.
fn seconds(millis: u64) -> String {
    let tenths = (millis + 50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[test]
fn a_client_that_waits_as_a_counter_script_says_gets_half_of_its_limit() {
    const DAY: u64 = 86_400_000;
    let mut both = Both::of(&SLIDING_COUNTER);
    let limit = alike(10, "60");
    let [of_script, of_command] =
        [Side::Script, Side::Command].map(|side| Obedient::run(&mut both, side, &limit, |client| client.took_ms < DAY));
    assert_eq!(of_command.too_short_waits, 0);
    says(&format!(
        "gets {} requests through in a day with the script, and {} with the command. \
         {} of its {} waits for the script are in vain",
        number(of_script.admitted),
        number(of_command.admitted),
        number(of_script.too_short_waits),
        number(of_script.waits),
    ));
}
