//! Replicas under heavy traffic: attached, disconnected, chained and promoted, with any clock, they end equal to their
//! primary, bit for bit.

use crate::common::load::under_load;
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::{all_digests, send, Requests};
use crate::common::{eventually, Client, Server, START};

/// A backlog that holds everything that a test sends.
const BACKLOG: [&str; 2] = ["--repl-backlog-size", "64mb"];
const CONNECTIONS: u64 = 4;
const KEYS: usize = 200;

/// Runs `meanwhile` while several connections send requests to many keys.
fn under_heavy_load<T>(server: &Server, meanwhile: impl FnOnce() -> T) -> T {
    let worker = |number| {
        let mut requests = Requests::lasting(number);
        move |client: &mut Client| {
            let packed: Vec<u8> = requests.by_ref().take(50).flat_map(|request| packed(&request)).collect();
            for reply in client.pipeline(&packed, 50) {
                let reply: Vec<i64> = redis::from_redis_value(reply).expect("integers");
                assert!(reply.len() >= 5, "{reply:?}");
            }
        }
    };
    let result = under_load(server, CONNECTIONS, worker, meanwhile);
    // A few more, while all replicas are attached.
    let mut client = server.connect();
    for request in Requests::lasting(99).take(2_000) {
        client.limit(&request);
    }
    result
}

fn packed(request: &str) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in request.split_whitespace() {
        command.arg(word);
    }
    command.get_packed_command()
}

/// Waits until `more` requests have been served.
fn served(client: &mut Client, more: i64) {
    let enough = client.number("total_commands_processed") + more;
    eventually("requests are served", || client.number("total_commands_processed") >= enough);
}

/// The number of partial resyncs.
fn partial_syncs(client: &mut Client) -> i64 {
    client.number("sync_partial_ok")
}

/// Checks that all keys have the same digests and expiries on the primary and on each replica.
fn assert_equal(primary: &Server, replicas: &mut [Client]) {
    let mut client = primary.connect();
    for replica in &mut *replicas {
        catch_up(&mut client, replica);
    }
    let expected = all_digests(&mut client);
    assert_eq!(expected.len(), KEYS);
    for replica in replicas {
        assert_eq!(replica.get::<usize>("DBSIZE"), KEYS);
        assert_eq!(digests_of(replica, &expected), expected);
    }
}

#[test]
fn a_replica_attached_under_heavy_traffic_ends_equal() {
    for settings in [["--repl-diskless-sync", "no"], ["--repl-diskless-sync-delay", "0"]] {
        let primary = Server::start(&settings);
        let replicas = [Server::start(&[]), Server::start(&["--repl-diskless-load", "swapdb"])];
        let mut followers = under_heavy_load(&primary, || {
            let mut client = primary.connect();
            served(&mut client, 5_000);
            let first = attach(&replicas[0], &primary);
            served(&mut client, 5_000);
            let followers = [first, attach(&replicas[1], &primary)];
            served(&mut client, 5_000);
            followers
        });
        assert_equal(&primary, &mut followers);
    }
}

#[test]
fn replicas_whose_clocks_are_an_hour_off_end_equal() {
    const HOUR: i64 = 3_600_000_000;
    let with_clock = |off: i64| {
        let mut server = Server::with_clock(&["--repl-diskless-sync-delay", "0"]);
        server.clock().run_from(START.saturating_add_signed(off));
        server
    };
    let (primary, behind, ahead) = (with_clock(0), with_clock(-HOUR), with_clock(HOUR));
    let mut followers = under_heavy_load(&primary, || {
        let mut client = primary.connect();
        served(&mut client, 5_000);
        let followers = [attach(&behind, &primary), attach(&ahead, &primary)];
        served(&mut client, 5_000);
        followers
    });
    assert_equal(&primary, &mut followers);
}

#[test]
fn a_broken_link_recovers_by_a_partial_resync() {
    let primary = Server::start(&[&["--repl-diskless-sync-delay", "0"], &BACKLOG[..]].concat());
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let follower = attach(&replica, &primary);
    under_heavy_load(&primary, || {
        for broken in 1..=5 {
            served(&mut client, 2_000);
            client.get::<()>("CLIENT KILL TYPE replica");
            eventually("the link recovers", || partial_syncs(&mut client) >= broken);
        }
    });
    assert_eq!(client.info("sync_full"), "1", "only the first sync may be full");
    assert_equal(&primary, &mut [follower]);
}

#[test]
fn chained_replicas_end_equal_after_broken_links_and_a_promotion() {
    let settings = [&["--repl-diskless-sync-delay", "0"], &BACKLOG[..]].concat();
    let (first, middle, last) = (Server::start(&settings), Server::start(&settings), Server::start(&settings));
    let (mut near, mut far) = (attach(&middle, &first), attach(&last, &middle));
    under_heavy_load(&first, || {
        let mut client = first.connect();
        for broken in 1..=3 {
            served(&mut client, 2_000);
            client.get::<()>("CLIENT KILL TYPE replica");
            near.get::<()>("CLIENT KILL TYPE replica");
            eventually("the links recover", || {
                partial_syncs(&mut client) >= broken && partial_syncs(&mut near) >= broken
            });
            eventually("all are attached", || {
                [&mut near, &mut far].iter_mut().all(|it| it.info("master_link_status") == "up")
            });
        }
    });
    let mut followers = [near, far];
    assert_equal(&first, &mut followers);
    // The first server is lost. The last one follows the new primary by a partial resync.
    let expected = all_digests(&mut first.connect());
    drop(first);
    let [mut near, mut far] = followers;
    let (full_syncs, partial) = (near.info("sync_full"), partial_syncs(&mut near));
    near.get::<()>("REPLICAOF NO ONE");
    eventually("the last follows", || partial_syncs(&mut near) > partial && far.info("master_link_status") == "up");
    assert_eq!(digests_of(&mut near, &expected), expected);
    under_heavy_load(&middle, || served(&mut near, 5_000));
    assert_equal(&middle, &mut [far]);
    assert_eq!(near.info("sync_full"), full_syncs, "no second full sync is needed");
}

#[test]
fn a_promoted_replica_decides_like_the_primary() {
    let start = || Server::with_clock(&["--repl-diskless-sync-delay", "0"]);
    let (mut primary, mut replica, mut unharmed) = (start(), start(), start());
    let traffic = |server: &mut Server, count| {
        let mut client = server.connect();
        send(server, &mut client, count)
    };
    // The same requests at the same times, to the primary and to a server without failover.
    assert_eq!(traffic(&mut primary, 500), traffic(&mut unharmed, 500));
    let mut follower = attach(&replica, &primary);
    assert_eq!(traffic(&mut primary, 500), traffic(&mut unharmed, 500));
    catch_up(&mut primary.connect(), &mut follower);
    primary.crash();
    follower.get::<()>("REPLICAOF NO ONE");
    let now = unharmed.clock().now();
    replica.clock().set(now);
    let (promoted, expected) = (traffic(&mut replica, 1_000), traffic(&mut unharmed, 1_000));
    assert!(expected.iter().any(|reply| reply[0] == 1) && expected.iter().any(|reply| reply[0] == 0));
    assert_eq!(promoted, expected);
}
