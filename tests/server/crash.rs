//! Servers that are killed under traffic keep what their persistence guarantees, so no request is admitted twice.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Instant;

use crate::common::load::{rest_since, EndOf};
use crate::common::traffic::all_digests;
use crate::common::{effects_file, eventually, Client, Server};

/// One key for each command. The limit is never reached, and does not refill while a test runs.
const REQUESTS: [&str; 5] = [
    "RL.TOKENBUCKET bucket 1000000 100/d",
    "RL.LEAKYBUCKET queue 1000000 100/d",
    "RL.FIXEDWINDOW window 1000000 3650d",
    "RL.SLIDINGLOG log 1000000 1d",
    "RL.SLIDINGCOUNTER counter 1000000 3650d",
];
const LIMIT: i64 = 1_000_000;
const CONNECTIONS: i64 = 8;

/// The number of requests with the reply "allowed", for each key.
type Admitted = [AtomicI64; REQUESTS.len()];

fn counts(admitted: &Admitted) -> Vec<i64> {
    admitted.iter().map(|count| count.load(Ordering::SeqCst)).collect()
}

/// Sends requests from several connections until `crash` ends the server, and counts the admitted ones.
fn hammer_until(server: &mut Server, admitted: &Admitted, crash: impl FnOnce(&mut Server)) {
    let clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        for mut client in clients {
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    for (request, admitted) in REQUESTS.iter().zip(admitted) {
                        let Ok(reply) = client.call(request) else { return };
                        let reply: Vec<i64> = redis::from_redis_value(reply).expect("integers");
                        admitted.fetch_add(reply[0], Ordering::SeqCst);
                    }
                    rest_since(start);
                }
            });
        }
        let _end = EndOf(over);
        crash(server);
    });
}

/// The remaining quota of each key. A request for the bytes limit is denied, and returns it.
fn remaining(server: &Server) -> Vec<i64> {
    let mut client = server.connect();
    REQUESTS.map(|request| client.limit(&format!("{request} COST {LIMIT}"))[2]).to_vec()
}

/// Waits until every key has admitted `count` requests.
fn admits(admitted: &Admitted, count: i64) {
    eventually("requests are admitted", || counts(admitted).iter().all(|&admitted| admitted >= count));
}

/// Tests that effects are written before the reply is sent. Syncing them to the disk is up to the server.
#[test]
fn with_appendfsync_always_a_crash_loses_no_request_with_a_reply() {
    for preamble in ["yes", "no"] {
        let settings = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble];
        let mut server = Server::start(&settings);
        let admitted = Admitted::default();
        for crash in 1..=3 {
            hammer_until(&mut server, &admitted, |server| {
                admits(&admitted, crash * 250);
                if crash == 2 {
                    // Also during a rewrite, when effects go to another file.
                    let mut client = server.connect();
                    client.get::<()>("CONFIG SET rdb-key-save-delay 60000000");
                    client.get::<()>("BGREWRITEAOF");
                    admits(&admitted, crash * 250 + 100);
                    assert_eq!(client.info("aof_rewrite_in_progress"), "1", "the server must be killed while it saves");
                }
                server.crash();
            });
            server.start_again();
        }
        for (request, (admitted, remaining)) in
            REQUESTS.iter().zip(counts(&admitted).into_iter().zip(remaining(&server)))
        {
            // Only requests that were taken without a reply may be missing.
            let all = admitted + remaining;
            assert!(
                (LIMIT - 3 * CONNECTIONS..=LIMIT).contains(&all),
                "{request}: {admitted} admitted, {remaining} remain"
            );
        }
    }
}

#[test]
fn a_bucket_admits_no_more_than_its_rate_across_crashes() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let started = Instant::now();
    let mut admitted = 0;
    for _ in 0..3 {
        let mut client = server.connect();
        for _ in 0..300 {
            admitted += client.limit("RL.TOKENBUCKET bucket 100 1")[0];
        }
        server.crash();
        server.start_again();
    }
    let most = 100.0 + started.elapsed().as_secs_f64();
    assert!(admitted >= 100, "{admitted}");
    #[allow(clippy::cast_precision_loss)] // a few hundred
    let admitted = admitted as f64;
    assert!(admitted <= most, "{admitted} of at most {most}");
}

#[test]
fn a_crash_loses_at_most_the_requests_since_the_last_snapshot() {
    let mut server = Server::start(&["--dbfilename", "dump.rdb"]);
    let admitted = Admitted::default();
    let mut at_snapshot = Vec::new();
    hammer_until(&mut server, &admitted, |server| {
        let mut client = server.connect();
        admits(&admitted, 300);
        at_snapshot = counts(&admitted);
        client.get::<()>("BGSAVE");
        client.wait_for_files();
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
        admits(&admitted, 600);
        // The next snapshot is not finished, and must not count.
        client.get::<()>("CONFIG SET rdb-key-save-delay 60000000");
        client.get::<()>("BGSAVE");
        admits(&admitted, 700);
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1", "the server must be killed while it saves");
        server.crash();
    });
    server.start_again();
    for (index, (request, remaining)) in REQUESTS.iter().zip(remaining(&server)).enumerate() {
        let (before, admitted) = (at_snapshot[index], counts(&admitted)[index]);
        assert!(before + remaining <= LIMIT, "{request}: {before} before the snapshot, {remaining} remain");
        // Later requests are lost, or this test would show nothing.
        assert!(admitted + remaining > LIMIT, "{request}: {admitted} admitted, {remaining} remain");
    }
}

#[test]
fn a_truncated_append_only_file_loads() {
    let settings = ["--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "yes"];
    let mut server = Server::start(&settings);
    for request in REQUESTS {
        for _ in 0..10 {
            server.connect().limit(request);
        }
        let (before, length) =
            (all_digests(&mut server.connect()), fs::read(effects_file(&server)).expect("a file").len());
        server.connect().limit(request);
        let bytes = fs::read(effects_file(&server)).expect("a file");
        assert!(bytes.len() > length + 20, "{request} wrote nothing");
        for cut in [length + 1, usize::midpoint(length, bytes.len()), bytes.len() - 1] {
            server.crash();
            fs::write(effects_file(&server), &bytes[..cut]).expect("cut");
            server.start_again();
            assert_eq!(all_digests(&mut server.connect()), before, "{request}: cut at {cut} of {}", bytes.len());
        }
    }
}
