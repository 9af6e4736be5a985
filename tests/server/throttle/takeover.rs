//! Migration from redis-cell: its strings are understood, and the first request that takes something replaces them by
//! limiters.

use std::collections::HashMap;

use fastrand::Rng;
use redis::Value;

use crate::common::redis_cell::{nanoseconds, set_cell_key};
use crate::common::traffic::keys_without_expiry;
use crate::common::watch::watched_key_changed;
use crate::common::{Client, Server};
use crate::models::cell::Cell;

/// The type, value and expiry of a string.
fn string(client: &mut Client, key: &str) -> (String, Vec<u8>, i64) {
    let [kind, value, expires] = ["TYPE", "GET", "PEXPIRETIME"].map(|it| format!("{it} {key}"));
    (client.get(&kind), client.get(&value), client.get(&expires))
}

/// How many requests to token buckets were allowed and denied.
fn counted(client: &mut Client) -> [i64; 2] {
    let line = client.info("ratelimit_TOKENBUCKET");
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)?.parse().ok());
    ["allowed=", "denied="].map(|name| field(name).unwrap_or_else(|| panic!("{name} in {line}")))
}

#[test]
fn waits_continue_and_the_first_request_that_takes_something_replaces_the_string() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let full_at = nanoseconds(&mut server, 3_500);
    set_cell_key(&mut client, "key", full_at, 3_500);
    let (before, changes) = (string(&mut client, "key"), client.number("rdb_changes_since_last_save"));
    client.get::<()>("WATCH key");
    for (quantity, expected) in
        [(0, [0, 5, 1, -1, 4]), (2, [1, 5, 1, 1, 4]), (5, [1, 5, 1, 4, 4]), (6, [1, 5, 1, -1, 4])]
    {
        assert_eq!(client.limit(&format!("CL.THROTTLE key 4 1 1 {quantity}")), expected, "{quantity}");
    }
    server.clock().advance_us(499_999);
    assert_eq!(client.limit("CL.THROTTLE key 4 1 1 2"), [1, 5, 1, 0, 3]);
    assert!(!watched_key_changed(&mut client));
    assert_eq!((string(&mut client, "key"), client.number("rdb_changes_since_last_save")), (before, changes));

    server.clock().advance_us(1);
    client.get::<()>("WATCH key");
    assert_eq!(client.limit("CL.THROTTLE key 4 1 1 0"), [0, 5, 2, -1, 3]);
    assert_eq!(client.limit("CL.THROTTLE key 4 1 1 2"), [0, 5, 0, -1, 5]);
    assert!(watched_key_changed(&mut client));
    assert_eq!(counted(&mut client), [1, 4], "requests to strings count too");
    // The value is as if all requests had been made here.
    client.limit("RL.TOKENBUCKET other 5 1 COST 5");
    assert_eq!(client.digest("key"), client.digest("other"));
    assert_eq!(client.get::<String>("TYPE key"), "ratelimit");
    assert!(client.number("rdb_changes_since_last_save") > changes);
    assert_eq!(client.limit("RL.TOKENBUCKET key 5 1"), [0, 5, 0, 1_000, 5_000]);
    server.clock().advance_ms(6_001);
    assert_eq!(client.get::<i64>("EXISTS key"), 0);
}

#[test]
fn every_reply_is_that_of_redis_cell_before_and_after() {
    let mut server = Server::with_clock(&[]);
    let (mut client, mut random) = (server.connect(), Rng::with_seed(17));
    let (mut denied, mut taken_over) = (0, 0);
    for number in 0..300 {
        let (max_burst, (count, period)) = (random.u64(..20), [(1, 1), (30, 60), (8, 3), (1, 90)][random.usize(..4)]);
        let (mut cell, token) = (Cell::new(max_burst, count, period), period * 1_000_000 / count);
        // Requests to redis-cell before the migration.
        for _ in 0..random.u8(1..10) {
            cell.throttle(random.u64(1..=max_burst + 1), server.clock().now());
            server.clock().advance_us(random.u64(..token));
        }
        let left = cell.stored().saturating_sub(nanoseconds(&mut server, 0));
        if left < 1_000_000 {
            continue;
        }
        set_cell_key(&mut client, &number.to_string(), cell.stored(), left / 1_000_000);
        for step in 0..10 {
            let (quantity, now) = (random.u64(..=(max_burst + 2).min(4)), server.clock().now());
            let request = format!("CL.THROTTLE {number} {max_burst} {count} {period} {quantity}");
            let was_string = client.get::<String>(&format!("TYPE {number}")) == "string";
            let reply = client.limit(&request);
            assert_eq!(reply, cell.throttle(quantity, now), "step {step}: {request} on {cell:?} at {now}");
            denied += u32::from(was_string && reply[0] == 1);
            taken_over += u32::from(was_string && reply[0] == 0 && quantity > 0);
            server.clock().advance_us(random.u64(..token));
        }
        assert_eq!(keys_without_expiry(&mut client), [""; 0]);
    }
    assert!(denied > 100 && taken_over > 100, "{denied} denied, {taken_over} taken over");
}

#[test]
fn strings_are_understood_in_every_encoding() {
    let mut server = Server::with_clock(&["--lazyfree-lazy-server-del", "yes"]);
    let mut client = server.connect();
    let full_at = nanoseconds(&mut server, 2_000);
    // Nanoseconds are rounded up to microseconds, so that no request is allowed too early.
    for (full_at, remaining, wait) in
        [(full_at, 3, 2_000_000), (full_at + 1, 2, 2_000_001), (full_at - 999, 3, 2_000_000)]
    {
        for form in ["int", "raw", "copied", "loaded"] {
            set_cell_key(&mut client, "key", full_at, 2_000);
            if form == "raw" {
                let (head, tail) = (full_at / 1_000, full_at % 1_000);
                client.get::<()>(&format!("SET key {head} PX 2000"));
                client.get::<()>(&format!("APPEND key {tail:03}"));
            } else if form == "copied" {
                client.get::<()>("COPY key other");
                client.get::<()>("RENAME other key");
            } else if form == "loaded" {
                client.get::<()>("DEBUG RELOAD");
            }
            assert_eq!(client.get::<Vec<u8>>("GET key"), full_at.to_string().as_bytes());
            let encoding: String = client.get("OBJECT ENCODING key");
            assert_eq!(encoding, if form == "raw" { "raw" } else { "int" });
            assert_eq!(client.limit("CL.THROTTLE key 4 1 1 0")[..3], [0, 5, remaining], "{form}");
            assert_eq!(client.limit("CL.THROTTLE key 4 1 1 5")[..3], [1, 5, remaining], "{form}");
            assert_eq!(client.get::<Vec<u8>>("GET key"), full_at.to_string().as_bytes());
            assert_eq!(client.get::<i64>("PTTL key"), 2_000, "{form}");
            assert_eq!(client.limit("CL.THROTTLE key 4 1 1")[..3], [0, 5, remaining - 1], "{form}");
            let expected = i64::try_from((wait + 1_000_000_u64).div_ceil(1_000)).expect("a wait");
            assert_eq!(client.limit("RL.PEEK key")[4], expected, "{form}");
        }
    }
}

#[test]
fn impossible_times_are_handled() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let now = nanoseconds(&mut server, 0);
    // A time in the past means a full bucket, and one in the far future an empty one.
    for (full_at, [limited, remaining, retry, reset]) in [
        (now - 1_000_000, [0, 4, -1, 1]),
        (now, [0, 4, -1, 1]),
        (now + 5_000_000_000, [1, 0, 1, 5]),
        (now + 5_000_001_000, [1, 0, 1, 5]),
        (now + 86_400_000_000_000, [1, 0, 1, 5]),
        (9_223_372_036_854_775_807, [1, 0, 1, 5]),
    ] {
        // The expiry may differ slightly.
        let lives = (full_at / 1_000_000 + 1_999) - now / 1_000_000;
        client.get::<()>(&format!("SET key {full_at} PX {lives}"));
        let before = if limited == 1 { [0, 5, 0, -1, 5] } else { [0, 5, 5, -1, 0] };
        assert_eq!(client.limit("CL.THROTTLE key 4 1 1 0"), before, "{full_at}");
        assert_eq!(client.limit("CL.THROTTLE key 4 1 1"), [limited, 5, remaining, retry, reset], "{full_at}");
        let (kind, live) = if limited == 1 { ("string", lives) } else { ("ratelimit", 2_000) };
        assert_eq!(
            (client.get::<String>("TYPE key").as_str(), client.get::<u64>("PTTL key")),
            (kind, live),
            "{full_at}"
        );
        // Any other parameters work too.
        assert_eq!(client.limit("CL.THROTTLE key 9007199254740990 1000000000 1 0")[..2], [0, 9_007_199_254_740_991]);
    }
    let tomorrow = nanoseconds(&mut server, 86_400_000);
    set_cell_key(&mut client, "key", tomorrow, 86_400_000);
    let (limit, missing) = (9_007_199_254_740_991, 999_999_937 * 86_400);
    assert_eq!(
        client.limit("CL.THROTTLE key 9007199254740990 999999937 1 7"),
        [0, limit, limit - missing - 7, -1, 86_400]
    );
}

#[test]
fn other_strings_are_left_alone() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let ours = nanoseconds(&mut server, 1_000).to_string();
    let others = ["", "1", "hello", "1700000000", "-100000000000000000", "+179003520000000000", "17900352000000000x0"];
    // Texts of the same length that redis-cell cannot write.
    let others = others.iter().chain(&["0000000000000000000", "0790035200000000000", "9999999999999999999"]);
    let longer = [&ours[1..], &format!("{ours}0"), &format!("{} ", &ours[1..]), &ours[1..].replacen("00", "0.", 1)];
    let strange =
        [&*"0".repeat(100), "\u{661}\u{662}\u{663}\u{664}\u{665}\u{666}\u{667}\u{668}\u{669}1", "0x17cbd9d4c3a8e000"];
    for (text, expires) in others.chain(&longer).chain(&strange).map(|text| (*text, true)).chain([(&*ours, false)]) {
        let words = [b"SET".as_slice(), b"key", text.as_bytes(), b"PX", b"100000"];
        client.call_bytes(&words[..if expires { 5 } else { 3 }]).expect("set");
        let (before, encoding) = (string(&mut client, "key"), client.get::<String>("OBJECT ENCODING key"));
        client.get::<()>("WATCH key");
        for quantity in 0..3 {
            let error = client.error(&format!("CL.THROTTLE key 4 1 1 {quantity}"));
            assert_eq!(error, "WRONGTYPE Operation against a key holding the wrong kind of value", "{text}");
        }
        assert!(!watched_key_changed(&mut client), "{text}");
        assert_eq!(string(&mut client, "key"), before);
        if text.len() != ours.len() {
            assert_eq!(client.get::<String>("OBJECT ENCODING key"), encoding, "{text}");
        }
    }
    // A number like redis-cell's, but with another time to live.
    for lives in [3_001, 86_400_000] {
        set_cell_key(&mut client, "key", ours.parse().expect("a time"), lives);
        assert!(client.error("CL.THROTTLE key 4 1 1").starts_with("WRONGTYPE"));
        assert_eq!(client.get::<String>("GET key"), ours);
    }
    // Other commands do not understand strings of redis-cell.
    set_cell_key(&mut client, "key", ours.parse().expect("a time"), 1_000);
    let before = string(&mut client, "key");
    for command in ["TOKENBUCKET key 5 1", "PEEK key", "INFO key", "REFUND key 1", "ALL 1 TOKENBUCKET key 5 1"] {
        assert!(client.error(&format!("RL.{command}")).starts_with("WRONGTYPE"), "{command}");
    }
    assert_eq!(string(&mut client, "key"), before);
}

#[test]
fn a_full_server_leaves_strings_alone() {
    let mut server = Server::with_clock(&["--maxmemory-policy", "noeviction"]);
    let mut client = server.connect();
    let full_at = nanoseconds(&mut server, 2_000);
    set_cell_key(&mut client, "key", full_at, 2_000);
    let before = string(&mut client, "key");
    client.get::<()>("CONFIG SET maxmemory 1");
    for quantity in [0, 1, 5] {
        assert!(client.error(&format!("CL.THROTTLE key 4 1 1 {quantity}")).starts_with("OOM"), "{quantity}");
    }
    client.get::<()>("CONFIG SET maxmemory 0");
    assert_eq!(string(&mut client, "key"), before);
    assert_eq!(client.limit("CL.THROTTLE key 4 1 1"), [0, 5, 2, -1, 3]);
}

#[test]
fn migration_leaks_no_memory() {
    let settings = ["--lazyfree-lazy-user-del", "no", "--appendonly", "yes", "--appendfsync", "no"];
    let mut server = Server::with_clock(&settings);
    let mut client = server.connect();
    let full_at = nanoseconds(&mut server, 2_000).to_string();
    // Each string is read, denied and replaced; then the key is deleted or overwritten.
    let script = "for i = 1, 5000 do \
                    for _, quantity in ipairs({0, 5, 1}) do \
                      if quantity ~= 1 or i % 3 ~= 0 then \
                        redis.call('SET', KEYS[1], ARGV[1], 'PX', 2000) \
                      end \
                      redis.call('CL.THROTTLE', KEYS[1], 4, 1, 1, quantity) \
                    end \
                    if i % 2 == 0 then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], 'x') end \
                  end \
                  redis.call('DEL', KEYS[1])";
    client.eval::<()>(script, "key", &[&full_at]);
    let before = client.number("used_memory");
    client.eval::<()>(script, "key", &[&full_at]);
    let grown = client.number("used_memory") - before;
    assert!(grown < 60_000, "{grown} more bytes after 5000 strings");
    let stats: HashMap<String, Value> = client.get("RL.STATS");
    assert_eq!(stats["keys"], Value::Int(0));
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
}
