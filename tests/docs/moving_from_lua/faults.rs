//! What is wrong with the usual Lua scripts, in figures, beside the commands that replace them. The figures are those of
//! `docs/moving-from-lua.md`.

use fastrand::Rng;

use super::obedient::Obedient;
use super::page::{number, readme_says, says};
use super::script::{alike, exactly, Limit, Script};
use super::script::{LEAKY_BUCKET, SLIDING_COUNTER, SLIDING_LOG, TOKEN_BUCKET};
use super::{Both, Side};
use crate::common::Server;

/// How many begin, each at a moment of its own: how floats are rounded depends on it.
const CLIENTS: u64 = 20;

/// Goes on with another client, at a moment that is like any other.
fn next_client(both: &mut Both, random: &mut Rng) {
    both.server.clock().advance_us(random.u64(..10_000_000));
    both.start_afresh();
}

/// Ten thousand waits of obedient clients: how many are in vain.
fn waits_in_vain(script: &'static Script, limits: &[Limit]) {
    const WAITS: u64 = 10_000;
    let mut both = Both::of(script);
    for limit in limits {
        let (mut random, mut in_vain) = (Rng::with_seed(1), [0, 0]);
        for _ in 0..CLIENTS {
            next_client(&mut both, &mut random);
            for (in_vain, side) in in_vain.iter_mut().zip([Side::Script, Side::Command]) {
                // Whether a wait was in vain shows by the next.
                let client = Obedient::run(&mut both, side, limit, |client| client.waits <= WAITS / CLIENTS);
                *in_vain += client.in_vain;
            }
        }
        let (title, waits, [of_script, of_command]) = (script.title(), number(WAITS), in_vain.map(number));
        says(&format!("| {title} | `{} {}` | {waits} | {of_script} | {of_command} |", limit.most, limit.pace));
        if limit.pace == "10" {
            readme_says(&format!("after {of_script} of {waits} waits"));
        }
    }
}

#[test]
fn a_token_bucket_script_denies_clients_that_wait_as_it_told_them() {
    waits_in_vain(
        &TOKEN_BUCKET,
        &[
            // Whole milliseconds from one token to the next, but no binary fractions of a second.
            alike(1, "10"),
            exactly(100, "100/m", "1.6666666666666667"),
            // Binary fractions.
            alike(1, "4"),
            exactly(10, "1/3s", "0.3333333333333333"),
            // No whole milliseconds: waits are rounded up.
            alike(10, "0.3"),
        ],
    );
}

#[test]
fn a_leaky_bucket_script_denies_clients_that_wait_as_it_told_them() {
    waits_in_vain(&LEAKY_BUCKET, &[alike(1, "10"), exactly(100, "100/m", "1.6666666666666667")]);
}

#[test]
fn over_a_long_run_a_token_bucket_script_admits_fewer_or_more_than_is_exact() {
    const REQUESTS: u64 = 10_000;
    let mut both = Both::of(&TOKEN_BUCKET);
    for (limit, gap) in [
        (alike(1, "10"), 100_000),
        (exactly(1, "100/m", "1.6666666666666667"), 600_000),
        // A ninth of a microsecond too early, every time.
        (alike(1, "9"), 111_111),
        (exactly(1, "1/3s", "0.3333333333333333"), 3_000_000),
        // The command cuts this rate after twelve places, and the script does not.
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
fn where_time_stands_still_in_a_transaction_a_log_script_admits_all_of_it() {
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
fn a_counter_script_tells_waits_that_are_far_too_long() {
    const REQUESTS: u32 = 10_000;
    let mut both = Both::of(&SLIDING_COUNTER);
    let (limit, mut random) = (alike(10, "60"), Rng::with_seed(1));
    let (mut denied, mut waits, mut too_long, mut too_short) = (0, [0, 0], 0, 0);
    for _ in 0..REQUESTS {
        let (of_script, of_command) = (both.script(&limit), both.command(&limit));
        if of_script.allowed != of_command.allowed {
            both.start_afresh();
        } else if !of_script.allowed {
            let [script, command] = [of_script, of_command].map(|told| told.wait_ms());
            (denied, waits) = (denied + 1, [waits[0] + script, waits[1] + command]);
            too_long += u64::from(script > command);
            too_short += u64::from(script < command);
        }
        // Twenty a minute, where ten are allowed.
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

/// Milliseconds as seconds, to a tenth.
fn seconds(millis: u64) -> String {
    let tenths = (millis + 50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[test]
fn a_client_that_waits_as_a_counter_script_tells_it_gets_half_of_its_limit() {
    const DAY: u64 = 86_400_000;
    let mut both = Both::of(&SLIDING_COUNTER);
    let limit = alike(10, "60");
    let [of_script, of_command] =
        [Side::Script, Side::Command].map(|side| Obedient::run(&mut both, side, &limit, |client| client.took_ms < DAY));
    assert_eq!(of_command.in_vain, 0);
    says(&format!(
        "gets {} requests through in a day with the script, and {} with the command. \
         {} of its {} waits for the script are in vain",
        number(of_script.admitted),
        number(of_command.admitted),
        number(of_script.in_vain),
        number(of_script.waits),
    ));
}
