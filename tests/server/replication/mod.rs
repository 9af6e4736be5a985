//! Replicas equal their primary bit for bit, whatever their clocks.

mod consumers;

use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::{all_digests, send, Digest};
use crate::common::{eventually, Client, Server};

#[test]
fn a_replica_has_the_same_digests_after_mixed_traffic() {
    let mut primary = Server::with_clock(&["--repl-diskless-sync-delay", "0"]);
    let mut client = primary.connect();
    send(&mut primary, &mut client, 1_000);
    // A replica with the same clock, one an hour behind, and a chained one years ahead.
    let mut same = Server::with_clock(&["--repl-diskless-sync-delay", "0"]);
    let mut behind = Server::with_clock(&["--appendonly", "yes"]);
    let mut ahead = Server::with_clock(&[]);
    let now = primary.clock().now();
    same.clock().set(now);
    behind.clock().set(now - 3_600_000_000);
    ahead.clock().set(now + 1_000 * 86_400_000_000);
    let mut replicas = [attach(&same, &primary), attach(&behind, &primary), attach(&ahead, &same)];
    send(&mut primary, &mut client, 1_000);
    let expected = all_digests(&mut client);
    assert_eq!(expected.len(), 20);
    for replica in &mut replicas {
        catch_up(&mut client, replica);
    }
    for replica in &mut replicas[..2] {
        assert_eq!(digests_of(replica, &expected), expected);
    }
    // A replica restarts from its own append-only file.
    behind.restart();
    assert_eq!(digests_of(&mut behind.connect(), &expected), expected);
    // A replica hides the expiry of keys that have expired by its clock, but has them all: only a primary deletes them.
    let values = |digests: Vec<Digest>| digests.into_iter().map(|(key, (value, _))| (key, value)).collect::<Vec<_>>();
    assert_eq!(values(digests_of(&mut replicas[2], &expected)), values(expected));
}

#[test]
fn replicas_receive_effects_and_no_denials() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    let applied = |follower: &mut Client| follower.info("cmdstat_rl.apply").contains("calls=3,");
    for _ in 0..3 {
        assert_eq!(client.limit("RL.FIXEDWINDOW key 3 10w")[0], 1);
    }
    eventually("three effects arrive", || {
        applied(&mut follower) || follower.info("cmdstat_RL.APPLY").contains("calls=3,")
    });
    let offset = client.number("master_repl_offset");
    for _ in 0..20 {
        assert_eq!(client.limit("RL.FIXEDWINDOW key 3 10w")[0], 0);
        assert_eq!(client.limit("RL.FIXEDWINDOW other 3 10w COST 4")[3], -1);
    }
    // Pings of the primary also move the offset, by 14 bytes every ten seconds.
    let moved = client.number("master_repl_offset") - offset;
    assert!(moved <= 5 * 14, "denials sent {moved} bytes");
}

#[test]
fn a_replica_rejects_requests() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut follower = attach(&replica, &primary);
    for command in ["TOKENBUCKET", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGLOG", "SLIDINGCOUNTER"] {
        assert!(follower.error(&format!("RL.{command} key 10 10")).starts_with("READONLY"));
    }
    assert!(follower.error("RL.APPLY key effect").starts_with("READONLY"));
}

#[test]
fn transactions_and_scripts_replicate_effects() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    client.get::<()>("MULTI");
    client.get::<()>("RL.SLIDINGLOG log 10 1d COST 2");
    client.get::<()>("RL.SLIDINGLOG log 10 1d COST 20");
    client.get::<()>("RL.TOKENBUCKET bucket 10 1/h COST 3");
    client.get::<()>("EXEC");
    client.eval::<()>("for i = 1, 3 do redis.call('RL.SLIDINGCOUNTER', KEYS[1], 10, '1d') end", "counter", &[]);
    catch_up(&mut client, &mut follower);
    let expected = all_digests(&mut client);
    assert_eq!(expected.len(), 3);
    assert_eq!(digests_of(&mut follower, &expected), expected);
}

#[test]
fn watch_on_a_replica_fails_after_changes_only() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&["--repl-diskless-load", "swapdb"]);
    let mut client = primary.connect();
    client.limit("RL.SLIDINGLOG log 10 1d");
    let mut follower = attach(&replica, &primary);
    assert!(!replica.log().contains("modules that are not aware of async replication"), "{}", replica.log());
    for (command, changes) in [("RL.SLIDINGLOG log 10 1d COST 11", false), ("RL.SLIDINGLOG log 10 1d", true)] {
        follower.get::<()>("WATCH log");
        client.limit(command);
        catch_up(&mut client, &mut follower);
        follower.get::<()>("MULTI");
        follower.get::<()>("PING");
        assert_eq!(follower.get::<Option<Vec<String>>>("EXEC").is_none(), changes, "{command}");
    }
}

#[test]
fn a_promoted_replica_continues_with_the_primarys_state() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d COST 7")[2], 3);
    catch_up(&mut client, &mut follower);
    drop(primary);
    follower.get::<()>("REPLICAOF NO ONE");
    assert_eq!(follower.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 2]);
    assert_eq!(follower.limit("RL.SLIDINGLOG log 10 1d COST 3")[..3], [0, 10, 2]);
}

#[test]
fn wait_and_min_replicas_to_write_work() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    client.limit("RL.SLIDINGLOG log 10 1d");
    assert_eq!(client.get::<i64>("WAIT 1 60000"), 1);
    assert_eq!(follower.get::<i64>("EXISTS log"), 1);
    let before = client.digest("log");
    client.get::<()>("CONFIG SET min-replicas-to-write 2");
    assert!(client.error("RL.SLIDINGLOG log 10 1d").starts_with("NOREPLICAS"));
    assert_eq!(client.digest("log"), before);
}
