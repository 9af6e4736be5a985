//! `RL.TOP`: the keys that are denied most often.

use std::collections::HashMap;

use fastrand::Rng;
use redis::Value;

use crate::common::replicas::attach;
use crate::common::stats::{take, Map};
use crate::common::{eventually, Client, Server};

/// A ranking of keys by denials.
#[derive(Debug, PartialEq, Eq)]
struct Ranking {
    denials: i64,
    error: i64,
    /// Names, counts and databases.
    keys: Vec<(Vec<u8>, i64, i64)>,
}

impl Ranking {
    fn of(mut map: Map) -> Self {
        let ranking =
            Self { denials: take(&mut map, "denials"), error: take(&mut map, "error"), keys: take(&mut map, "keys") };
        assert!(map.is_empty(), "{map:?}");
        ranking
    }

    fn shown(&self) -> Vec<(&str, i64)> {
        self.keys.iter().map(|(key, count, _)| (std::str::from_utf8(key).expect("text"), *count)).collect()
    }

    fn places(&self) -> Vec<(&str, i64)> {
        self.keys.iter().map(|(key, _, db)| (std::str::from_utf8(key).expect("text"), *db)).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.shown().into_iter().map(|(name, _)| name).collect()
    }
}

/// The rankings of the last minute and since the start.
fn top(client: &mut Client, arguments: &str) -> [Ranking; 2] {
    let mut map: Map = client.get(&format!("RL.TOP {arguments}"));
    let rankings = ["last_minute", "since_start"].map(|name| Ranking::of(take(&mut map, name)));
    assert!(map.is_empty(), "{map:?}");
    rankings
}

fn since_start(client: &mut Client) -> Ranking {
    let [_, since_start] = top(client, "1000");
    since_start
}

/// Denies a key `times` times.
fn deny(client: &mut Client, key: &str, times: usize) {
    deny_all(client, std::iter::repeat_n(key, times));
}

/// Denies each of the keys.
fn deny_all<'a>(client: &mut Client, keys: impl Iterator<Item = &'a str>) {
    let mut pipeline = redis::pipe();
    for key in keys {
        pipeline.cmd("RL.TOKENBUCKET").arg(key).arg("1").arg("1").arg("COST").arg("2");
    }
    if pipeline.is_empty() {
        return;
    }
    let replies = client.pipeline(&pipeline.get_packed_pipeline(), pipeline.len());
    assert!(replies.iter().all(|reply| matches!(reply, Value::Array(reply) if reply[0] == Value::Int(0))));
}

/// A client of a user with these rules and permission for `RL.TOP`.
fn user(server: &Server, rules: &str) -> Client {
    server.connect().get::<()>(&format!("ACL SETUSER user reset on nopass +rl.top {rules}"));
    let mut user = server.connect();
    user.get::<()>("AUTH user x");
    user
}

#[test]
fn the_last_minute_moves_and_all_time_stays() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for (key, times) in [("b", 2), ("c", 2), ("a", 3)] {
        deny(&mut client, key, times);
    }
    let expected =
        Ranking { denials: 7, error: 0, keys: vec![(b"a".into(), 3, 0), (b"b".into(), 2, 0), (b"c".into(), 2, 0)] };
    let [last_minute, since_start] = top(&mut client, "");
    assert_eq!((&last_minute, &since_start), (&expected, &expected));

    server.clock().advance_ms(30_000);
    deny(&mut client, "b", 4);
    for (passed, denials, shown) in [
        (0, 11, &[("b", 6), ("a", 3), ("c", 2)][..]),
        (29_999, 11, &[("b", 6), ("a", 3), ("c", 2)]),
        (1, 4, &[("b", 4)]),
        (29_999, 4, &[("b", 4)]),
        (1, 0, &[]),
    ] {
        server.clock().advance_ms(passed);
        let [last_minute, since_start] = top(&mut client, "");
        assert_eq!((last_minute.denials, last_minute.shown()), (denials, shown.to_vec()));
        assert_eq!((since_start.denials, since_start.shown()), (11, vec![("b", 6), ("a", 3), ("c", 2)]));
    }
}

#[test]
fn the_reply_is_a_map_in_both_protocols() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    deny(&mut client, "key", 3);
    let flat = top(&mut client, "");
    client.get::<Value>("HELLO 3");
    assert!(matches!(client.call("RL.TOP"), Ok(Value::Map(_))));
    assert_eq!(top(&mut client, ""), flat);
}

#[test]
fn the_count_limits_the_shown_keys() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for number in 1..=12 {
        deny(&mut client, &format!("key{number}"), number);
    }
    for (arguments, shown) in [("", 10), ("1", 1), ("3", 3), ("12", 12), ("13", 12), ("1000", 12)] {
        for ranking in top(&mut client, arguments) {
            assert_eq!((ranking.denials, ranking.error, ranking.keys.len()), (78, 0, shown), "{arguments}");
            assert_eq!(ranking.shown()[0], ("key12", 12));
            assert!(ranking.keys.is_sorted_by(|a, b| a.1 > b.1), "{ranking:?}");
        }
    }
    for bad in ["0", "-1", "x", "1001", "1.5", "+1", "99999999999999999999"] {
        let error = client.error(&format!("RL.TOP {bad}"));
        assert_eq!(error, format!("ERR invalid count '{bad}': expected an integer from 1 to 1000"));
    }
    assert!(client.error_of(&[b"RL.TOP", b"\xff"]).starts_with(r"ERR invalid count '\xff'"));
    assert!(client.error_of(&[b"RL.TOP", b""]).starts_with("ERR invalid count ''"));
    assert_eq!(client.error("RL.TOP 1 2"), "ERR wrong number of arguments");
}

#[test]
fn allowed_requests_and_peeks_are_not_counted() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET login SLIDINGLOG 2 1d FIXEDWINDOW 2 3650d");
    for command in [
        "RL.SLIDINGLOG allowed 2 1d COST 2",
        "RL.PEEK allowed COST 2",
        "RL.REFUND allowed 1",
        "RL.CHECK login user COST 2",
        "RL.ALL 2 SLIDINGLOG one 1 1d SLIDINGLOG two 2 1d",
        "CL.THROTTLE cell 1 1 86400 0",
        "CL.THROTTLE cell 1 1 86400 2",
        "CL.THROTTLE cell 1 1 86400 0",
    ] {
        client.get::<Value>(command);
    }
    assert_eq!(since_start(&mut client), Ranking { denials: 0, error: 0, keys: Vec::new() });
    for command in [
        "RL.SLIDINGLOG denied 2 1d COST 3",
        "RL.SLIDINGLOG denied 2 1d COST 3 FORCE",
        "RL.CHECK login user",
        "RL.ALL 2 SLIDINGLOG one 1 1d SLIDINGLOG two 2 1d",
        "CL.THROTTLE cell 1 1 86400",
    ] {
        client.get::<Value>(command);
    }
    let ranking = since_start(&mut client);
    assert_eq!(ranking.shown(), [("denied", 2), ("cell", 1), ("one", 1), ("user", 1)]);
}

#[test]
fn with_too_many_keys_the_frequent_ones_are_shown_within_the_error() {
    let mut server = Server::with_clock(&["--ratelimit.top-size", "10"]);
    let mut client = server.connect();
    let names: Vec<String> = (0..200).map(|number| format!("key:{number}")).collect();
    let mut exact: HashMap<&str, i64> = HashMap::new();
    let mut random = Rng::with_seed(1);
    // In four of the six slices of the minute, shuffled differently.
    for _ in 0..4 {
        let times = |number: usize| std::iter::repeat_n(names[number].as_str(), 600 / (number + 1));
        let mut keys: Vec<&str> = (0..names.len()).flat_map(times).collect();
        random.shuffle(&mut keys);
        for key in &keys {
            *exact.entry(key).or_default() += 1;
        }
        deny_all(&mut client, keys.into_iter());
        server.clock().advance_ms(10_000);
    }
    let all: i64 = exact.values().sum();
    let [last_minute, since_start] = top(&mut client, "1000");
    assert_eq!(since_start.keys.len(), 10);
    for (ranking, most) in [(&since_start, 2 * all / 10), (&last_minute, all / 10)] {
        assert_eq!(ranking.denials, all);
        assert!(ranking.error > 0 && ranking.error <= most, "{ranking:?}");
        assert!(ranking.keys.is_sorted_by_key(|key| -key.1), "{ranking:?}");
        let shown: HashMap<&str, i64> = ranking.shown().into_iter().collect();
        for (key, count) in &shown {
            let off = count - exact[key];
            assert!(off.abs() <= ranking.error, "{key} was denied {} times: {ranking:?}", exact[key]);
        }
        for (key, count) in &exact {
            assert!(*count <= ranking.error || shown.contains_key(key), "{key}, {count} times: {ranking:?}");
        }
    }
    assert_eq!(since_start.names()[0], "key:0");
}

#[test]
fn another_size_resets_the_counts_and_zero_stops_counting() {
    // On a fixed clock, as two intervals have separate tables, which together show more keys.
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    deny(&mut client, "before", 2);
    client.get::<()>("CONFIG SET ratelimit.top-size 100");
    assert_eq!(since_start(&mut client).shown(), [("before", 2)], "an unchanged size resets nothing");
    for (size, shown) in [("0", 0), ("2", 2), ("0", 0), ("100", 3)] {
        client.get::<()>(&format!("CONFIG SET ratelimit.top-size {size}"));
        assert_eq!(since_start(&mut client), Ranking { denials: 0, error: 0, keys: Vec::new() }, "{size}");
        for key in ["a", "a", "a", "b", "b", "c"] {
            deny(&mut client, key, 1);
        }
        for ranking in top(&mut client, "") {
            assert_eq!(ranking.keys.len(), shown, "{size}: {ranking:?}");
            assert_eq!(ranking.denials, if size == "0" { 0 } else { 6 });
        }
    }
    // Other counters are not reset.
    let stats = crate::common::stats::counted(&mut client);
    assert_eq!(stats.row("TOKENBUCKET").denied, 2 + 4 * 6);
}

#[test]
fn keys_may_be_any_bytes_and_long_ones_are_cut() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let keys: [&[u8]; 5] = [b"", b"\0\r\n\xff key", &[b'a'; 128], &[b'b'; 129], &b"c".repeat(1_000_000)];
    for (number, key) in keys.iter().enumerate() {
        for _ in 0..=number {
            client.call_bytes(&[b"RL.TOKENBUCKET", key, b"1", b"1", b"COST", b"2"]).expect("a reply");
        }
    }
    let cut = |byte: u8| [[byte; 128].as_slice(), b"..."].concat();
    let expected = [cut(b'c'), cut(b'b'), [b'a'; 128].to_vec(), keys[1].to_vec(), Vec::new()];
    let expected: Vec<_> = expected.into_iter().zip([5, 4, 3, 2, 1]).map(|(key, count)| (key, count, 0)).collect();
    for ranking in top(&mut client, "") {
        assert_eq!(ranking.keys, expected);
    }
}

#[test]
fn long_keys_with_the_same_prefix_are_counted_separately() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (end, times) in [("1", 3), ("2", 2)] {
        deny(&mut client, &format!("{}{end}", "k".repeat(128)), times);
    }
    for ranking in top(&mut client, "") {
        let counts: Vec<i64> = ranking.keys.iter().map(|key| key.1).collect();
        assert_eq!(counts, [3, 2]);
    }
}

#[test]
fn a_long_key_is_shown_only_to_users_with_access_to_all_keys() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    deny(&mut client, &format!("app:{}1", "k".repeat(200)), 1);
    // The end of the key is not kept, so patterns cannot be checked.
    for (rules, shown) in [
        ("~app:*[^0-9]", 0),
        ("~app:*", 0),
        ("~*[0-9]", 0),
        ("~", 0),
        ("%W~*", 0),
        ("(~* +get)", 0),
        ("~*", 1),
        ("%R~*", 1),
        ("allkeys", 1),
    ] {
        let mut user = user(&server, rules);
        for ranking in top(&mut user, "") {
            assert_eq!(ranking.keys.len(), shown, "{rules}");
        }
    }
}

#[test]
fn a_flood_of_keys_uses_no_more_memory() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let flood = "for i = 1, 10000 do redis.call('RL.TOKENBUCKET', KEYS[1] .. i, 1, 1, 'COST', 2) end";
    client.eval::<()>(flood, "once:", &[]);
    client.get::<()>("RL.STATS RESET");
    let before = client.number("used_memory");
    for round in 0..10 {
        client.eval::<()>(flood, &format!("{}:{round}:", "long".repeat(250)), &[]);
    }
    let after = client.number("used_memory");
    assert!(after < before + 400_000, "{} more bytes", after - before);
    let ranking = since_start(&mut client);
    assert_eq!(ranking.denials, 100_000);
    assert!(ranking.error <= 2_000, "{} with 100 places", ranking.error);
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
}

#[test]
fn scripts_cannot_call_it() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    deny(&mut client, "key", 1);
    let library = b"#!lua name=library\nredis.register_function('top', function() return redis.call('RL.TOP') end)";
    client.call_bytes(&[b"FUNCTION", b"LOAD", library]).expect("loaded");
    for words in [&[b"EVAL".as_slice(), b"return redis.call('RL.TOP')", b"0"][..], &[b"FCALL", b"top", b"0"]] {
        let error = client.error_of(words);
        assert!(error.contains("not allowed from script"), "{error}");
    }
    // Transactions can, as their user is known.
    client.get::<()>("MULTI");
    client.get::<()>("RL.TOP");
    assert!(format!("{:?}", client.get::<Value>("EXEC")).contains("key"));
}

#[test]
fn only_keys_with_read_permission_are_shown() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (key, times) in [("other:1", 9), ("other:2", 8), ("app:1", 3), ("app:2", 2), ("app:3", 1)] {
        deny(&mut client, key, times);
    }
    let all = ["other:1", "other:2", "app:1", "app:2", "app:3"];
    for (rules, expected) in [
        ("~app:*", &all[2..]),
        ("%R~app:*", &all[2..]),
        ("%RW~app:*", &all[2..]),
        ("%W~app:*", &[]),
        ("~app:2 %R~other:1", &["other:1", "app:2"]),
        ("(~app:1 +get)", &all[2..3]),
        ("", &[]),
        // The pattern of the empty name only.
        ("~", &[]),
        ("~*", &all),
        ("allkeys", &all),
    ] {
        let mut user = user(&server, rules);
        for ranking in top(&mut user, "") {
            assert_eq!((ranking.names(), ranking.denials), (expected.to_vec(), 23), "{rules}");
        }
        // The count limits the visible keys.
        for ranking in top(&mut user, "2") {
            assert_eq!(ranking.names(), expected[..expected.len().min(2)], "{rules}");
        }
    }
    for ranking in top(&mut client, "") {
        assert_eq!(ranking.names(), all);
    }
}

#[test]
fn keys_of_different_databases_are_counted_separately() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (db, times) in [(0, 2), (1, 3), (15, 1)] {
        client.get::<()>(&format!("SELECT {db}"));
        deny(&mut client, "key", times);
    }
    // A script may select another database.
    client.eval::<()>("redis.call('SELECT', 2) redis.call('RL.TOKENBUCKET', KEYS[1], 1, 1, 'COST', 2)", "script", &[]);
    for ranking in top(&mut client, "") {
        assert_eq!(ranking.shown(), [("key", 3), ("key", 2), ("key", 1), ("script", 1)]);
        assert_eq!(ranking.places(), [("key", 1), ("key", 0), ("key", 15), ("script", 2)]);
    }
}

#[test]
fn only_keys_of_permitted_databases_are_shown() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for db in [0, 1, 2] {
        client.get::<()>(&format!("SELECT {db}"));
        deny(&mut client, "app:1", 3);
        deny(&mut client, &"long".repeat(50), 2);
        deny(&mut client, "other", 1);
    }
    if client.call("ACL SETUSER user db=0").is_err() {
        assert!(client.valkey_version() < Some((9, 1)), "{:?} restricts users to databases", client.valkey_version());
        eprintln!("skipped: this server has no permissions for databases");
        return;
    }
    let all = [("app:1", 0), ("app:1", 1), ("app:1", 2)];
    for (rules, seen, sees_long_and_other) in [
        ("~*", &all[..], &[0, 1, 2][..]),
        ("~* alldbs", &all, &[0, 1, 2]),
        ("~* resetdbs", &[], &[]),
        ("~* resetdbs db=0", &all[..1], &[0]),
        ("~* +@all resetdbs db=0,2", &[all[0], all[2]], &[0, 2]),
        ("~* resetdbs db=0 alldbs", &all, &[0, 1, 2]),
        ("~app:* resetdbs db=1", &all[1..2], &[]),
        // Permissions for keys and for databases must come from the same rule.
        ("~app:* resetdbs db=0,1 (+@all ~* resetdbs db=1,2)", &all[1..2], &[]),
        ("(+@all ~app:* resetdbs db=1)", &all[1..2], &[]),
        ("resetdbs (+@all ~app:* resetdbs db=1)", &[], &[]),
    ] {
        let mut user = user(&server, rules);
        for ranking in top(&mut user, "") {
            let (found, more): (Vec<_>, Vec<_>) = ranking.places().into_iter().partition(|key| key.0 == "app:1");
            assert_eq!(found, seen, "{rules}");
            let of =
                |name: fn(&str) -> bool| more.iter().filter(|key| name(key.0)).map(|key| key.1).collect::<Vec<_>>();
            assert_eq!(of(|name| name.starts_with("long")), sees_long_and_other, "{rules}");
            if !rules.contains('(') {
                assert_eq!(of(|name| name == "other"), sees_long_and_other, "{rules}");
            }
        }
    }
}

#[test]
fn a_replica_has_its_own_ranking_also_while_it_loads() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0", "--rdbcompression", "no"]);
    let slow = ["--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024"];
    let replica = Server::start(&slow);
    let (mut client, mut follower) = (primary.connect(), replica.connect());
    deny(&mut client, "there", 3);
    deny(&mut follower, "here", 2);
    client.get::<()>("DEBUG POPULATE 2000 key 1000");
    follower.get::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    eventually("it loads", || follower.info("loading") == "1");
    assert_eq!(since_start(&mut follower).shown(), [("here", 2)]);
    follower.get::<Value>("RL.STATS");
    assert!(follower.error("RL.PEEK here").starts_with("LOADING"), "the replica must still be loading");
    follower.get::<()>("CONFIG SET key-load-delay 0");
    eventually("it is attached", || follower.info("master_link_status") == "up");
    assert_eq!(since_start(&mut follower).shown(), [("here", 2)]);
    assert_eq!(since_start(&mut client).shown(), [("there", 3)]);
    // Also while the link is down.
    follower.get::<()>("CONFIG SET replica-serve-stale-data no");
    follower.get::<()>("REPLICAOF 127.0.0.1 1");
    eventually("it is detached", || follower.info("master_link_status") == "down");
    assert_eq!(since_start(&mut follower).shown(), [("here", 2)]);
    attach(&replica, &primary);
}
