//! Servers that are killed in the middle of traffic: what they had promised to keep is there when they come back, so
//! nobody is let through twice.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Instant;

use crate::common::load::{rest_since, EndOf};
use crate::common::traffic::all_digests;
use crate::common::{eventually, facts_file, Client, Server};

/// One key a command, all with the same limit, so large that it is not used up, and so slow that nothing comes back while
/// a test runs.
const REQUESTS: [&str; 5] = [
    "RL.TOKENBUCKET bucket 1000000 100/d",
    "RL.LEAKYBUCKET queue 1000000 100/d",
    "RL.FIXEDWINDOW window 1000000 3650d",
    "RL.SLIDINGLOG log 1000000 1d",
    "RL.SLIDINGCOUNTER counter 1000000 3650d",
];
const LIMIT: i64 = 1_000_000;
const CONNECTIONS: i64 = 8;

/// How many requests were answered as allowed, for each key.
type Admitted = [AtomicI64; REQUESTS.len()];

fn counts(admitted: &Admitted) -> Vec<i64> {
    admitted.iter().map(|count| count.load(Ordering::SeqCst)).collect()
}

/// Sends requests from several connections until the server is gone, and counts who was admitted. `crash` ends it.
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
                        let told: Vec<i64> = redis::from_redis_value(reply).expect("integers");
                        admitted.fetch_add(told[0], Ordering::SeqCst);
                    }
                    rest_since(start);
                }
            });
        }
        let _end = EndOf(over);
        crash(server);
    });
}

/// What is left for each key. A request for everything tells that, and takes nothing of a key that is in use.
fn left(server: &Server) -> Vec<i64> {
    let mut client = server.connect();
    REQUESTS.map(|request| client.limit(&format!("{request} COST {LIMIT}"))[2]).to_vec()
}

/// Waits until so many have been admitted by every key.
fn admits(admitted: &Admitted, count: i64) {
    eventually("requests are admitted", || counts(admitted).iter().all(|&admitted| admitted >= count));
}

/// What is seen here is that it was written before it was answered; that it is on the disk then is up to the server.
#[test]
fn a_crash_forgets_nothing_that_was_answered_if_every_write_is_synced() {
    for preamble in ["yes", "no"] {
        let settings = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble];
        let mut server = Server::start(&settings);
        let admitted = Admitted::default();
        for crash in 1..=3 {
            hammer_until(&mut server, &admitted, |server| {
                admits(&admitted, crash * 250);
                if crash == 2 {
                    // Amid the writing of a new file, too; what is taken meanwhile goes to another one.
                    let mut client = server.connect();
                    client.get::<()>("CONFIG SET rdb-key-save-delay 60000000");
                    client.get::<()>("BGREWRITEAOF");
                    admits(&admitted, crash * 250 + 100);
                    assert_eq!(client.info("aof_rewrite_in_progress"), "1", "to be killed while it is written");
                }
                server.crash();
            });
            server.start_again();
        }
        for (request, (admitted, left)) in REQUESTS.iter().zip(counts(&admitted).into_iter().zip(left(&server))) {
            // What was taken at the moment of a crash, but never answered, is the only thing missing.
            let all = admitted + left;
            assert!((LIMIT - 3 * CONNECTIONS..=LIMIT).contains(&all), "{request}: {admitted} admitted, {left} left");
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
fn a_crash_forgets_at_most_what_came_since_the_last_snapshot() {
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
        // The next one is never finished: it must not count.
        client.get::<()>("CONFIG SET rdb-key-save-delay 60000000");
        client.get::<()>("BGSAVE");
        admits(&admitted, 700);
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1", "to be killed while it is written");
        server.crash();
    });
    server.start_again();
    for (index, (request, left)) in REQUESTS.iter().zip(left(&server)).enumerate() {
        let (before, admitted) = (at_snapshot[index], counts(&admitted)[index]);
        assert!(before + left <= LIMIT, "{request}: {before} before the snapshot, and {left} left");
        // And what came later is forgotten indeed, or this would say nothing.
        assert!(admitted + left > LIMIT, "{request}: {admitted} admitted, and {left} left");
    }
}

#[test]
fn an_append_only_file_whose_end_is_cut_off_loads() {
    let settings = ["--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "yes"];
    let mut server = Server::start(&settings);
    for request in REQUESTS {
        for _ in 0..10 {
            server.connect().limit(request);
        }
        let (before, length) =
            (all_digests(&mut server.connect()), fs::read(facts_file(&server)).expect("a file").len());
        server.connect().limit(request);
        let whole = fs::read(facts_file(&server)).expect("a file");
        assert!(whole.len() > length + 20, "{request} wrote nothing");
        for cut in [length + 1, usize::midpoint(length, whole.len()), whole.len() - 1] {
            server.crash();
            fs::write(facts_file(&server), &whole[..cut]).expect("cut");
            server.start_again();
            assert_eq!(all_digests(&mut server.connect()), before, "{request}: cut at {cut} of {}", whole.len());
        }
    }
}
