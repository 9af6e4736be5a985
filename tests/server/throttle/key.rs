//! The key of `CL.THROTTLE` is a token bucket like any other, for other commands, replicas, files and clusters.

use std::collections::HashMap;

use fastrand::Rng;
use redis::Value;

use crate::common::cluster::{Cluster, SLOTS};
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::{all_digests, keys_without_expiry};
use crate::common::watch::watched_key_changed;
use crate::common::{Client, Server};

#[test]
fn quantity_zero_and_denials_write_nothing() {
    let settings = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600"];
    let primary = Server::with_clock(&settings);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let _follower = attach(&replica, &primary);
    client.limit("CL.THROTTLE key 9 1 60 8");
    let state = |client: &mut Client| {
        let numbers = client.numbers(["rdb_changes_since_last_save", "master_repl_offset"]);
        (client.digest("key"), numbers, client.get::<i64>("DBSIZE"))
    };
    let before = state(&mut client);
    client.get::<()>("WATCH key none");
    for (arguments, expected) in [
        ("key 9 1 60 0", [0, 10, 2, -1, 480]),
        ("key 9 1 60 3", [1, 10, 2, 60, 480]),
        ("key 9 1 60 11", [1, 10, 2, -1, 480]),
        // With other limits than those of the key, which stay.
        ("key 19 1 60 0", [0, 20, 12, -1, 480]),
        ("key 7 1 60", [1, 8, 0, 60, 480]),
        ("none 9 1 60 0", [0, 10, 10, -1, 0]),
        ("none 9 1 60 11", [1, 10, 10, -1, 0]),
    ] {
        assert_eq!(client.limit(&format!("CL.THROTTLE {arguments}")), expected, "{arguments}");
    }
    assert!(!watched_key_changed(&mut client));
    assert_eq!(state(&mut client), before);
    // A request that takes something is a change for all consumers.
    client.get::<()>("WATCH key");
    assert_eq!(client.limit("CL.THROTTLE key 9 1 60"), [0, 10, 1, -1, 540]);
    assert!(watched_key_changed(&mut client));
    let after = state(&mut client);
    assert!(after.0 != before.0 && after.1[0] == before.1[0] + 1 && after.1[1] > before.1[1], "{after:?}");
}

#[test]
fn it_shares_its_key_with_the_token_bucket() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60"), [0, 16, 15, -1, 2]);
    assert_eq!(client.limit("RL.TOKENBUCKET key 16 30/m COST 5"), [1, 16, 10, 0, 12_000]);
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60 0"), [0, 16, 10, -1, 12]);
    assert_eq!(client.limit("RL.PEEK key COST 11"), [0, 16, 10, 2_000, 12_000]);
    let info: HashMap<String, Value> = client.get("RL.INFO key");
    let shown = ["algorithm", "rate", "capacity", "used", "reset_after_ms"].map(|field| info[field].clone());
    assert_eq!(shown[..2], ["TOKENBUCKET", "30/m"].map(|text| Value::BulkString(text.into())));
    assert_eq!(shown[2..], [16, 6, 12_000].map(Value::Int));
    assert_eq!(client.limit("RL.REFUND key 4"), [1, 16, 14, 0, 4_000]);
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60 15"), [1, 16, 14, 2, 4]);
    // Bit for bit the value that the other command makes.
    client.limit("RL.TOKENBUCKET other 16 0.5 COST 2");
    assert_eq!(client.digest("key"), client.digest("other"));
    // Unlike in redis-cell, a forced debt limits even a quantity of zero.
    client.limit("RL.TOKENBUCKET key 16 30/m COST 20 FORCE");
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60 0"), [1, 16, 0, 12, 44]);
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60"), [1, 16, 0, 14, 44]);
}

#[test]
fn changed_limits_work_as_for_a_token_bucket() {
    let mut server = Server::with_clock(&[]);
    let (mut client, mut random) = (server.connect(), Rng::with_seed(11));
    let quotas = [(4, 1, 1), (9, 1, 1), (0, 1, 3), (9, 7, 3), (19, 1, 10)];
    let (mut allowed, mut limited) = (0, 0);
    for step in 0..500 {
        let (max_burst, count, period) = quotas[random.usize(..quotas.len())];
        let (quantity, capacity) = (random.u64(1..4), max_burst + 1);
        let reply = client.limit(&format!("CL.THROTTLE cell {max_burst} {count} {period} {quantity}"));
        let same = client.limit(&format!("RL.TOKENBUCKET bucket {capacity} {count}/{period}s COST {quantity}"));
        assert_eq!((reply[0], &reply[1..3]), (1 - same[0], &same[1..3]), "step {step}");
        // Milliseconds, rounded up to seconds.
        for (seconds, millis) in [(reply[3], same[3]), (reply[4], same[4])] {
            let none = seconds == -1 && millis <= 0;
            assert!(none || (millis - 1..millis + 1_000).contains(&(seconds * 1_000)), "{seconds} s, {millis} ms");
        }
        assert_eq!(client.digest("cell"), client.digest("bucket"), "step {step}");
        (allowed, limited) = (allowed + same[0], limited + reply[0]);
        server.clock().advance_us(random.u64(..2_000_000));
    }
    assert!(allowed > 100 && limited > 100, "{allowed} allowed, {limited} limited");
}

/// Sends requests of every kind to a few keys while time passes; returns how many took something.
fn send(server: &mut Server, client: &mut Client, random: &mut Rng) -> usize {
    let mut taken = 0;
    for _ in 0..300 {
        let (key, quantity) = (random.u8(..5), random.u64(..6));
        let max_burst = if random.u8(..8) == 0 { 12 } else { 9 };
        let reply = client.limit(&format!("CL.THROTTLE key:{key} {max_burst} {} 60 {quantity}", 3 + key));
        taken += usize::from(reply[0] == 0 && quantity > 0);
        server.clock().advance_us(random.u64(..3_000_000));
    }
    taken
}

#[test]
fn replicas_and_the_append_only_file_have_the_same_keys() {
    let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--repl-diskless-sync-delay", "0"];
    let mut primary = Server::with_clock(&settings);
    let mut replica = Server::with_clock(&[]);
    let (mut client, mut random) = (primary.connect(), Rng::with_seed(13));
    send(&mut primary, &mut client, &mut random);
    let now = primary.clock().now();
    replica.clock().set(now - 3_600_000_000);
    let mut follower = attach(&replica, &primary);
    let taken = send(&mut primary, &mut client, &mut random);
    assert!((50..250).contains(&taken), "{taken}");
    catch_up(&mut client, &mut follower);
    let expected = all_digests(&mut client);
    assert_eq!(expected.len(), 5);
    assert_eq!(digests_of(&mut follower, &expected), expected);
    // Denials and quantities of zero are not replicated.
    let [lower, upper] = follower.infos(["cmdstat_rl.apply", "cmdstat_RL.APPLY"]);
    assert!(format!("{lower}{upper}").starts_with(&format!("calls={taken},")), "{taken} taken: {lower}{upper}");
    assert!(follower.error("CL.THROTTLE key:0 9 3 60").starts_with("READONLY"));

    primary.restart();
    assert_eq!(all_digests(&mut primary.connect()), expected, "replayed");
    let mut client = primary.connect();
    client.get::<()>("BGREWRITEAOF");
    client.wait_for_files();
    primary.restart();
    let mut client = primary.connect();
    assert_eq!(all_digests(&mut client), expected, "rewritten");
    assert_eq!(keys_without_expiry(&mut client), [""; 0]);
}

#[test]
fn transactions_and_scripts_can_use_it() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    client.get::<()>("MULTI");
    client.get::<()>("CL.THROTTLE key 15 1 86400 3");
    client.get::<()>("CL.THROTTLE key 15 1 86400 14");
    client.get::<()>("CL.THROTTLE key 15 1 86400 0");
    let reply: Vec<Vec<i64>> = client.get("EXEC");
    assert_eq!(reply.iter().map(|reply| (reply[0], reply[2])).collect::<Vec<_>>(), [(0, 13), (1, 13), (0, 13)]);
    let script = "for i = 1, 3 do redis.call('CL.THROTTLE', KEYS[1], 15, 1, 86400) end \
                  return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], 1, 86400, 11)";
    assert_eq!(client.eval::<Vec<i64>>(script, "key", &["15"])[..3], [1, 16, 10]);
    assert_eq!(client.eval::<Vec<i64>>(script, "key", &["20"])[..3], [0, 21, 1]);
    catch_up(&mut client, &mut follower);
    assert_eq!(follower.digest("key"), client.digest("key"));
}

#[test]
fn command_info_and_acls_know_its_key() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let keys: Vec<String> = client.get("COMMAND GETKEYS CL.THROTTLE the:key 15 30 60 2");
    assert_eq!(keys, ["the:key"]);
    let found: Vec<Vec<Value>> = client.get("COMMAND INFO cl.throttle");
    assert_eq!(found[0][1], Value::Int(-5));
    let flags = format!("{:?}", found[0][2]);
    assert!(["write", "denyoom", "fast"].iter().all(|flag| flags.contains(flag)), "{flags}");
    client.get::<()>("ACL SETUSER limited on nopass ~own:* %R~seen +cl.throttle");
    let mut user = server.connect();
    user.get::<()>("AUTH limited x");
    assert_eq!(user.limit("CL.THROTTLE own:1 15 30 60")[..3], [0, 16, 15]);
    for key in ["other", "seen"] {
        assert!(user.error(&format!("CL.THROTTLE {key} 15 30 60 0")).starts_with("NOPERM"), "{key}");
    }
}

#[test]
fn a_cluster_routes_it_by_its_key() {
    let cluster = Cluster::start(2, false);
    let mut clients = cluster.connect();
    let mut slot = |key: &str| clients[0].get::<usize>(&format!("CLUSTER KEYSLOT {key}"));
    let keys: Vec<_> = (0..100).map(|number| format!("user:{number}")).map(|key| (slot(&key), key)).collect();
    let (near, far): (Vec<_>, Vec<_>) = keys.iter().partition(|(slot, _)| *slot < SLOTS / 2);
    let (near, (far_slot, far)) = (&near[0].1, far[0]);
    let moved = format!("MOVED {far_slot} 127.0.0.1:{}", cluster.nodes[1].port);
    assert_eq!(clients[0].limit(&format!("CL.THROTTLE {near} 15 1 86400"))[..3], [0, 16, 15]);
    assert_eq!(clients[0].error(&format!("CL.THROTTLE {far} 15 1 86400")), moved);
    assert_eq!(clients[1].limit(&format!("CL.THROTTLE {far} 15 1 86400"))[..3], [0, 16, 15]);
    // A cluster client finds all keys.
    let mut everywhere = cluster.client();
    for (_, key) in &keys {
        let remaining = if key == near || key == far { 14 } else { 15 };
        assert_eq!(everywhere.limit(&format!("CL.THROTTLE {key} 15 1 86400"))[..3], [0, 16, remaining], "{key}");
    }
    let client = &mut clients[0];
    client.get::<()>("MULTI");
    client.get::<()>(&format!("CL.THROTTLE {near} 15 1 86400"));
    assert_eq!(client.get::<Vec<Vec<i64>>>("EXEC")[0][..3], [0, 16, 13]);
    client.get::<()>("MULTI");
    assert_eq!(client.error(&format!("CL.THROTTLE {far} 15 1 86400")), moved);
    assert!(client.error("EXEC").starts_with("EXECABORT"));
    let script = "return redis.call('CL.THROTTLE', KEYS[1], 15, 1, 86400)";
    assert_eq!(client.eval::<Vec<i64>>(script, near, &[])[..3], [0, 16, 12]);
    let words = [b"EVAL".as_slice(), script.as_bytes(), b"1", far.as_bytes()];
    assert_eq!(client.error_of(&words), moved);
}
