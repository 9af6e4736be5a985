//! Many concurrent clients, on the real clock.

use std::thread;
use std::time::{Duration, Instant};

use serial_test::serial;

use crate::common::{Client, Server};

/// Sends a request `each` times on each of 50 connections, and returns how many were allowed.
fn hammer(server: &Server, request: &str, each: u32) -> i64 {
    let clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    thread::scope(|scope| {
        let sent = |mut client: Client| (0..each).map(|_| client.limit(request)[0]).sum::<i64>();
        let threads: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || sent(client))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

#[test]
#[serial]
fn fifty_connections_on_one_key_are_admitted_exactly() {
    let server = Server::start(&[]);
    // Quotas that do not refill while the test runs, and windows that end in years.
    for request in [
        "RL.TOKENBUCKET bucket 777 1/d",
        "RL.LEAKYBUCKET queue 777 1/d",
        "RL.SLIDINGLOG log 777 1d",
        "RL.SLIDINGCOUNTER counter 777 3650d",
        "RL.FIXEDWINDOW window 777 3650d",
    ] {
        assert_eq!(hammer(&server, request, 40), 777, "{request}");
    }
}

#[test]
#[serial]
fn a_bucket_admits_its_rate_on_the_real_clock() {
    let server = Server::start(&[]);
    let started = Instant::now();
    let admitted = hammer(&server, "RL.TOKENBUCKET bucket 100 1000", 200);
    let most = 100.0 + 1_000.0 * started.elapsed().as_secs_f64();
    assert!(admitted >= 100, "{admitted}");
    #[allow(clippy::cast_precision_loss)] // a few thousand
    let admitted = admitted as f64;
    assert!(admitted <= most, "{admitted} of at most {most}");
}

#[test]
#[serial]
fn a_retry_on_time_is_allowed_on_the_real_clock() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for request in [
        "RL.TOKENBUCKET bucket 2 20",
        "RL.LEAKYBUCKET queue 2 20",
        "RL.FIXEDWINDOW window 2 100ms",
        "RL.SLIDINGLOG log 2 100ms",
        "RL.SLIDINGCOUNTER counter 2 100ms",
    ] {
        for _ in 0..10 {
            let reply = client.limit(request);
            if reply[0] == 0 {
                thread::sleep(Duration::from_millis(u64::try_from(reply[3]).expect("a wait")));
                assert_eq!(client.limit(request)[0], 1, "{request}: still denied after {} ms", reply[3]);
            }
        }
    }
}
