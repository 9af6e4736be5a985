//! The web applications while Redis is down, hangs or replies with errors: they reply as configured, quickly, and
//! recover without a restart.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::http::{Connection, Message};
use super::program::Service;
use super::used;
use super::web::{ask, ask_timed, is_limited, unlimited, App, Closed, Open, WhenRedisFails, AT_BEST, LIMIT, SOON};
use crate::common::load::EndOf;
use crate::common::{eventually, Client, Server};

/// Checks that at least `count` replies come without Redis and quickly; returns how many were checked.
fn unlimited_soon(service: &Service, user: &str, choice: WhenRedisFails, count: usize) -> usize {
    // A busy machine may delay some of them, but not all.
    const MOST: usize = 60;
    let mut best = SOON;
    for number in 1.. {
        let (answer, time) = ask_timed(service, user);
        unlimited(&answer, choice);
        assert!(time < SOON, "{time:?}");
        best = best.min(time);
        if number >= count && (best < AT_BEST || number >= MOST) {
            assert!(best < AT_BEST, "{best:?}");
            return number;
        }
    }
    unreachable!("it ends")
}

fn limits_again(service: &mut Service, user: &str) {
    eventually("it limits again", || is_limited(&ask(service, user)));
    assert!(service.program.is_running());
}

fn used_by(client: &mut Client, user: &str) -> i64 {
    used(client, &format!("api:user:{user}"))
}

pub fn it_starts_without_redis_and_is_open_by_default(app: App) {
    let mut server = Server::start(&[]);
    server.stop();
    let mut service = app.start_unset(&server);
    unlimited_soon(&service, "42", Open, 3);
    server.start_again_in_place();
    limits_again(&mut service, "42");
}

/// A misspelt `closed` must not mean open.
pub fn an_unknown_failure_mode_is_rejected(app: App) {
    let server = Server::start(&[]);
    let (status, output) = app.start_misconfigured(&server, "close");
    assert!(!status.success(), "{output}");
    assert!(output.contains("WHEN_REDIS_FAILS must be open or closed, not close"), "{output}");
}

pub fn it_survives_a_stop_of_redis(app: App) {
    for choice in [Open, Closed] {
        let mut server = Server::start(&[]);
        let mut service = app.start(&server, choice);
        for _ in 0..2 {
            limits_again(&mut service, "42");
            server.stop();
            // More than the limit.
            unlimited_soon(&service, "42", choice, 120);
            server.start_again_in_place();
            limits_again(&mut service, "another");
            // The server starts empty, and requests during the outage are not counted later.
            assert_eq!(used_by(&mut server.connect(), "42"), 0);
        }
    }
}

/// Each thread is a user that sends requests until its limit is used up after the restart.
pub fn a_restart_under_load_resets_no_limit(app: App) {
    for choice in [Open, Closed] {
        let mut server = Server::with_clock(&["--appendonly", "yes"]);
        let mut service = app.start_patient(&server, choice);
        let (over, unanswered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let passed: Vec<usize> = thread::scope(|scope| {
            let (service, over, unanswered) = (&service, &over, &unanswered);
            let users: Vec<_> = (0..8)
                .map(|user| scope.spawn(move || until_denied(service, &user.to_string(), choice, over, unanswered)))
                .collect();
            let _end = EndOf(over);
            let mut client = server.connect();
            eventually("all have begun", || (0..8).all(|user| used_by(&mut client, &user.to_string()) >= 20));
            server.stop();
            let before = unanswered.load(Ordering::SeqCst);
            eventually("some are not limited", || unanswered.load(Ordering::SeqCst) >= before + 50);
            server.start_again_in_place();
            over.store(true, Ordering::SeqCst);
            users.into_iter().map(|user| user.join().expect("a user")).collect()
        });
        assert!(service.program.is_running());
        // The server may have counted a last request of each user without a reply.
        assert!(passed.iter().all(|passed| [99, 100].contains(passed)), "{passed:?}");
        let mut client = server.connect();
        (0..8).for_each(|user| assert_eq!(used_by(&mut client, &user.to_string()), LIMIT));
    }
}

/// Sends requests until one is denied after the restart, and returns how many the limit allowed.
fn until_denied(
    service: &Service,
    user: &str,
    choice: WhenRedisFails,
    over: &AtomicBool,
    unanswered: &AtomicUsize,
) -> usize {
    let mut connection = Connection::to(&service.address).expect("a connection");
    let mut passed = 0;
    for turn in 0.. {
        let was_over = over.load(Ordering::SeqCst);
        // By turns on a kept and on a new connection.
        let answer = if turn % 2 == 0 {
            connection.get(&[("X-User-Id", user)]).expect("an answer")
        } else {
            let (answer, time) = ask_timed(service, user);
            assert!(time < SOON, "{time:?}");
            answer
        };
        match answer.status() {
            429 if was_over => break,
            200 if is_limited(&answer) => passed += 1,
            429 => {}
            _ => {
                unlimited(&answer, choice);
                unanswered.fetch_add(1, Ordering::SeqCst);
            }
        }
        // So that the limit is not used up before Redis stops.
        thread::sleep(Duration::from_millis(5));
    }
    passed
}

pub fn while_redis_hangs_replies_are_quick_and_no_request_counts_twice(app: App) {
    for choice in [Open, Closed] {
        let server = Server::with_clock(&[]);
        let mut service = app.start(&server, choice);
        server.hang();
        // Concurrent requests first, then one by one.
        let at_once: Vec<(Message, Duration)> = thread::scope(|scope| {
            let users: Vec<_> = (0..30).map(|_| scope.spawn(|| ask_timed(&service, "42"))).collect();
            users.into_iter().map(|user| user.join().expect("an answer")).collect()
        });
        for (answer, time) in at_once {
            unlimited(&answer, choice);
            assert!(time < SOON, "{time:?}");
        }
        let sent = 30 + unlimited_soon(&service, "42", choice, 5);
        server.go_on();
        limits_again(&mut service, "another");
        // Redis may have counted requests that were sent while it hung, but each at most once.
        let used = used_by(&mut server.connect(), "42");
        assert!(usize::try_from(used).is_ok_and(|used| used <= sent), "{used} of {sent}");
    }
}

pub fn an_error_of_redis_is_treated_like_an_outage(app: App) {
    /// The commands that begin and end each error.
    const ERRORS: [(&str, &str); 4] = [
        ("SET api:user:42 text", "DEL api:user:42"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("ACL SETUSER default -rl.tokenbucket", "ACL SETUSER default +rl.tokenbucket"),
    ];
    for choice in [Open, Closed] {
        let server = Server::start(&[]);
        let mut client = server.connect();
        let mut service = app.start(&server, choice);
        for (begin, end) in ERRORS {
            client.get::<()>(begin);
            unlimited_soon(&service, "42", choice, 5);
            client.get::<()>(end);
            limits_again(&mut service, "42");
        }
    }
}

pub fn a_loading_server_is_treated_like_an_outage(app: App) {
    // The server loads keys slowly, and handles clients often meanwhile.
    let server = Server::start(&["--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024"]);
    let mut client = server.connect();
    for number in 0..50 {
        client.get::<()>(&format!("SET key{number} {}", "x".repeat(2_000)));
    }
    client.get::<()>("CONFIG SET rdbcompression no");
    let mut service = app.start(&server, Closed);
    thread::scope(|scope| {
        let reload = scope.spawn(|| client.get::<()>("DEBUG RELOAD"));
        let mut refused = 0;
        while !reload.is_finished() {
            let (answer, time) = ask_timed(&service, "42");
            assert!(time < SOON, "{time:?}");
            if !is_limited(&answer) {
                unlimited(&answer, Closed);
                refused += 1;
            }
        }
        assert!(refused >= 3, "{refused}");
    });
    limits_again(&mut service, "42");
}
