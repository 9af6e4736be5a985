//! Policies as data of the server: `RL.POLICY` and replication. `persistence.rs` tests their files.

mod file;
mod persistence;
mod save;

use redis::Value;

use crate::common::cluster::Cluster;
use crate::common::policies::{policies, set_policies};
use crate::common::replicas::{attach, catch_up};
use crate::common::{eventually, Client, Server};

const API: &str = "api TOKENBUCKET 100 10/s FIXEDWINDOW 1000 1d";
const LOGIN: &str = "login SLIDINGLOG 5 1m";
const OTHER: &str = "other LEAKYBUCKET 7 7/d";

const SYNC_AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

#[test]
fn each_subcommand_replies_as_documented() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("RL.POLICY LIST").expect("a reply"), Value::Array(vec![]));
    assert_eq!(client.call("RL.POLICY GET api").expect("a reply"), Value::Nil);
    assert_eq!(client.get::<i64>("RL.POLICY DEL api"), 0);
    assert_eq!(client.call("RL.POLICY SET b FIXEDWINDOW 1000 1d").expect("a reply"), Value::Okay);
    // Subcommands and algorithms are case-insensitive, names are not. Parameters are kept as they are written.
    set_policies(&mut client, &["B slidingLOG 010 0.50 leakybucket 7 100/m", "a-b_c.d:e/f9 SlidingCounter 1 60"]);
    assert_eq!(client.get::<Vec<String>>("rl.policy list"), ["B", "a-b_c.d:e/f9", "b"]);
    let words: Vec<String> = client.get("rl.policy gEt B");
    assert_eq!(words, ["SLIDINGLOG", "010", "0.50", "LEAKYBUCKET", "7", "100/m"]);
    assert_eq!(client.get::<i64>("rl.policy del B"), 1);
    assert_eq!(client.get::<i64>("RL.POLICY DEL B"), 0);
    assert_eq!(policies(&mut client), ["a-b_c.d:e/f9 SLIDINGCOUNTER 1 60", "b FIXEDWINDOW 1000 1d"]);
    let help: Vec<String> = client.get("RL.POLICY HELP");
    for subcommand in ["SET <name> <ALGORITHM>", "GET <name>", "DEL <name>", "LIST", "LOAD", "SAVE", "HELP"] {
        assert!(help.iter().any(|line| line.starts_with(subcommand)), "{subcommand} in {help:?}");
    }
    // The longest name and the most limits.
    let long = format!("{} {}", "n".repeat(128), ["FIXEDWINDOW 5 1d"; 128].join(" "));
    set_policies(&mut client, &[&long]);
    assert_eq!(policies(&mut client)[2], long);
    assert_eq!(client.get::<Vec<Value>>(&format!("RL.CHECK {} key", "n".repeat(128))).len(), 2 + 128);
}

#[test]
fn every_error_says_what_is_wrong_and_changes_nothing() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    set_policies(&mut client, &[API, LOGIN]);
    let name = "expected up to 128 letters, digits, and any of _ - . : /";
    let algorithms = "expected TOKENBUCKET, LEAKYBUCKET, FIXEDWINDOW, SLIDINGLOG or SLIDINGCOUNTER";
    let window =
        "expected seconds such as 60 or 0.5, or a number with a unit (us, ms, s, m, h, d, w) such as 500ms or \
                  1d, in whole microseconds from 1ms to 10 years";
    let no_file = "this instance is not configured to use a policy file, see ratelimit.policy-file";
    let many = ["FIXEDWINDOW 5 1d"; 129].join(" ");
    for (arguments, message) in [
        ("SET api! FIXEDWINDOW 1 1d", format!("invalid name 'api!': {name}")),
        ("SET #api FIXEDWINDOW 1 1d", format!("invalid name '#api': {name}")),
        ("SET api x 1 1d", format!("limit 1: unknown algorithm 'x': {algorithms}")),
        ("SET api FIXEDWINDOW 1 1d RL.ALL 1 1d", format!("limit 2: unknown algorithm 'RL.ALL': {algorithms}")),
        ("SET api FIXEDWINDOW 1 1d SLIDINGLOG 1 1y", format!("limit 2: invalid window '1y': {window}")),
        (
            "SET api FIXEDWINDOW 1 1d TOKENBUCKET 0 1",
            "limit 2: invalid capacity '0': expected an integer from 1 to 9007199254740991".to_owned(),
        ),
        ("SET api FIXEDWINDOW 1 1d FIXEDWINDOW", "limit 2 is incomplete: expected ALGORITHM a b".to_owned()),
        ("SET api FIXEDWINDOW 1 1d FIXEDWINDOW 1", "limit 2 is incomplete: expected ALGORITHM a b".to_owned()),
        (&format!("SET api {many}"), "a policy has at most 128 limits".to_owned()),
        (
            &format!("SET api FIXEDWINDOW 1 1d FIXEDWINDOW 1 1.{}", "0".repeat(63)),
            format!("limit 2: '1.{}...' is longer than 64 characters", "0".repeat(62)),
        ),
        ("LOAD", no_file.to_owned()),
        ("SAVE", no_file.to_owned()),
        ("NONSENSE", "unknown subcommand 'NONSENSE'. Try RL.POLICY HELP.".to_owned()),
    ] {
        assert_eq!(client.error(&format!("RL.POLICY {arguments}")), format!("ERR {message}"));
    }
    for bad in [b"".as_slice(), b"api\n", b"a b", b"\xc3\xa4", &[b'n'; 129]] {
        let error = client.error_of(&[b"RL.POLICY", b"SET", bad, b"FIXEDWINDOW", b"1", b"1d"]);
        assert!(error.starts_with("ERR invalid name '") && error.ends_with(name), "{error}");
    }
    for (command, arguments) in [
        ("rl.policy", ""),
        ("rl.policy|set", "SET api FIXEDWINDOW 1"),
        ("rl.policy|get", "GET"),
        ("rl.policy|get", "GET api login"),
        ("rl.policy|del", "DEL"),
        ("rl.policy|del", "DEL api login"),
        ("rl.policy|list", "LIST a*"),
        ("rl.policy|load", "LOAD file"),
        ("rl.policy|save", "SAVE file"),
        ("rl.policy|help", "HELP SET"),
    ] {
        let error = client.error(&format!("RL.POLICY {arguments}")).to_lowercase();
        assert_eq!(error, format!("err wrong number of arguments for '{command}' command"));
    }
    assert_eq!(client.error("RL.CHECK nobody key"), "ERR unknown policy 'nobody', known policies: api, login");
    assert_eq!(policies(&mut client), [API, LOGIN]);
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
}

#[test]
fn the_next_request_uses_the_new_policy() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let allowed = |client: &mut Client| {
        let reply: Vec<Value> = client.get("RL.CHECK policy key");
        (reply[0] == Value::Int(1), reply.len() - 2)
    };
    assert!(client.error("RL.CHECK policy key").starts_with("ERR unknown policy 'policy', no policies are defined"));
    set_policies(&mut client, &["policy SLIDINGLOG 1 1d"]);
    assert_eq!([allowed(&mut client), allowed(&mut client)], [(true, 1), (false, 1)]);
    set_policies(&mut client, &["policy SLIDINGLOG 2 1d SLIDINGCOUNTER 9 1d"]);
    assert_eq!([allowed(&mut client), allowed(&mut client)], [(true, 2), (false, 2)]);
    client.get::<()>("RL.POLICY DEL policy");
    assert!(client.error("RL.CHECK policy key").starts_with("ERR unknown policy 'policy'"));
}

#[test]
fn replicas_follow_and_a_promoted_replica_has_the_policies() {
    let [primary, replica, chained] = [(); 3].map(|()| Server::start(&SYNC_AT_ONCE));
    let mut client = primary.connect();
    let mut replicas = [attach(&replica, &primary), attach(&chained, &replica)];
    set_policies(&mut client, &[API, OTHER, "login FIXEDWINDOW 1 1h", LOGIN]);
    client.get::<()>("RL.POLICY DEL other");
    for follower in &mut replicas {
        catch_up(&mut client, follower);
        assert_eq!(policies(follower), [API, LOGIN]);
        for command in ["SET api FIXEDWINDOW 1 1d", "DEL api"] {
            assert!(follower.error(&format!("RL.POLICY {command}")).starts_with("READONLY"));
        }
        assert_eq!(policies(follower), [API, LOGIN]);
    }
    drop(primary);
    let [promoted, last] = &mut replicas;
    promoted.get::<()>("REPLICAOF NO ONE");
    assert_eq!(policies(promoted), [API, LOGIN]);
    assert_eq!(promoted.get::<Vec<Value>>("RL.CHECK login key")[0], Value::Int(1));
    // The chained replica still follows it.
    set_policies(promoted, &[OTHER]);
    eventually("the new policy arrives", || policies(last) == [API, LOGIN, OTHER]);
}

#[test]
fn transactions_and_scripts_are_replicated() {
    let primary = Server::start(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let mut replica = Server::start(&["--appendonly", "yes"]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    set_policies(&mut client, &[OTHER]);
    for command in ["MULTI", "RL.POLICY SET login SLIDINGLOG 5 1m", "RL.CHECK login key", "RL.POLICY DEL other"] {
        client.get::<()>(command);
    }
    let replies: Vec<Value> = client.get("EXEC");
    assert_eq!((&replies[0], &replies[2]), (&Value::Okay, &Value::Int(1)));
    let script = "return redis.call('RL.POLICY', 'SET', 'api', unpack(ARGV))";
    client.eval::<()>(script, "key", &API.split(' ').skip(1).collect::<Vec<_>>());
    catch_up(&mut client, &mut follower);
    assert_eq!(policies(&mut follower), [API, LOGIN]);
    assert_eq!(follower.digest("key"), client.digest("key"));
    replica.restart();
    assert_eq!(policies(&mut replica.connect()), [API, LOGIN]);
}

#[test]
fn a_full_sync_replaces_what_the_replica_had() {
    for sync in ["no", "yes"] {
        for load in ["disabled", "swapdb"] {
            for expected in [&[API, LOGIN][..], &[]] {
                let primary = Server::start(&["--repl-diskless-sync", sync, "--repl-diskless-sync-delay", "0"]);
                let replica = Server::start(&["--repl-diskless-load", load]);
                set_policies(&mut primary.connect(), expected);
                set_policies(&mut replica.connect(), &[OTHER, "login FIXEDWINDOW 1 1h"]);
                let mut follower = attach(&replica, &primary);
                assert_eq!(policies(&mut follower), expected, "diskless sync {sync}, load {load}");
            }
        }
    }
}

#[test]
fn a_sync_with_swapdb_replaces_policies_once_it_is_complete() {
    for complete in [true, false] {
        let small_backlog = ["--repl-backlog-size", "16kb", "--repl-diskless-sync", "yes", "--rdbcompression", "no"];
        let mut primary = Server::start(&[&small_backlog[..], &SYNC_AT_ONCE].concat());
        let slow = ["--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024"];
        let replica = Server::start(&[&["--repl-diskless-load", "swapdb"], &slow[..]].concat());
        let mut client = primary.connect();
        set_policies(&mut client, &[OTHER]);
        let mut follower = attach(&replica, &primary);
        // It misses more than the backlog holds, but has the same history, so its own data is served while it loads.
        follower.get::<()>("REPLICAOF 127.0.0.1 1");
        eventually("the replica is gone", || client.info("connected_slaves") == "0");
        client.get::<()>("RL.POLICY DEL other");
        set_policies(&mut client, &[API, LOGIN]);
        client.get::<()>(&format!("SET large {}", "x".repeat(100_000)));
        // More than the buffers of the connection hold.
        client.get::<()>("DEBUG POPULATE 2000 key 10000");
        follower.get::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        eventually("it loads", || follower.info("async_loading") == "1");
        assert_eq!(policies(&mut follower), [OTHER]);
        assert_eq!(follower.info("async_loading"), "1", "the replica must still be loading");
        if complete {
            follower.get::<()>("CONFIG SET key-load-delay 0");
            eventually("it is attached", || follower.info("master_link_status") == "up");
            assert_eq!(policies(&mut follower), [API, LOGIN]);
        } else {
            primary.crash();
            follower.get::<()>("CONFIG SET key-load-delay 0");
            eventually("it gives up", || follower.info("async_loading") == "0");
            assert_eq!(follower.info("master_link_status"), "down");
            assert_eq!(policies(&mut follower), [OTHER]);
        }
    }
}

#[test]
fn rl_policy_is_for_administrators() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    set_policies(&mut client, &[LOGIN]);
    client.get::<()>("ACL SETUSER app on nopass ~* +rl.check +rl.policy|get");
    let mut app = server.connect();
    app.get::<()>("AUTH app x");
    assert_eq!(app.get::<Vec<String>>("RL.POLICY GET login"), ["SLIDINGLOG", "5", "1m"]);
    assert_eq!(app.get::<Vec<Value>>("RL.CHECK login key")[0], Value::Int(1));
    for command in ["SET login SLIDINGLOG 6 1m", "DEL login", "LIST", "LOAD", "SAVE", "HELP"] {
        assert!(app.error(&format!("RL.POLICY {command}")).starts_with("NOPERM"), "{command}");
    }
    assert_eq!(policies(&mut client), [LOGIN]);

    let mut info_words = |name: &str, place: usize| {
        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {name}"));
        let mut words: Vec<String> = redis::from_redis_value(info[0][place].clone()).expect("words");
        words.sort();
        words
    };
    for name in ["RL.POLICY", "RL.POLICY|SET", "RL.POLICY|GET", "RL.POLICY|DEL", "RL.POLICY|LIST", "RL.POLICY|LOAD"] {
        assert!(info_words(name, 2).contains(&"admin".to_owned()), "{name}");
        assert_eq!(info_words(name, 2).contains(&"write".to_owned()), name.ends_with("SET") || name.ends_with("DEL"));
    }
    if info_words("RL.POLICY", 6).is_empty() {
        assert!(client.info("redis_version").starts_with("7.0"), "only Redis 7.0 has no categories for modules");
        return;
    }
    assert_eq!(info_words("RL.POLICY|SET", 6), ["@admin", "@dangerous", "@write"]);
    assert_eq!(info_words("RL.POLICY|GET", 6), ["@admin", "@dangerous"]);
    client.get::<()>("ACL SETUSER careful on nopass ~* +@all -@dangerous");
    app.get::<()>("AUTH careful x");
    assert!(app.error("RL.POLICY SET login SLIDINGLOG 6 1m").starts_with("NOPERM"));
    assert_eq!(app.get::<Vec<Value>>("RL.CHECK login key")[0], Value::Int(1));
}

#[test]
fn in_a_cluster_each_primary_has_its_own_policies() {
    let cluster = Cluster::start(2, true);
    let mut nodes = cluster.connect();
    set_policies(&mut nodes[0], &[API, LOGIN]);
    set_policies(&mut nodes[1], &["login SLIDINGLOG 1 1m"]);
    for (node, expected) in [(0, &[API, LOGIN][..]), (1, &["login SLIDINGLOG 1 1m"])] {
        let [primary, replica] = nodes.get_disjoint_mut([node, 2 + node]).expect("two nodes");
        catch_up(primary, replica);
        assert_eq!(policies(primary), expected);
        assert_eq!(policies(replica), expected);
    }
}
