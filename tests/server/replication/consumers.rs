//! Effects are not built without a consumer, and a new consumer misses none.
//!
//! In every test the server first serves requests without a consumer, so that it knows that there is none.

use std::thread;
use std::time::Duration;

use crate::common::load::under_load;
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::all_digests;
use crate::common::{eventually, Client, Server};

/// Options for partial resyncs: the backlog holds everything that a replica misses, and there are no pings.
const PARTIAL_RESYNC: [&str; 6] =
    ["--repl-backlog-size", "64mb", "--repl-ping-replica-period", "3600", "--repl-diskless-sync-delay", "0"];

/// Sends requests before, during and after `meanwhile`.
fn under_traffic<T>(server: &Server, meanwhile: impl FnOnce() -> T) -> T {
    requests(&mut server.connect(), 200);
    let result = under_load(server, 1, |_| |client: &mut Client| requests(client, 20), meanwhile);
    requests(&mut server.connect(), 200);
    result
}

fn requests(client: &mut Client, count: usize) {
    for number in 0..count {
        let key = number % 4;
        client.limit(&format!("RL.SLIDINGLOG log{key} 1000000 1d"));
        client.limit(&format!("RL.TOKENBUCKET bucket{key} 1000000 100/d"));
        client.limit(&format!("RL.SLIDINGCOUNTER counter{key} 1000000 10w"));
    }
}

fn assert_follows(primary: &Server, follower: &mut Client) {
    let mut client = primary.connect();
    catch_up(&mut client, follower);
    let expected = all_digests(&mut client);
    assert_eq!(expected.len(), 12);
    assert_eq!(digests_of(follower, &expected), expected);
}

#[test]
fn a_replica_that_attaches_under_traffic_misses_nothing() {
    for settings in [["--repl-diskless-sync", "no"], ["--repl-diskless-sync-delay", "0"]] {
        let primary = Server::start(&settings);
        let replica = Server::start(&[]);
        let mut follower = under_traffic(&primary, || attach(&replica, &primary));
        assert_follows(&primary, &mut follower);
    }
}

#[test]
fn a_replica_that_attaches_during_another_save_misses_nothing() {
    let primary = Server::start(&["--repl-diskless-sync", "no"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    requests(&mut client, 4);
    let mut follower = under_traffic(&primary, || {
        // The running save, slowed down, is not for replicas: it lacks the requests since its start.
        client.get::<()>("CONFIG SET rdb-key-save-delay 700000");
        client.get::<()>("BGSAVE");
        let mut follower = replica.connect();
        follower.get::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        eventually("the replica waits", || client.info("connected_slaves") == "1");
        assert_eq!(client.info("rdb_bgsave_in_progress"), "1", "the replica must attach during that save");
        client.get::<()>("CONFIG SET rdb-key-save-delay 0");
        eventually("the replica is attached", || follower.info("master_link_status") == "up");
        follower
    });
    assert_follows(&primary, &mut follower);
}

#[test]
fn a_replica_that_comes_back_misses_nothing() {
    let primary = Server::start(&PARTIAL_RESYNC);
    let replica = Server::start(&[]);
    requests(&mut primary.connect(), 10);
    let mut follower = attach(&replica, &primary);
    // The replica is disconnected; the backlog has what it misses.
    let mut client = primary.connect();
    follower.get::<()>("REPLICAOF 127.0.0.1 1");
    eventually("the replica is gone", || client.info("connected_slaves") == "0");
    let full_syncs = client.info("sync_full");
    under_traffic(&primary, || attach(&replica, &primary));
    assert_eq!(client.info("sync_full"), full_syncs, "no full sync is needed");
    assert_follows(&primary, &mut follower);
}

#[test]
fn a_primary_that_was_a_replica_misses_nothing() {
    let (first, second) = (Server::start(&PARTIAL_RESYNC), Server::start(&PARTIAL_RESYNC));
    requests(&mut first.connect(), 10);
    requests(&mut second.connect(), 10);
    let mut promoted = attach(&second, &first);
    catch_up(&mut first.connect(), &mut promoted);
    promoted.get::<()>("REPLICAOF NO ONE");
    // The old primary follows the new one by a partial resync.
    let mut follower = under_traffic(&second, || attach(&first, &second));
    assert_eq!(promoted.info("sync_full"), "0", "no full sync is needed");
    assert_follows(&second, &mut follower);
}

#[test]
fn an_append_only_file_that_is_switched_on_misses_nothing() {
    let switched_on = ["CONFIG SET appendonly yes"];
    // In a transaction, and while another child runs, the server postpones the first rewrite.
    let in_a_transaction =
        ["MULTI", "RL.SLIDINGLOG log0 1000000 1d", switched_on[0], "RL.SLIDINGLOG log0 1000000 1d", "EXEC"];
    let beside_a_save = ["CONFIG SET rdb-key-save-delay 20000", "BGSAVE", switched_on[0]];
    let beside_a_rewrite = ["CONFIG SET rdb-key-save-delay 20000", "BGREWRITEAOF", switched_on[0]];
    for commands in [&switched_on[..], &in_a_transaction, &beside_a_save, &beside_a_rewrite] {
        let mut server = Server::start(&["--appendfsync", "always"]);
        let mut client = server.connect();
        under_traffic(&server, || {
            for command in commands {
                client.get::<()>(command);
            }
            client.get::<()>("CONFIG SET rdb-key-save-delay 0");
            client.wait_for_files();
        });
        let before = all_digests(&mut client);
        server.set(&["--appendonly", "yes"]);
        server.restart();
        assert_eq!(all_digests(&mut server.connect()), before, "{commands:?}");
    }
}

#[test]
fn save_points_count_changes_and_no_denials() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let changes = |client: &mut Client| client.info("rdb_changes_since_last_save");
    requests(&mut client, 10);
    assert_eq!(changes(&mut client), "30");
    for _ in 0..10 {
        client.limit("RL.SLIDINGLOG log0 1000000 1d COST 1000001");
    }
    assert_eq!(changes(&mut client), "30");
    client.limit("RL.SLIDINGLOG log0 1000000 1d COST 1000001 FORCE");
    assert_eq!(changes(&mut client), "31");
    // Changes trigger a save.
    client.call_bytes(&[b"CONFIG", b"SET", b"save", b"1 32"]).expect("a save point");
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(changes(&mut client), "31");
    client.limit("RL.FIXEDWINDOW window 10 1d");
    eventually("a save", || changes(&mut client) == "0");
}
