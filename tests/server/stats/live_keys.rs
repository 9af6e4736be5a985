//! The number of keys and the memory of logs in `RL.STATS` are exact: they equal those of a scan of all keys, whatever
//! happens to keys.

use std::thread;

use fastrand::Rng;
use limiter::{Algorithm, Limiter, PerLimit, PolicyLimits, PolicyName, Quota, Request, Value};
use redis_ratelimit::replication::effect::recreate;
use redis_ratelimit::replication::{EffectBytes, PolicyEffectBytes};

use crate::common::dump::{damaged, with_checksum};
use crate::common::live_keys::{assert_exact, found, reported, Live};
use crate::common::long_log::make_million;
use crate::common::multi::SLOW;
use crate::common::replicas::{attach, catch_up};
use crate::common::stats::counted;
use crate::common::{eventually, Client, Server};

const POLICIES: [&str; 3] = [
    "RL.POLICY SET gold TOKENBUCKET 100 1/d SLIDINGLOG 100 1d",
    "RL.POLICY SET silver TOKENBUCKET 50 1/d SLIDINGLOG 50 1d",
    "RL.POLICY SET logs SLIDINGLOG 500 1d SLIDINGLOG 500 2d",
];

/// Creates keys of all kinds: two of each algorithm, two with a policy and one with another, two by `RL.ALL`, and one
/// by `CL.THROTTLE`.
fn make(client: &mut Client) {
    for policy in POLICIES {
        client.get::<()>(policy);
    }
    for (algorithm, pace) in SLOW {
        for number in 1..=2 {
            for _ in 0..20 {
                client.limit(&format!("RL.{algorithm} {algorithm}{number} 100 {pace} COST {number}"));
            }
        }
    }
    for request in ["gold user:1", "gold user:1", "gold user:2", "logs user:3 COST 3", "logs user:3"] {
        client.get::<()>(&format!("RL.CHECK {request}"));
    }
    client.get::<()>("RL.ALL 2 SLIDINGLOG all:1 10 1d FIXEDWINDOW all:2 10 3650d");
    client.get::<()>("CL.THROTTLE cell 15 30 86400");
}

/// A description, commands, and the number of keys after them.
type Step = (&'static str, &'static [&'static str], i64);

const STEPS: [Step; 27] = [
    ("making them", &[], 16),
    (
        "denials",
        &[
            "RL.TOKENBUCKET none 1 1/d COST 2",
            "RL.SLIDINGLOG none 1 1d COST 2",
            "RL.CHECK gold none COST 101",
            "RL.ALL 2 SLIDINGLOG none 10 1d SLIDINGLOG SLIDINGLOG1 20 1d COST 10",
            "CL.THROTTLE none 1 1 60 3",
        ],
        16,
    ),
    ("looking", &["RL.PEEK none", "RL.INFO none", "RL.PEEK SLIDINGLOG1", "CL.THROTTLE none 1 1 60 0"], 16),
    ("more requests", &["RL.SLIDINGLOG SLIDINGLOG1 1000 1d COST 500", "RL.CHECK logs user:3 COST 90 FORCE"], 16),
    ("DEL", &["DEL TOKENBUCKET1 SLIDINGLOG1 none"], 14),
    ("UNLINK", &["UNLINK user:3 all:2"], 12),
    ("a key that is made again", &["RL.SLIDINGLOG SLIDINGLOG1 10 1d", "RL.CHECK gold user:3"], 14),
    ("SET", &["SET LEAKYBUCKET1 x", "SET user:2 x", "SET SLIDINGLOG1 x"], 11),
    ("one that was a string", &["DEL user:2", "RL.SLIDINGLOG user:2 10 1d"], 12),
    ("RENAME", &["RENAME user:2 renamed", "RENAMENX user:1 user:4"], 12),
    ("RENAME over others", &["RENAME renamed user:4", "RENAME LEAKYBUCKET1 SLIDINGLOG2"], 10),
    ("COPY", &["COPY user:4 copy", "COPY user:3 copy:3", "COPY SLIDINGCOUNTER1 copy:4"], 13),
    ("COPY over another", &["COPY user:3 user:4 REPLACE", "COPY copy copy:4 REPLACE", "COPY copy copy:3"], 13),
    ("COPY elsewhere", &["COPY copy copy DB 1", "COPY user:3 user:3 DB 2"], 15),
    ("MOVE", &["MOVE copy:3 2", "MOVE copy 1", "MOVE FIXEDWINDOW1 1"], 15),
    ("SWAPDB", &["SWAPDB 0 1", "SWAPDB 1 2"], 15),
    ("a deletion elsewhere", &["SELECT 2", "DEL user:4", "SELECT 0"], 14),
    ("EXEC", &["MULTI", "DEL copy", "RL.SLIDINGLOG copy 10 1d", "RL.CHECK gold new", "EXEC"], 15),
    ("DISCARD", &["MULTI", "DEL copy", "RL.SLIDINGLOG copy 10 1d", "RL.CHECK gold other", "DISCARD"], 15),
    ("an expiry in the past", &["PEXPIRE copy -1"], 14),
    ("loading it all again", &["DEBUG RELOAD"], 14),
    ("FLUSHDB", &["SELECT 2", "FLUSHDB SYNC", "SELECT 0"], 4),
    ("FLUSHDB in the background", &["SELECT 1", "FLUSHDB ASYNC", "SELECT 0"], 2),
    ("loading what is left", &["DEBUG RELOAD"], 2),
    ("FLUSHALL", &["FLUSHALL SYNC"], 0),
    ("new ones", &["RL.SLIDINGLOG log 10 1d", "RL.CHECK gold key", "SELECT 1", "RL.CHECK gold key", "SELECT 0"], 3),
    ("FLUSHALL in the background", &["FLUSHALL ASYNC"], 0),
];

#[test]
fn keys_are_counted_after_every_generic_command() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    make(&mut client);
    for (after, commands, keys) in STEPS {
        for command in commands {
            client.get::<redis::Value>(command);
        }
        let live = assert_exact(&mut client, after);
        assert_eq!(live.total(), keys, "after {after}: {live:?}");
    }
    assert_eq!(reported(&mut client), Live::default());
}

#[test]
fn a_key_counts_for_its_last_policy() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for policy in POLICIES {
        client.get::<()>(policy);
    }
    let assert_keys = |client: &mut Client, command: &str, expected: &[(&str, i64)]| {
        client.get::<redis::Value>(command);
        let live = assert_exact(client, command);
        let expected = expected.iter().map(|(name, keys)| (format!("policy {name}"), *keys)).collect();
        assert_eq!(live.keys, expected, "after {command}");
    };
    assert_keys(&mut client, "RL.CHECK gold a", &[("gold", 1)]);
    assert_keys(&mut client, "RL.CHECK gold b", &[("gold", 2)]);
    assert_keys(&mut client, "RL.CHECK silver b", &[("gold", 1), ("silver", 1)]);
    // A denied request does not change the policy of the key.
    assert_keys(&mut client, "RL.CHECK silver a COST 51", &[("gold", 1), ("silver", 1)]);
    assert_keys(&mut client, "RL.CHECK silver a COST 51 FORCE", &[("silver", 2)]);
    // Policies with other limits.
    assert_keys(&mut client, "RL.CHECK logs a COST 400", &[("logs", 1), ("silver", 1)]);
    assert_keys(&mut client, "RL.CHECK logs a COST 400", &[("logs", 1), ("silver", 1)]);
    client.get::<()>("RL.POLICY SET logs SLIDINGLOG 500 1d FIXEDWINDOW 500 1d");
    assert_keys(&mut client, "RL.CHECK logs a COST 400", &[("logs", 1), ("silver", 1)]);
    client.get::<()>("RL.POLICY SET logs FIXEDWINDOW 500 1d SLIDINGLOG 500 1d SLIDINGLOG 5 1m");
    assert_keys(&mut client, "RL.CHECK logs a", &[("logs", 1), ("silver", 1)]);
    client.get::<()>("RL.POLICY DEL logs");
    assert_keys(&mut client, "RL.CHECK silver b", &[("logs", 1), ("silver", 1)]);
    assert_keys(&mut client, "RL.CHECK gold a FORCE", &[("gold", 1), ("silver", 1)]);
    assert_keys(&mut client, "DEL a b", &[]);
}

#[test]
fn the_memory_of_logs_follows_expired_and_refunded_entries() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET logs SLIDINGLOG 100000 1m SLIDINGLOG 100000 10m");
    let grow = "for i = 1, 300 do redis.call('RL.SLIDINGLOG', KEYS[1], 100000, '1m', 'COST', i * 1000)
                redis.call('RL.CHECK', 'logs', 'policy', 'COST', i) end";
    let mut grown = Live::default();
    for _ in 0..5 {
        client.eval::<()>(grow, "log", &[]);
        grown = assert_exact(&mut client, "growing");
        server.clock().advance_ms(10_000);
    }
    assert!(grown.log_bytes > 3_000, "{grown:?}");
    for command in ["RL.REFUND log 1", "RL.REFUND log 50000", "RL.REFUND policy 9000", "RL.REFUND log 1000000000"] {
        client.get::<()>(command);
        assert_exact(&mut client, command);
    }
    client.eval::<()>(grow, "log", &[]);
    // All but the newest entries expire step by step.
    for _ in 0..6 {
        server.clock().advance_ms(9_000);
        client.get::<()>("RL.SLIDINGLOG log 100000 1m");
        client.get::<()>("RL.CHECK logs policy");
        assert_exact(&mut client, "a while");
    }
    // With a much shorter window only the request itself remains.
    server.clock().advance_ms(1);
    client.get::<()>("RL.SLIDINGLOG log 10 1ms");
    client.get::<()>("RL.POLICY SET logs SLIDINGLOG 5 1ms SLIDINGLOG 5 1ms");
    client.get::<()>("RL.CHECK logs policy");
    let shrunk = assert_exact(&mut client, "shrinking");
    assert!(shrunk.log_bytes < grown.log_bytes / 3, "{shrunk:?} after {grown:?}");
}

#[test]
fn expired_keys_are_not_counted_once_they_are_deleted() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET short SLIDINGLOG 10 1m");
    client.get::<()>("RL.POLICY SET long SLIDINGLOG 10 1d");
    for key in 0..50 {
        client.get::<()>(&format!("RL.SLIDINGLOG log:{key} 10 1m"));
        client.get::<()>(&format!("RL.CHECK short short:{key}"));
    }
    client.get::<()>("RL.CHECK long long:1");
    client.get::<()>("RL.TOKENBUCKET bucket 10 1/h");
    assert_eq!(assert_exact(&mut client, "making them").total(), 102);
    server.clock().advance_ms(62_000);
    // Keys are deleted when they are accessed, the others in the background.
    assert_eq!(client.get::<i64>("EXISTS log:0 short:0"), 0);
    eventually("expired keys are deleted", || reported(&mut client).total() == 2);
    assert_exact(&mut client, "a minute");
}

#[test]
fn evicted_keys_are_not_counted() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-random"]);
    let mut client = server.connect();
    make(&mut client);
    let fill = "for i = 1, 2000 do redis.call('RL.SLIDINGLOG', KEYS[1] .. i, 100, '1d', 'COST', i % 100 + 1)
                redis.call('RL.CHECK', 'gold', 'gold:' .. i) redis.call('RL.TOKENBUCKET', 'bucket:' .. i, 10, '1/d') end";
    client.eval::<()>(fill, "log:", &[]);
    assert_eq!(assert_exact(&mut client, "filling it").total(), 6_016);
    let used = client.number("used_memory");
    client.get::<()>(&format!("CONFIG SET maxmemory {}", used - 200_000));
    eventually("keys are evicted", || {
        let _ = client.call("PING");
        client.number("evicted_keys") > 500
    });
    client.get::<()>("CONFIG SET maxmemory 0");
    let live = assert_exact(&mut client, "evictions");
    assert_eq!(live.total(), 6_016 - client.number("evicted_keys"), "{live:?}");
}

#[test]
fn a_log_of_a_million_entries_is_not_counted_once_it_is_freed() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    make_million(&mut client, &["a", "b", "c"]);
    let live = assert_exact(&mut client, "making them");
    assert!(live.log_bytes > 3 * 1_000_000, "{live:?}");
    client.get::<()>("UNLINK a");
    assert_eq!(assert_exact(&mut client, "UNLINK").total(), 2);
    // The new value counts at once, while the old one is still being freed.
    client.get::<()>("COPY c b REPLACE");
    assert_eq!(assert_exact(&mut client, "COPY").total(), 2);
    client.get::<()>("RL.REFUND c 600000");
    assert_exact(&mut client, "RL.REFUND");
    client.get::<()>("FLUSHALL ASYNC");
    assert_eq!(assert_exact(&mut client, "FLUSHALL"), Live::default());
}

#[test]
fn restored_keys_are_counted_and_rejected_ones_are_not() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    make(&mut client);
    let keys: Vec<String> = client.get("KEYS *");
    let dumps: Vec<Vec<u8>> = keys.iter().map(|key| client.get(&format!("DUMP {key}"))).collect();
    for (key, dump) in keys.iter().zip(&dumps) {
        let restored = format!("restored:{key}");
        client.call_bytes(&[b"RESTORE", restored.as_bytes(), b"0", dump]).expect("restored");
        assert!(client.call_bytes(&[b"RESTORE", restored.as_bytes(), b"0", dump]).is_err(), "the key exists");
    }
    assert_eq!(assert_exact(&mut client, "RESTORE").total(), 32);
    for (number, dump) in dumps.iter().enumerate() {
        let over = &keys[(number + 5) % keys.len()];
        client.call_bytes(&[b"RESTORE", over.as_bytes(), b"0", dump, b"REPLACE"]).expect("restored");
        assert_exact(&mut client, "RESTORE over another");
        // A payload that has expired is loaded and dropped.
        let gone = [b"RESTORE".as_slice(), b"gone", b"1000", dump, b"ABSTTL"];
        client.call_bytes(&gone).expect("accepted");
    }
    assert_eq!(assert_exact(&mut client, "RESTORE of expired payloads").total(), 32);

    let (mut random, mut rejected) = (Rng::with_seed(1), 0);
    for round in 0..1_500 {
        let [dump, other] = [(); 2].map(|()| {
            let dump = &dumps[random.usize(..dumps.len())];
            &dump[..dump.len() - 8]
        });
        let payload = with_checksum(&damaged(&mut random, dump, other));
        let key = format!("damaged:{}", round % 20);
        let restored = client.call_bytes(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"]);
        rejected += u32::from(restored.is_err());
        if round % 100 == 0 {
            assert_exact(&mut client, "RESTORE of damaged payloads");
        }
    }
    assert!((500..1_490).contains(&rejected), "{rejected} were rejected");
    assert_exact(&mut client, "RESTORE of damaged payloads");
}

#[test]
fn keys_of_applied_effects_are_counted() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    make(&mut client);
    let quota = |algorithm, pace: &str| Quota::parse(algorithm, b"100000", pace.as_bytes()).expect("a quota");
    let now = crate::common::now();
    let (log, window) = (quota(Algorithm::SlidingLog, "10w"), quota(Algorithm::FixedWindow, "10w"));
    let apply = |client: &mut Client, words: &[&[u8]]| {
        let words = [&[b"RL.APPLY".as_slice()], words].concat();
        let reply = client.call_bytes(&words);
        assert_exact(client, "RL.APPLY");
        reply
    };
    let taken = EffectBytes::take(&log, 3, now);
    for key in ["new", "new", "SLIDINGLOG1"] {
        apply(&mut client, &[key.as_bytes(), taken.as_ref()]).expect("applied");
    }
    assert!(apply(&mut client, &[b"FIXEDWINDOW1", taken.as_ref()]).is_err());
    assert!(apply(&mut client, &[b"other", taken.as_ref(), b"FIXEDWINDOW1", taken.as_ref()]).is_err());
    let with_policy = PolicyEffectBytes::take("elsewhere", &[log, window], 3, now);
    for key in ["policy", "policy", "user:1", "user:3"] {
        apply(&mut client, &[key.as_bytes(), with_policy.as_ref()]).expect("applied");
    }
    let refunded = EffectBytes::refund(2, now + 1);
    apply(&mut client, &[b"policy", refunded.as_ref(), b"new", refunded.as_ref()]).expect("applied");

    // Complete values in segments, over existing keys.
    let (mut limiter, mut limits) =
        (Limiter::new(&log), PolicyLimits::new(PolicyName::new(b"further").expect("a name"), &[window, log]));
    for entry in 0..3_000 {
        limiter.request(&log, Request::new(entry % 5 + 1, now + entry)).expect("a log");
        limits.request(&[window, log], Request::forced(entry % 5 + 1, now + entry), &mut PerLimit::new());
    }
    for value in [Value::Limiter(limiter), Value::Policy(limits)] {
        for key in ["state", "FIXEDWINDOW2", "user:2", "SLIDINGLOG2"] {
            for effect in recreate(&value) {
                apply(&mut client, &[key.as_bytes(), &effect]).expect("applied");
            }
        }
    }
    let live = reported(&mut client);
    // "state" and three others, "policy" and two others; "new" is one more log.
    assert_eq!([live.keys["policy further"], live.keys["policy elsewhere"], live.total()], [4, 3, 19], "{live:?}");
    assert_eq!(live.keys["algorithm SLIDINGLOG"], 3, "{live:?}");
}

#[test]
fn keys_are_counted_after_a_restart() {
    for (appendonly, preamble) in [("no", "yes"), ("yes", "yes"), ("yes", "no")] {
        let settings = ["--appendonly", appendonly, "--aof-use-rdb-preamble", preamble, "--dbfilename", "dump.rdb"];
        let mut server = Server::start(&settings);
        let mut client = server.connect();
        make(&mut client);
        client.get::<()>("SELECT 1");
        make(&mut client);
        client.get::<()>("DEL SLIDINGLOG1 user:2");
        let what = format!("a restart, appendonly {appendonly}, preamble {preamble}");
        for rewritten in [false, true] {
            let expected = assert_exact(&mut client, "making them");
            assert_eq!(expected.total(), 30);
            if appendonly == "no" {
                client.get::<()>("SAVE");
            } else if rewritten {
                client.get::<()>("BGREWRITEAOF");
                client.wait_for_files();
            }
            server.restart();
            client = server.connect();
            assert_eq!(assert_exact(&mut client, &what).keys, expected.keys, "after {what}");
        }
    }
}

#[test]
fn a_replica_counts_its_keys() {
    for load in ["disabled", "swapdb"] {
        let primary = Server::start(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
        let replica = Server::start(&["--repl-diskless-load", load]);
        let (mut client, mut follower) = (primary.connect(), replica.connect());
        make(&mut client);
        make(&mut follower);
        follower.get::<()>("RL.POLICY SET own SLIDINGLOG 10 1d");
        follower.get::<()>("RL.CHECK own key");
        follower.get::<()>("RL.SLIDINGLOG other 10 1d");
        for round in 0..2 {
            attach(&replica, &primary);
            catch_up(&mut client, &mut follower);
            let expected = assert_exact(&mut client, "making them");
            assert_eq!(assert_exact(&mut follower, "a full sync").keys, expected.keys, "{load}, round {round}");
            // Later effects.
            client.get::<()>("RL.CHECK silver user:1");
            client.get::<()>("RL.POLICY SET gold FIXEDWINDOW 100 1d SLIDINGLOG 100 1d");
            client.get::<()>("RL.CHECK gold user:2 COST 7");
            client.get::<()>("RL.REFUND SLIDINGLOG2 11");
            client.get::<()>("RENAME user:3 LEAKYBUCKET1");
            client.get::<()>("COPY LEAKYBUCKET1 user:3");
            client.get::<()>("DEL FIXEDWINDOW1");
            client.get::<()>("RL.ALL 2 SLIDINGLOG all:3 10 1d SLIDINGLOG all:1 10 1d");
            catch_up(&mut client, &mut follower);
            let expected = assert_exact(&mut client, "following");
            assert_eq!(assert_exact(&mut follower, "following").keys, expected.keys, "{load}, round {round}");
            // Starts again with other keys.
            follower.get::<()>("REPLICAOF NO ONE");
            follower.get::<()>("FLUSHALL ASYNC");
            make(&mut follower);
            assert_exact(&mut follower, "the end of replication");
        }
    }
}

#[test]
fn keys_of_a_failed_full_sync_are_not_counted() {
    for (load, own) in [("on-empty-db", 0), ("swapdb", 16)] {
        let mut primary = Server::start(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
        let slow = ["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"];
        let replica = Server::start(&[&["--repl-diskless-load", load], &slow[..]].concat());
        let (mut client, mut follower) = (primary.connect(), replica.connect());
        if own > 0 {
            make(&mut follower);
        }
        client.get::<()>("CONFIG SET rdbcompression no");
        client.get::<()>("RL.POLICY SET far SLIDINGLOG 10 1d");
        client.eval::<()>("for i = 1, 1000 do redis.call('RL.CHECK', 'far', KEYS[1] .. i) end", "far:", &[]);
        // More than the buffers of the connection hold.
        client.get::<()>("DEBUG POPULATE 2000 key 10000");
        follower.get::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        eventually("keys arrive", || counted(&mut follower).policies.get("far").is_some_and(|row| row.keys > 3));
        assert_eq!(follower.info("loading"), "1", "the replica must still be loading");
        primary.crash();
        follower.get::<()>("CONFIG SET key-load-delay 0");
        eventually("it gives up", || follower.info("loading") == "0");
        assert_eq!(assert_exact(&mut follower, "a full sync that failed").total(), own, "{load}");
    }
}

/// A random command on keys.
fn anything(random: &mut Rng) -> String {
    let mut key = || match random.u8(..12) {
        number @ 0..5 => format!("{}{}", SLOW[usize::from(number)].0, random.u8(1..4)),
        _ => format!("user:{}", random.u8(..8)),
    };
    let (key, other) = (key(), key());
    let (algorithm, _) = SLOW[random.usize(..5)];
    let policy = ["gold", "silver", "logs"][random.usize(..3)];
    let pace = ["1s", "20s", "1h"][random.usize(..3)];
    let cost = random.u8(1..120);
    match random.u8(..32) {
        0..6 if algorithm.ends_with("BUCKET") => format!("RL.{algorithm} {key} 100 1 COST {cost}"),
        0..6 => format!("RL.{algorithm} {key} 100 {pace} COST {cost} FORCE"),
        6..12 => format!("RL.CHECK {policy} {key} COST {cost}"),
        12 => format!("RL.POLICY SET {policy} {algorithm} 100 100 SLIDINGLOG 70 {pace}"),
        13 => format!("RL.POLICY SET {policy} SLIDINGLOG 100 {pace}"),
        14 => format!("RL.ALL 2 SLIDINGLOG {key} 100 {pace} FIXEDWINDOW {other} 100 {pace} COST {cost}"),
        15..18 => format!("RL.REFUND {key} {cost}"),
        18 => format!("CL.THROTTLE {key} 15 30 60"),
        19 => format!("DEL {key} {other}"),
        20 => format!("UNLINK {key}"),
        21 => format!("RENAME {key} {other}"),
        22 => format!("COPY {key} {other} REPLACE"),
        23 => format!("COPY {key} {key} DB 1 REPLACE"),
        24 => format!("MOVE {key} 1"),
        25 => "SWAPDB 0 1".to_owned(),
        26 => format!("SET {key} x PX 5000"),
        27 => format!("PEXPIRE {key} {}", random.u16(..3_000)),
        28 => format!("PERSIST {key}"),
        29 if random.u8(..10) == 0 => ["FLUSHDB SYNC", "FLUSHDB ASYNC"][random.usize(..2)].to_owned(),
        _ => "PING".to_owned(),
    }
}

#[test]
fn keys_are_counted_after_a_random_mix() {
    let mut server = Server::with_clock(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let mut replica = Server::with_clock(&["--repl-diskless-load", "swapdb"]);
    let seed = std::env::var("MIX_SEED").map_or(fastrand::u64(..), |text| text.parse().expect("a number"));
    println!("MIX_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut client = server.connect();
    let mut follower = attach(&replica, &server);
    make(&mut client);
    let mut succeeded = 0;
    for round in 1..=3_000 {
        succeeded += u32::from(client.call(&anything(&mut random)).is_ok());
        let passed = random.u64(..300_000);
        server.clock().advance_us(passed);
        replica.clock().advance_us(passed);
        if round % 100 == 0 {
            assert_exact(&mut client, "a random mix");
        }
    }
    assert!(succeeded > 1_000, "{succeeded}");
    catch_up(&mut client, &mut follower);
    // Expired keys are not listed, but exist on the replica until the primary deletes them.
    eventually("the replica counts the same", || reported(&mut follower).keys == reported(&mut client).keys);
    eventually("it counts the keys that it has", || reported(&mut follower) == found(&mut follower));
    server.restart();
    assert_exact(&mut server.connect(), "a restart");
}

#[test]
fn keys_are_counted_while_others_are_freed_in_the_background() {
    let server = Server::start(&[]);
    let grow = "for i = 1, 400 do redis.call('RL.SLIDINGLOG', KEYS[1] .. i, 1000, '1d', 'COST', i) end
                for i = 1, 3000 do redis.call('RL.CHECK', 'logs', KEYS[1], 'COST', i % 7 + 1, 'FORCE') end";
    server.connect().get::<()>(POLICIES[2]);
    thread::scope(|scope| {
        for number in 0..3 {
            let mut client = server.connect();
            scope.spawn(move || {
                for _ in 0..10 {
                    client.eval::<()>(grow, &format!("key{number}:"), &[]);
                    client.get::<()>(if number == 0 { "FLUSHALL ASYNC" } else { "UNLINK key1: key2:" });
                }
            });
        }
    });
    assert_exact(&mut server.connect(), "all that");
}
