//! The web applications while Redis is up: exact limits, and the keys of their users.

use std::os::unix::process::ExitStatusExt;
use std::thread;

use super::http::get;
use super::program::Service;
use super::web::{allowed, ask, denied, load, App, Closed, Open, INTERVAL_MS, LIMIT};
use crate::common::Server;

pub fn under_load_exactly_the_limit_passes(app: App) {
    let mut server = Server::with_clock(&[]);
    let service = app.start_patient(&server, Closed);
    let answers = load(&service.address, 20, 300, &[("X-User-Id", "42")]);
    let (passed, rejected): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status() == 200);
    let mut left: Vec<i64> = passed.into_iter().map(allowed).collect();
    left.sort_unstable();
    assert_eq!(left, (0..LIMIT).collect::<Vec<_>>());
    assert_eq!(rejected.len(), 200);
    for answer in rejected {
        denied(answer, INTERVAL_MS, LIMIT * INTERVAL_MS);
    }

    // Denied until a millisecond before the end of the wait.
    server.clock().advance_ms(599);
    denied(&ask(&service, "42"), 1, 59_401);
    server.clock().advance_ms(1);
    assert_eq!(allowed(&ask(&service, "42")), 0);
    denied(&ask(&service, "42"), INTERVAL_MS, LIMIT * INTERVAL_MS);
}

pub fn waits_of_several_seconds_are_rounded_up(app: App) {
    let server = Server::with_clock(&[]);
    let service = app.start_patient(&server, Closed);
    let mut client = server.connect();
    // Forced costs are a debt: the first one blocks the key for three seconds, the other one for another 600 ms.
    client.limit("RL.TOKENBUCKET api:user:42 100 100/m COST 100");
    for (cost, retry, reset) in [(4, 3_000, 62_400), (1, 3_600, 63_000)] {
        client.limit(&format!("RL.TOKENBUCKET api:user:42 100 100/m COST {cost} FORCE"));
        denied(&ask(&service, "42"), retry, reset);
    }
}

pub fn two_users_do_not_share_a_limit(app: App) {
    let server = Server::with_clock(&[]);
    let service = app.start_patient(&server, Open);
    let address = &service.address;
    let answers = thread::scope(|scope| {
        let users = ["one", "other"].map(|user| scope.spawn(move || load(address, 10, 150, &[("X-User-Id", user)])));
        users.map(|user| user.join().expect("answers"))
    });
    for answers in answers {
        assert_eq!(answers.iter().filter(|answer| answer.status() == 200).count(), 100);
    }
    let mut keys: Vec<String> = server.connect().get("KEYS *");
    keys.sort();
    assert_eq!(keys, ["api:user:one", "api:user:other"]);
}

pub fn the_header_counts_before_the_cookie_and_the_cookie_before_the_address(app: App) {
    let server = Server::with_clock(&[]);
    let service = app.start_patient(&server, Open);
    let mut client = server.connect();
    let (header, cookie) = (|id| ("X-User-Id", id), |text| ("Cookie", text));
    for (headers, key) in [
        (vec![header("42")], "api:user:42"),
        (vec![("x-user-id", "42")], "api:user:42"),
        (vec![cookie("user_id=42")], "api:user:42"),
        (vec![cookie("first=1; user_id=42; last=3")], "api:user:42"),
        (vec![header("42"), cookie("user_id=43")], "api:user:42"),
        (vec![header(""), cookie("user_id=43")], "api:user:43"),
        (vec![header("42"), cookie("user_id=")], "api:user:42"),
        (vec![header(""), cookie("user_id=")], "api:address:127.0.0.1"),
        (vec![cookie("another_user_id=42; user=42")], "api:address:127.0.0.1"),
        (vec![], "api:address:127.0.0.1"),
    ] {
        client.get::<()>("FLUSHALL");
        assert_eq!(allowed(&get(&service.address, &headers).expect("an answer")), LIMIT - 1);
        assert_eq!(client.get::<Vec<String>>("KEYS *"), [key], "{headers:?}");
    }

    // A user has one limit, by header and by cookie.
    client.get::<()>("FLUSHALL");
    let mut left = Vec::new();
    for headers in [[header("42")], [cookie("user_id=42")], [header("42")]] {
        left.push(allowed(&get(&service.address, &headers).expect("an answer")));
    }
    assert_eq!(left, [99, 98, 97]);
}

pub fn on_a_unix_socket_all_clients_share_the_anonymous_key(app: App) {
    let server = Server::with_clock(&[]);
    let service = app.start_on_socket(&server);
    let mut client = server.connect();
    for (headers, key) in [(vec![], "api:anonymous"), (vec![("X-User-Id", "42")], "api:user:42")] {
        client.get::<()>("FLUSHALL");
        let answers = load(&service.address, 10, 150, &headers);
        assert_eq!(answers.iter().filter(|answer| answer.status() == 200).count(), 100);
        assert_eq!(client.get::<Vec<String>>("KEYS *"), [key]);
    }
}

pub fn it_ends_cleanly_on_sigterm(app: App) {
    let mut server = Server::start(&[]);
    ends_cleanly(app.start(&server, Open));
    let connected = app.start(&server, Open);
    server.stop();
    ends_cleanly(connected);
    let never_connected = app.start_unset(&server);
    ends_cleanly(never_connected);
}

fn ends_cleanly(mut service: Service) {
    ask(&service, "42");
    let status = service.program.terminate();
    let output = service.program.output();
    // uvicorn shuts down, and then ends by the signal.
    let clean = status.success() || status.signal() == Some(libc::SIGTERM);
    assert!(clean && !output.contains("Traceback") && !output.contains("    at "), "{status}:\n{output}");
}
