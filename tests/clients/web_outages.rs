//! What the web applications do while Redis is away, hangs or answers errors: what they were told to, soon, and without
//! end or restart of their own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::http::{Connection, Message};
use super::program::Service;
use super::used;
use super::web::{ask, ask_timed, is_limited, unlimited, App, Closed, Open, WhenRedisFails, AT_BEST, LIMIT, SOON};
use crate::common::load::EndOf;
use crate::common::{eventually, Client, Server};

/// Checks that so many answers or more are given without Redis, and soon; returns how many there were.
fn unlimited_soon(service: &Service, user: &str, choice: WhenRedisFails, count: usize) -> usize {
    // A busy machine may hold up some of them, but not all.
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

pub fn it_starts_without_redis_and_lets_all_pass_if_it_is_not_told_otherwise(app: App) {
    let mut server = Server::start(&[]);
    server.stop();
    let mut service = app.start_unset(&server);
    unlimited_soon(&service, "42", Open, 3);
    server.start_again_in_place();
    limits_again(&mut service, "42");
}

/// A login that was meant to be closed must not be open for a slip of the pen.
pub fn a_choice_that_it_does_not_know_is_refused(app: App) {
    let server = Server::start(&[]);
    let (status, output) = app.start_mistaken(&server, "close");
    assert!(!status.success(), "{output}");
    assert!(output.contains("WHEN_REDIS_FAILS must be open or closed, not close"), "{output}");
}

pub fn a_stop_of_redis_is_survived(app: App) {
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
            // The server starts empty, and what passed meanwhile is not counted later.
            assert_eq!(used_by(&mut server.connect(), "42"), 0);
        }
    }
}

/// Each of some threads is a user, and goes on until its limit is used up after the restart.
pub fn a_restart_under_load_is_survived_and_forgives_nothing(app: App) {
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
        // Of each user the server may have counted a last request without answering it any more.
        assert!(passed.iter().all(|passed| [99, 100].contains(passed)), "{passed:?}");
        let mut client = server.connect();
        (0..8).for_each(|user| assert_eq!(used_by(&mut client, &user.to_string()), LIMIT));
    }
}

/// Sends requests one after the other until one is denied after the load is over, and returns how many the limit let
/// pass.
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
        // Now on the connection that is kept, now on a new one.
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
        // Or the limit would be used up before Redis goes away.
        thread::sleep(Duration::from_millis(5));
    }
    passed
}

pub fn while_redis_hangs_answers_come_soon_and_none_is_charged_twice(app: App) {
    for choice in [Open, Closed] {
        let server = Server::with_clock(&[]);
        let mut service = app.start(&server, choice);
        server.hang();
        // Some at once, and then one by one.
        let at_once: Vec<(Message, Duration)> = thread::scope(|scope| {
            let users: Vec<_> = (0..30).map(|_| scope.spawn(|| ask_timed(&service, "42"))).collect();
            users.into_iter().map(|user| user.join().expect("an answer")).collect()
        });
        for (answer, time) in at_once {
            unlimited(&answer, choice);
            assert!(time < SOON, "{time:?}");
        }
        let asked = 30 + unlimited_soon(&service, "42", choice, 5);
        server.go_on();
        limits_again(&mut service, "another");
        // What was sent to Redis while it hung may have been counted, but each request at most once.
        let used = used_by(&mut server.connect(), "42");
        assert!(usize::try_from(used).is_ok_and(|used| used <= asked), "{used} of {asked}");
    }
}

pub fn an_error_of_redis_is_taken_like_its_absence(app: App) {
    /// Each: what makes it happen, and what ends it.
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

pub fn a_server_that_is_loading_is_taken_like_its_absence(app: App) {
    // Slow to load a key, and quick to look after its clients meanwhile.
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
