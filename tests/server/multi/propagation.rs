//! Effects of `RL.ALL` on several keys, and of `RL.CHECK` on the limits of a policy, reach replicas, files and other
//! nodes completely.

use std::fs;

use fastrand::Rng;
use limiter::{Algorithm, Quota};
use redis::Value;
use redis_ratelimit::replication::EffectBytes;

use crate::common::cluster::{Cluster, SLOTS};
use crate::common::multi::{ask, remaining, send, set};
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::{all_digests, Digest};
use crate::common::{Client, Server};

#[test]
fn a_replica_receives_one_effect_for_each_request_that_takes_something() {
    let settings = ["--repl-diskless-sync-delay", "0"];
    let (mut primary, mut behind, mut ahead) =
        (Server::with_clock(&settings), Server::with_clock(&[]), Server::with_clock(&[]));
    let now = primary.clock().now();
    behind.clock().set(now - 3_600_000_000);
    ahead.clock().set(now + 3_600_000_000);
    let mut client = primary.connect();
    let mut replicas = [attach(&behind, &primary), attach(&ahead, &primary)];
    let allowed = send(&mut primary, &mut client, 300);
    assert!((50..250).contains(&allowed), "{allowed} of 300 were allowed");
    let expected = all_digests(&mut client);
    for (replica, server) in replicas.iter_mut().zip([&mut behind, &mut ahead]) {
        catch_up(&mut client, replica);
        let calls = ["cmdstat_rl.apply", "cmdstat_RL.APPLY"].map(|field| replica.info(field)).concat();
        assert!(calls.starts_with(&format!("calls={allowed},")), "{allowed} were allowed: {calls}");
        // A replica hides expiries that are past by its clock.
        server.clock().set(primary.clock().now());
        assert_eq!(digests_of(replica, &expected), expected);
        assert!(replica.error("RL.ALL 1 FIXEDWINDOW a 10 3650d").starts_with("READONLY"));
    }
}

#[test]
fn transactions_and_scripts_replicate_effects() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    client.get::<()>("MULTI");
    client.get::<()>("RL.ALL 2 SLIDINGLOG a 10 1d TOKENBUCKET b 9 1/h COST 3");
    client.get::<()>("RL.ALL 2 SLIDINGLOG a 10 1d TOKENBUCKET b 9 1/h COST 7");
    client.get::<()>("RL.ALL 2 TOKENBUCKET b 9 1/h LEAKYBUCKET c 9 1/h COST 6");
    client.get::<()>("EXEC");
    let script = b"for i = 1, 5 do redis.call('RL.ALL', 2, 'SLIDINGLOG', KEYS[1], 10, '1d', \
                   'SLIDINGCOUNTER', KEYS[2], 3, '3650d') end";
    client.call_bytes(&[b"EVAL", script, b"2", b"a", b"d"]).expect("no error");
    catch_up(&mut client, &mut follower);
    let expected = all_digests(&mut client);
    assert_eq!(["a", "b", "c", "d"].map(|key| client.limit(&format!("RL.PEEK {key}"))[2]), [4, 0, 3, 0]);
    assert_eq!(digests_of(&mut follower, &expected), expected);
}

#[test]
fn what_is_used_survives_a_restart() {
    let append_only = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--appendfsync", "always"];
    for settings in [&append_only[..], &["--dbfilename", "dump.rdb"]] {
        let mut server = Server::with_clock(settings);
        let mut client = server.connect();
        assert!(send(&mut server, &mut client, 300) > 50);
        let before = all_digests(&mut client);
        assert!(before.len() > 5);
        if settings == append_only {
            server.restart();
            assert_eq!(all_digests(&mut server.connect()), before);
            let mut client = server.connect();
            client.get::<()>("BGREWRITEAOF");
            client.wait_for_files();
            assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        } else {
            client.get::<()>("SAVE");
        }
        server.restart();
        assert_eq!(all_digests(&mut server.connect()), before, "{settings:?}");
    }
}

#[test]
fn in_a_cluster_the_keys_of_a_request_share_a_slot() {
    let cluster = Cluster::start(2, false);
    let mut clients = cluster.connect();
    let slot: usize = clients[0].get("CLUSTER KEYSLOT user:1");
    let (near, far) = (slot * 2 / SLOTS, 1 - slot * 2 / SLOTS);
    let limits = "FIXEDWINDOW a{user:1} 10 3650d SLIDINGLOG b{user:1} 10 1d";
    for other in ["a{user:2}", "a", "user"] {
        for order in [format!("TOKENBUCKET {other} 10 1 {limits}"), format!("{limits} TOKENBUCKET {other} 10 1")] {
            assert!(clients.iter_mut().all(|it| it.error(&format!("RL.ALL 3 {order}")).starts_with("CROSSSLOT")));
        }
    }
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[near].port);
    assert_eq!(clients[far].error(&format!("RL.ALL 2 {limits}")), moved);
    assert_eq!(clients[near].get::<i64>("DBSIZE"), 0, "a redirected request takes nothing");
    let (allowed, _, each) = ask(&mut clients[near], &format!("RL.ALL 2 {limits} COST 2"));
    assert_eq!((allowed, each[0][2], each[1][2]), (1, 8, 8));
    // Without the expiry, which is sent as a time to live.
    let values = |client: &mut Client| ["a{user:1}", "b{user:1}"].map(|key| client.digest(key).0);
    let before = values(&mut clients[near]);
    cluster.move_slot(slot, near, far);
    assert_eq!(values(&mut clients[far]), before);
    assert_eq!(ask(&mut clients[far], &format!("RL.ALL 2 {limits} COST 9")).0, 0);
}

#[test]
fn in_a_cluster_the_limits_of_a_policy_move_with_their_key() {
    let cluster = Cluster::start(2, false);
    let mut clients = cluster.connect();
    let slot: usize = clients[0].get("CLUSTER KEYSLOT user:1");
    let (near, far) = (slot * 2 / SLOTS, 1 - slot * 2 / SLOTS);
    let request = "RL.CHECK policy user:1 COST 4";
    for client in &mut clients {
        set(client, "policy", "SLIDINGLOG 10 1d TOKENBUCKET 9 1/d");
    }
    assert_eq!(clients[far].error(request), format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[near].port));
    assert_eq!(remaining(&ask(&mut clients[near], request)), [6, 5]);
    let before = clients[near].digest("user:1").0;
    cluster.move_slot(slot, near, far);
    assert_eq!(clients[far].digest("user:1").0, before);
    assert_eq!(remaining(&ask(&mut clients[far], request)), [2, 1]);
    assert_eq!(ask(&mut clients[far], request).0, 0);
    // A node without the policy replies with an error.
    clients[far].get::<()>("RL.POLICY DEL policy");
    assert!(clients[far].error(request).starts_with("ERR unknown policy 'policy'"));
}

#[test]
fn effects_on_several_keys_are_applied_together_or_not_at_all() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("SET string 1");
    for request in ["RL.FIXEDWINDOW a 10 3650d", "RL.FIXEDWINDOW b 10 3650d", "RL.TOKENBUCKET bucket 10 1/d"] {
        client.limit(request);
    }
    client.get::<()>("RL.POLICY SET some FIXEDWINDOW 10 3650d");
    client.get::<Value>("RL.CHECK some policy");
    let before = all_digests(&mut client);
    let quota = Quota::parse(Algorithm::FixedWindow, b"10", b"3650d").expect("a quota");
    let effect = EffectBytes::take(&quota, 2, crate::common::now());
    let (effect, damaged): (&[u8], &[u8]) = (effect.as_ref(), &effect.as_ref()[1..]);
    let mismatch = "ERR the effect does not match the value of the key";
    let cases: [(&[&[u8]], &str); 9] = [
        (
            &[b"a", effect, b"b", damaged],
            "ERR cannot apply the effect: unsupported effect version 3 (this module reads up to 1)",
        ),
        (&[b"new", effect, b"a", b""], "ERR cannot apply the effect: corrupt data"),
        (&[b"a", effect, b"bucket", effect], mismatch),
        (&[b"new", effect, b"a", effect, b"bucket", effect], mismatch),
        (&[b"a", effect, b"policy", effect], mismatch),
        (
            &[b"a", effect, b"string", effect],
            "WRONGTYPE Operation against a key holding the wrong kind of value: 'string'",
        ),
        (&[b"a", effect, b"b"], "ERR wrong number of arguments"),
        (&[b"a", effect, b"b", effect, b"a", effect], "ERR duplicate key 'a'"),
        (&[b"new", effect, b"new", effect], "ERR duplicate key 'new'"),
    ];
    for (words, problem) in cases {
        assert_eq!(client.error_of(&[&[&b"RL.APPLY"[..]], words].concat()), problem);
        assert_eq!(all_digests(&mut client), before, "{problem}");
    }
    client.call_bytes(&[b"RL.APPLY", b"a", effect, b"new", effect, b"b", effect]).expect("applied");
    assert_eq!(["a", "new", "b"].map(|key| client.limit(&format!("RL.PEEK {key}"))[2]), [7, 8, 7]);
    let others = |digests: Vec<Digest>| digests.into_iter().filter(|it| !["a", "b", "new"].contains(&&*it.0));
    assert!(others(all_digests(&mut client)).eq(others(before)));
}

/// Changes the policy, keeping some limits in their position, and sends requests of every kind while time passes;
/// returns how many took something.
fn check(server: &mut Server, client: &mut Client, random: &mut Rng) -> i64 {
    let policies = [
        "SLIDINGLOG 20 1m FIXEDWINDOW 40 2m",
        "SLIDINGLOG 30 2m FIXEDWINDOW 50 1m TOKENBUCKET 50 1 LEAKYBUCKET 50 1",
        "FIXEDWINDOW 40 2m SLIDINGCOUNTER 40 2m",
        "SLIDINGLOG 25 1m",
    ];
    set(client, "api", policies[random.usize(..policies.len())]);
    let taken = (0..20).map(|_| {
        server.clock().advance_us(random.u64(..2_000_000));
        let (key, cost, forced) = (random.u8(..3), random.u8(1..5), random.u8(..8) == 0);
        let request = format!("RL.CHECK api key{key} COST {cost} {}", if forced { "FORCE" } else { "" });
        i64::from(ask(client, &request).0 == 1 || forced)
    });
    taken.sum()
}

#[test]
fn replicas_and_files_need_no_policies() {
    let mut none = Server::with_clock(&[]);
    let file = |name: &str, policies: &str| {
        let path = none.folder().join(name);
        fs::write(&path, policies).expect("written");
        path.to_string_lossy().into_owned()
    };
    // Servers with policy files do not replicate their policies.
    let (mine, theirs) = (file("mine", ""), file("theirs", "api TOKENBUCKET 1 1/h SLIDINGLOG 1 1h"));
    let with_file = ["policy-file", &mine, "--repl-diskless-sync-delay", "0"];
    let append_only = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
    let mut primary = Server::with_clock(&[with_file, append_only].concat());
    let mut other = Server::with_clock(&["policy-file", &theirs]);
    let now = primary.clock().now();
    none.clock().set(now - 3_600_000_000);
    other.clock().set(now + 3_600_000_000);
    let mut client = primary.connect();
    let mut replicas = [attach(&none, &primary), attach(&other, &primary)];
    let (mut random, mut taken) = (Rng::with_seed(5), 0);
    for round in 0..30 {
        taken += check(&mut primary, &mut client, &mut random);
        // Compared in each round, as differences may disappear again.
        let expected = ["key0", "key1", "key2"].map(|key| client.digest(key).0);
        for replica in &mut replicas {
            catch_up(&mut client, replica);
            let followed = ["key0", "key1", "key2"].map(|key| replica.digest(key).0);
            assert_eq!(followed, expected, "after {round} rounds");
        }
    }
    assert!((100..500).contains(&taken), "{taken} of 600 took something");
    let expected = all_digests(&mut client);
    assert_eq!(expected.len(), 3);
    for ((replica, server), policies) in replicas.iter_mut().zip([&mut none, &mut other]).zip([&[][..], &["api"]]) {
        assert_eq!(replica.get::<Vec<String>>("RL.POLICY LIST"), policies);
        let calls = ["cmdstat_rl.apply", "cmdstat_RL.APPLY"].map(|field| replica.info(field)).concat();
        assert!(calls.starts_with(&format!("calls={taken},")), "{taken} took something: {calls}");
        // A replica hides expiries that are past by its clock.
        server.clock().set(primary.clock().now());
        assert_eq!(digests_of(replica, &expected), expected);
    }
    assert!(replicas[1].error("RL.CHECK api key0").starts_with("READONLY"));
    primary.set(&append_only);
    primary.restart();
    let mut client = primary.connect();
    assert_eq!(all_digests(&mut client), expected);
    assert!(client.error("RL.CHECK api key0").contains("no policies are defined"));
    client.get::<()>("BGREWRITEAOF");
    client.wait_for_files();
    primary.restart();
    assert_eq!(all_digests(&mut primary.connect()), expected);
}

#[test]
fn a_policy_with_two_long_logs_survives_every_kind_of_restart() {
    let rdb = ["--dbfilename", "dump.rdb"];
    let file = |preamble| ["--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", preamble];
    for settings in [&rdb[..], &file("yes"), &file("no")] {
        let mut server = Server::start(settings);
        let mut client = server.connect();
        set(&mut client, "logs", "SLIDINGLOG 100000 1d FIXEDWINDOW 100000 3650d SLIDINGLOG 8000 2d");
        let script = "for i = 1, 5000 do redis.call('RL.CHECK', 'logs', KEYS[1], 'COST', i % 3 + 1, 'FORCE') end";
        client.eval::<()>(script, "key", &[]);
        assert!(client.get::<i64>("MEMORY USAGE key") > 5_000, "the logs must have thousands of entries");
        let before = all_digests(&mut client);
        if settings == rdb {
            client.get::<()>("SAVE");
        } else {
            server.restart();
            let mut client = server.connect();
            assert_eq!(all_digests(&mut client), before, "{settings:?}: effects");
            client.get::<()>("BGREWRITEAOF");
            client.wait_for_files();
            assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        }
        server.restart();
        let mut client = server.connect();
        assert_eq!(all_digests(&mut client), before, "{settings:?}");
        // 5,000 requests cost 10,001: the second log is full, the other limits are not.
        let reply = ask(&mut client, "RL.CHECK logs key FORCE");
        assert_eq!((reply.0, remaining(&reply)), (0, vec![89_998, 89_998, 0]));
        if settings != rdb {
            let after = all_digests(&mut client);
            server.restart();
            assert_eq!(all_digests(&mut server.connect()), after, "{settings:?}: rewritten and effects");
        }
    }
}
