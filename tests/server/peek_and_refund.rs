//! `RL.PEEK`, `RL.REFUND` and `RL.INFO`.

use std::collections::HashMap;

use redis::Value;

use crate::common::long_log::make_million;
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::all_digests;
use crate::common::{Client, Server};

/// Each command with a limit of 10 that lasts for hours.
const LIMITS: [(&str, &str); 5] = [
    ("TOKENBUCKET", "10 1/h"),
    ("LEAKYBUCKET", "10 1/h"),
    ("FIXEDWINDOW", "10 3650d"),
    ("SLIDINGLOG", "10 1d"),
    ("SLIDINGCOUNTER", "10 10w"),
];
const POLICY: &str = "RL.POLICY SET policy TOKENBUCKET 10 1/h SLIDINGLOG 5 1d";

/// The reply of `RL.INFO`.
fn info(client: &mut Client, key: &str) -> HashMap<String, Value> {
    client.get(&format!("RL.INFO {key}"))
}

fn integer(info: &HashMap<String, Value>, field: &str) -> i64 {
    redis::from_redis_value(info[field].clone()).unwrap_or_else(|_| panic!("{field} in {info:?}"))
}

fn text(info: &HashMap<String, Value>, field: &str) -> String {
    redis::from_redis_value(info[field].clone()).unwrap_or_else(|_| panic!("{field} in {info:?}"))
}

#[test]
fn a_peek_returns_the_reply_of_a_request_and_takes_nothing() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for (name, limit) in LIMITS {
        let reply = client.limit(&format!("RL.{name} {name} {limit} COST 7"));
        let before = client.digest(name);
        // The remaining quota stays the same.
        let mut seen = client.limit(&format!("RL.PEEK {name} COST 3"));
        assert_eq!(seen[..5], reply[..5], "{name}");
        seen = client.limit(&format!("RL.PEEK {name}"));
        assert_eq!(seen[..5], reply[..5], "{name}");
        let denied = client.limit(&format!("RL.{name} {name} {limit} COST 4"));
        assert_eq!(client.limit(&format!("RL.PEEK {name} cost 4")), denied, "{name}");
        assert_eq!(client.limit(&format!("RL.PEEK {name} COST 11"))[..4], [0, 10, 3, -1], "{name}");
        assert_eq!(client.digest(name), before);
    }
    // A leaky bucket also returns the delay of the request.
    assert_eq!(client.limit("RL.PEEK LEAKYBUCKET")[5], 7 * 3_600_000);
    assert_eq!(client.limit("RL.PEEK LEAKYBUCKET COST 4")[5], 0);
    // After the wait the request is allowed.
    let wait = client.limit("RL.PEEK TOKENBUCKET COST 4")[3];
    server.clock().advance_us(u64::try_from(wait).expect("a wait") * 1_000 - 1_000);
    assert_eq!(client.limit("RL.PEEK TOKENBUCKET COST 4")[..4], [0, 10, 3, 1]);
    server.clock().advance_us(1_000);
    assert_eq!(client.limit("RL.PEEK TOKENBUCKET COST 4")[0], 1);
    assert_eq!(client.limit("RL.TOKENBUCKET TOKENBUCKET 10 1/h COST 4")[0], 1);
}

#[test]
fn commands_on_a_missing_key_reply_nil() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for command in ["RL.PEEK none", "RL.PEEK none COST 3", "RL.INFO none", "RL.REFUND none 3"] {
        for protocol in ["2", "3"] {
            client.get::<Value>(&format!("HELLO {protocol}"));
            assert_eq!(client.call(command).expect("a reply"), Value::Nil, "{command}");
        }
    }
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
}

#[test]
fn a_refund_returns_at_most_what_was_taken() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for (name, limit) in LIMITS {
        client.limit(&format!("RL.{name} {name} {limit} COST 7"));
        let reply = client.limit(&format!("RL.REFUND {name} 4"));
        assert_eq!(reply[..4], [1, 10, 7, 0], "{name}");
        // The reply is that of a peek.
        assert_eq!(client.limit(&format!("RL.PEEK {name}")), reply, "{name}");
        assert_eq!(client.limit(&format!("RL.{name} {name} {limit} COST 8"))[..3], [0, 10, 7], "{name}");
        assert_eq!(client.limit(&format!("RL.REFUND {name} 1000000"))[..5], [1, 10, 10, 0, 0], "{name}");
        // A key whose limit is fully reset expires soon.
        let ttl: i64 = client.get(&format!("PTTL {name}"));
        assert!((0..=1_000).contains(&ttl), "{name}: {ttl}");
        assert_eq!(client.limit(&format!("RL.{name} {name} {limit} COST 10"))[..3], [1, 10, 0], "{name}");
    }
    client.limit("RL.TOKENBUCKET gone 10 1/h");
    client.limit("RL.REFUND gone 1");
    server.clock().advance_us(1_001_000);
    assert_eq!(client.get::<i64>("EXISTS gone"), 0);
}

#[test]
fn a_log_refunds_its_newest_entries() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for cost in [3, 4, 2] {
        client.limit(&format!("RL.SLIDINGLOG log 10 60 COST {cost}"));
        server.clock().advance_us(10_000_000);
    }
    // All of the last entry, and a part of the one before.
    assert_eq!(client.limit("RL.REFUND log 3")[..3], [1, 10, 4]);
    assert_eq!(integer(&info(&mut client, "log"), "entries"), 2);
    server.clock().advance_us(30_000_000);
    assert_eq!(client.limit("RL.PEEK log")[2], 7, "the oldest entry expires at its time");
    server.clock().advance_us(10_000_000);
    assert_eq!(client.limit("RL.PEEK log")[2], 10);
}

#[test]
fn peeks_and_refunds_apply_to_all_limits_of_a_policy() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>(POLICY);
    client.get::<Value>("RL.CHECK policy key COST 4");
    let shape = |reply: Value| -> (i64, i64, Vec<i64>, Vec<i64>) { redis::from_redis_value(reply).expect("a verdict") };
    let (allowed, wait, bucket, log) = shape(client.get("RL.PEEK key COST 2"));
    assert!(allowed == 0 && wait > 86_000_000, "{wait}");
    assert_eq!((&bucket[..4], &log[..3]), (&[1, 10, 6, 0][..], &[0, 5, 1][..]));
    let (allowed, wait, bucket, log) = shape(client.get("RL.REFUND key 3"));
    assert_eq!((allowed, wait), (1, 0));
    assert_eq!((&bucket[..4], &log[..4]), (&[1, 10, 9, 0][..], &[1, 5, 4, 0][..]));
}

#[test]
fn an_estimate_can_be_reserved_and_settled_later() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    // An estimate of 500, where 320 are used.
    assert_eq!(client.limit("RL.FIXEDWINDOW tokens 1000 10w COST 500")[..3], [1, 1000, 500]);
    assert_eq!(client.limit("RL.REFUND tokens 180")[2], 680);
    // An estimate of 600, where 900 are used: the rest is forced.
    assert_eq!(client.limit("RL.FIXEDWINDOW tokens 1000 10w COST 600")[..3], [1, 1000, 80]);
    assert_eq!(client.limit("RL.FIXEDWINDOW tokens 1000 10w COST 300 FORCE")[..3], [0, 1000, 0]);
    assert_eq!(client.limit("RL.PEEK tokens")[..3], [0, 1000, 0]);
}

#[test]
fn info_shows_the_value_of_the_key() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let now = i64::try_from(server.clock().now() / 1_000).expect("a time of these days");
    let shown = [("10/s", "capacity", "rate"), ("36/m", "capacity", "rate"), ("15m", "limit", "window")];
    for (command, (pace, limit, pace_name)) in
        ["TOKENBUCKET key 20 10", "LEAKYBUCKET key 20 3/5s", "SLIDINGCOUNTER key 20 900"].into_iter().zip(shown)
    {
        client.get::<()>("DEL key");
        let reply = client.limit(&format!("RL.{command} COST 5"));
        let found = info(&mut client, "key");
        assert_eq!(text(&found, "algorithm"), command.split(' ').next().expect("a name"));
        assert_eq!((integer(&found, limit), text(&found, pace_name).as_str()), (20, pace));
        assert_eq!((integer(&found, "used"), integer(&found, "remaining")), (5, 15));
        assert_eq!(integer(&found, "reset_after_ms"), reply[4]);
        assert_eq!(integer(&found, "reset_at_ms"), now + reply[4]);
        assert_eq!(integer(&found, "changed_at_ms"), now);
        assert!(!found.contains_key("entries"));
    }
    client.get::<()>("DEL key");
    // Beyond the limit, by a forced request.
    client.limit("RL.FIXEDWINDOW key 10 1w COST 15 FORCE");
    let found = info(&mut client, "key");
    assert_eq!((text(&found, "window").as_str(), integer(&found, "used"), integer(&found, "remaining")), ("1w", 15, 0));

    for cost in 1..=3 {
        client.limit(&format!("RL.SLIDINGLOG log 10 0.5 COST {cost}"));
    }
    let found = info(&mut client, "log");
    assert_eq!((text(&found, "window").as_str(), integer(&found, "used"), integer(&found, "entries")), ("500ms", 6, 3));
    assert!((20..1_000).contains(&integer(&found, "bytes")), "{found:?}");

    client.get::<()>(POLICY);
    client.get::<Value>("RL.CHECK policy limits COST 2");
    let found = info(&mut client, "limits");
    assert_eq!(text(&found, "policy"), "policy");
    let shape: Vec<String> = redis::from_redis_value(found["algorithms"].clone()).expect("words");
    assert_eq!(shape, ["TOKENBUCKET", "SLIDINGLOG"]);
    let limits: Vec<HashMap<String, Value>> = redis::from_redis_value(found["limits"].clone()).expect("maps");
    assert_eq!((text(&limits[0], "rate").as_str(), integer(&limits[0], "used")), ("1/h", 2));
    assert_eq!((integer(&limits[1], "limit"), integer(&limits[1], "entries")), (5, 1));
    // A map in RESP3.
    client.get::<Value>("HELLO 3");
    assert!(matches!(client.call("RL.INFO log"), Ok(Value::Map(_))));
}

#[test]
fn peeks_write_nothing_and_work_on_a_replica() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    client.get::<()>(POLICY);
    client.get::<Value>("RL.CHECK policy policy COST 2");
    for (name, limit) in LIMITS {
        client.limit(&format!("RL.{name} {name} {limit} COST 7"));
    }
    catch_up(&mut client, &mut follower);
    let expected = all_digests(&mut client);
    for connection in [&mut client, &mut follower] {
        let changes = connection.number("rdb_changes_since_last_save");
        connection.get::<()>("WATCH policy TOKENBUCKET SLIDINGLOG");
        for (name, _) in LIMITS {
            assert_eq!(connection.limit(&format!("RL.PEEK {name} COST 4"))[..3], [0, 10, 3], "{name}");
            assert_eq!(integer(&info(connection, name), "used"), 7, "{name}");
        }
        connection.get::<Value>("RL.PEEK policy");
        connection.get::<()>("MULTI");
        connection.get::<()>("PING");
        assert!(connection.get::<Option<Vec<String>>>("EXEC").is_some(), "reading must not fail WATCH");
        assert_eq!(connection.number("rdb_changes_since_last_save"), changes);
        assert_eq!(digests_of(connection, &expected), expected);
    }
    assert!(follower.error("RL.REFUND TOKENBUCKET 1").starts_with("READONLY"));
    assert!(follower.error("RL.CHECK policy key").starts_with("READONLY"));
}

#[test]
fn refunds_are_replicated_and_survive_restarts() {
    for preamble in ["yes", "no"] {
        let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--repl-diskless-sync-delay", "0"];
        let mut primary = Server::with_clock(&settings);
        let mut replica = Server::with_clock(&[]);
        let now = primary.clock().now();
        replica.clock().set(now - 3_600_000_000);
        let mut client = primary.connect();
        let mut follower = attach(&replica, &primary);
        client.get::<()>(POLICY);
        for round in 0..20 {
            client.get::<Value>("RL.CHECK policy policy COST 2");
            for (name, limit) in LIMITS {
                client.limit(&format!("RL.{name} {name} {limit} COST 3"));
                primary.clock().advance_us(700_000_123);
                client.limit(&format!("RL.REFUND {name} {}", round % 3 + 1));
            }
            client.get::<Value>("RL.REFUND policy 1");
        }
        // A full refund.
        client.limit("RL.REFUND SLIDINGLOG 1000");
        let expected = all_digests(&mut client);
        assert_eq!(expected.len(), 6);
        catch_up(&mut client, &mut follower);
        assert_eq!(digests_of(&mut follower, &expected), expected, "the replica");
        primary.restart();
        assert_eq!(all_digests(&mut primary.connect()), expected, "preamble {preamble}");
    }
}

#[test]
fn a_refund_of_nothing_changes_nothing() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    client.limit("RL.SLIDINGLOG log 10 1");
    client.get::<()>("PERSIST log");
    server.clock().advance_us(1_000_000);
    let (before, changes) = (client.digest("log"), client.number("rdb_changes_since_last_save"));
    client.get::<()>("WATCH log");
    assert_eq!(client.limit("RL.REFUND log 5"), [1, 10, 10, 0, 0]);
    client.get::<()>("MULTI");
    client.get::<()>("PING");
    assert!(client.get::<Option<Vec<String>>>("EXEC").is_some());
    assert_eq!((client.digest("log"), client.number("rdb_changes_since_last_save")), (before, changes));
    // A refund that changes something fails WATCH.
    client.limit("RL.SLIDINGLOG log 10 1");
    client.get::<()>("WATCH log");
    client.limit("RL.REFUND log 1");
    client.get::<()>("MULTI");
    client.get::<()>("PING");
    assert!(client.get::<Option<Vec<String>>>("EXEC").is_none());
}

#[test]
fn errors_of_bad_requests_say_what_is_expected() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("SET string 1");
    client.limit("RL.FIXEDWINDOW key 10 3650d COST 3");
    let before = client.digest("key");
    let amount = "expected an integer from 1 to 9007199254740991";
    for bad in ["0", "-1", "abc", "1.5", "9007199254740992"] {
        assert_eq!(client.error(&format!("RL.REFUND key {bad}")), format!("ERR invalid n '{bad}': {amount}"));
        assert_eq!(client.error(&format!("RL.PEEK key COST {bad}")), format!("ERR invalid COST '{bad}': {amount}"));
    }
    assert_eq!(client.error("RL.PEEK key FORCE"), "ERR unknown option 'FORCE': expected COST n");
    assert_eq!(client.error("RL.PEEK key COST"), "ERR COST requires a value: an integer from 1 to 9007199254740991");
    assert_eq!(client.error("RL.PEEK key COST 1 COST 1"), "ERR duplicate option COST");
    for command in ["RL.PEEK string", "RL.INFO string", "RL.REFUND string 1"] {
        let error = client.error(command);
        assert_eq!(error, "WRONGTYPE Operation against a key holding the wrong kind of value", "{command}");
    }
    for command in ["RL.PEEK", "RL.INFO", "RL.INFO key more", "RL.REFUND key", "RL.REFUND key 1 2"] {
        let error = client.error(command).to_lowercase();
        assert!(error.starts_with("err wrong number of arguments for 'rl."), "{command}: {error}");
    }
    assert_eq!(client.digest("key"), before);
}

#[test]
fn peeks_and_refunds_of_a_log_of_a_million_entries_take_less_than_a_millisecond() {
    let server = Server::start(&["--slowlog-log-slower-than", "1000"]);
    let mut client = server.connect();
    make_million(&mut client, &["log"]);
    let mut is_slow = |command: &str| {
        client.get::<()>("SLOWLOG RESET");
        client.get::<Value>(command);
        format!("{:?}", client.get::<Value>("SLOWLOG GET 10")).contains("RL.")
    };
    for command in ["RL.PEEK log", "RL.PEEK log COST 1500000", "RL.INFO log", "RL.REFUND log 1", "RL.REFUND log 400000"]
    {
        // On a busy machine any command may be slow, but not each time.
        let slow = is_slow(command) && (0..20).all(|_| is_slow(&command.replace("400000", "1")));
        assert!(!slow, "{command} is slow");
    }
    let entries = integer(&info(&mut client, "log"), "entries");
    assert!((599_950..600_001).contains(&entries), "{entries}");
}

#[test]
fn command_info_says_which_commands_write() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (command, arity, expected) in
        [("RL.PEEK", -2, "readonly"), ("RL.INFO", 2, "readonly"), ("RL.REFUND", 3, "write")]
    {
        let found: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {command}"));
        assert_eq!(found[0][1], Value::Int(arity));
        let flags = format!("{:?}", found[0][2]);
        assert!(flags.contains(expected) && flags.contains("fast") && !flags.contains("denyoom"), "{flags}");
        let rest = if arity == 3 { " 1" } else { "" };
        assert_eq!(client.get::<Vec<String>>(&format!("COMMAND GETKEYS {command} the:key{rest}")), ["the:key"]);
    }
    // Read permission is enough for a peek.
    client.get::<()>("ACL SETUSER reader on nopass %R~key +rl.peek +rl.info +rl.refund");
    client.limit("RL.FIXEDWINDOW key 10 3650d");
    let mut reader = server.connect();
    reader.get::<()>("AUTH reader x");
    assert_eq!(reader.limit("RL.PEEK key")[2], 9);
    reader.get::<Value>("RL.INFO key");
    for command in ["RL.REFUND key 1", "RL.PEEK other", "RL.INFO other"] {
        assert!(reader.error(command).starts_with("NOPERM"), "{command}");
    }
}
