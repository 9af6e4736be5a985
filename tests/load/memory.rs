//! The limits of the machine: full servers, evicted keys, logs of a million entries, a million keys that nobody uses.

use redis::Value;
use serial_test::serial;

use crate::common::long_log::make_million;
use crate::common::replicas::{attach, catch_up};
use crate::common::{eventually, Client, Server};

const MEGABYTE: i64 = 1 << 20;

fn used_memory(client: &mut Client) -> i64 {
    client.number("used_memory")
}

/// Lets the server have so many bytes more than it uses now, and returns how many that makes.
fn limit_memory(client: &mut Client, more: i64) -> i64 {
    let most = used_memory(client) + more;
    client.get::<()>(&format!("CONFIG SET maxmemory {most}"));
    most
}

/// Sends requests in one go, and returns the replies.
fn send(client: &mut Client, requests: impl IntoIterator<Item = String>) -> Vec<Value> {
    let mut pipeline = redis::pipe();
    for request in requests {
        let mut words = request.split_whitespace();
        let command = pipeline.cmd(words.next().expect("a command"));
        words.for_each(|word| {
            command.arg(word);
        });
    }
    client.pipeline(&pipeline.get_packed_pipeline(), pipeline.len())
}

fn is_oom(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "OOM")
}

/// Sends the requests with the numbers 0, 1, 2 … until some are refused for want of memory, and returns how many were not.
fn fill(client: &mut Client, request: impl Fn(usize) -> String) -> usize {
    const BATCH: usize = 500;
    let mut accepted = 0;
    for batch in 0..2_000 {
        let replies = send(client, (batch * BATCH..(batch + 1) * BATCH).map(&request));
        let refused = replies.iter().filter(|reply| is_oom(reply)).count();
        accepted += BATCH - refused;
        if refused > 0 {
            return accepted;
        }
    }
    panic!("the server is never full");
}

#[test]
#[serial]
fn a_full_server_refuses_and_forgets_nothing() {
    let server = Server::start(&["--maxmemory-policy", "noeviction", "--lazyfree-lazy-user-del", "no"]);
    let mut client = server.connect();
    client.limit("RL.FIXEDWINDOW known 10 3650d COST 7");
    let (known, base) = (client.digest("known"), used_memory(&mut client));
    let most = limit_memory(&mut client, 3 * MEGABYTE);
    // Whether it is a single log that grows and grows, or a key for everybody: the server sees the memory it takes.
    let entries = fill(&mut client, |_| "RL.SLIDINGLOG log 9007199254740991 1d COST 1234567890".to_owned());
    assert!(entries > 100_000, "{entries}");
    assert!(used_memory(&mut client) < most + MEGABYTE / 2);
    // Without what its clients' buffers come and go with, too.
    client.get::<()>(&format!("CONFIG SET maxmemory {}", most - MEGABYTE));
    for request in ["known 10 3650d", "known 10 3650d FORCE", "new 10 3650d"] {
        assert!(client.error(&format!("RL.FIXEDWINDOW {request}")).starts_with("OOM"));
    }
    assert_eq!(client.digest("known"), known);
    assert_eq!(client.get::<i64>("EXISTS new"), 0);
    client.get::<()>("DEL log");
    assert_eq!(client.limit("RL.FIXEDWINDOW known 10 3650d")[..3], [1, 10, 2]);

    let keys = fill(&mut client, |number| format!("RL.TOKENBUCKET user:{number} 10 1/h"));
    assert!(keys > 5_000, "{keys}");
    assert_eq!(client.get::<usize>("DBSIZE"), keys + 1);
    assert!(used_memory(&mut client) < most + MEGABYTE / 2);
    client.get::<()>("FLUSHALL SYNC");
    assert_eq!(client.limit("RL.TOKENBUCKET user:0 10 1/h")[..3], [1, 10, 9]);
    client.get::<()>("FLUSHALL SYNC");
    eventually("the memory is given back", || used_memory(&mut client) < base + MEGABYTE / 2);
}

#[test]
#[serial]
fn under_every_eviction_policy_limiters_make_room_and_replicas_follow() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        // The backlog counts as used: a large one would leave no room for keys.
        let backlog = ["--repl-backlog-size", "64kb", "--repl-diskless-sync-delay", "0"];
        let server = Server::start(&[&["--maxmemory-policy", policy], &backlog[..]].concat());
        let replica = Server::start(&[]);
        let (mut client, mut follower) = (server.connect(), attach(&replica, &server));
        let most = limit_memory(&mut client, 3 * MEGABYTE);
        let request = |number: u32| {
            let (command, pace) = [
                ("TOKENBUCKET", "1/h"),
                ("LEAKYBUCKET", "1/h"),
                ("FIXEDWINDOW", "3650d"),
                ("SLIDINGLOG", "1d"),
                ("SLIDINGCOUNTER", "3650d"),
            ][number as usize % 5];
            format!("RL.{command} user:{number} 10 {pace}")
        };
        for batch in 0..60 {
            for reply in send(&mut client, (batch * 500..(batch + 1) * 500).map(request)) {
                let told: Vec<i64> = redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{policy}: {error}"));
                assert_eq!(told[..3], [1, 10, 9], "{policy}");
            }
        }
        // What is on its way to replicas does not count.
        let [used, not_counted] = client.numbers(["used_memory", "mem_not_counted_for_evict"]);
        assert!(used - not_counted < most + MEGABYTE / 2, "{policy}: {used} - {not_counted} of {most}");
        client.get::<()>("CONFIG SET maxmemory 0");
        let evicted = client.number("evicted_keys");
        assert!(evicted > 1_000, "{policy}: {evicted}");
        assert_eq!(client.get::<i64>("DBSIZE") + evicted, 30_000, "{policy}");
        // A key that is there goes on where it was, one that is not starts afresh.
        let (mut live, mut gone) = (0, 0);
        for number in (0..30_000).step_by(101) {
            let used = client.get::<i64>(&format!("EXISTS user:{number}"));
            assert_eq!(client.limit(&request(number))[..3], [1, 10, 9 - used], "{policy}: {}", request(number));
            *(if used == 1 { &mut live } else { &mut gone }) += 1;
        }
        assert!(live > 0 && gone > 0, "{policy}: {live} live, {gone} gone");
        catch_up(&mut client, &mut follower);
        assert_eq!(client.get::<i64>("DBSIZE"), follower.get::<i64>("DBSIZE"), "{policy}");
        assert_eq!(client.get::<String>("DEBUG DIGEST"), follower.get::<String>("DEBUG DIGEST"), "{policy}");
    }
}

#[test]
#[serial]
fn a_log_of_a_million_entries_is_freed_in_the_background() {
    let server = Server::start(&["--lazyfree-lazy-user-del", "no"]);
    let mut client = server.connect();
    client.limit("RL.SLIDINGLOG warm 10 1d");
    let base = used_memory(&mut client);
    for command in ["UNLINK log", "FLUSHALL ASYNC", "FLUSHDB ASYNC"] {
        make_million(&mut client, &["log"]);
        let bytes = used_memory(&mut client) - base;
        assert!(bytes > 2_000_000, "{bytes}");
        let freed = client.number("lazyfreed_objects");
        client.get::<Value>(command);
        // The name is free at once.
        assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 9], "{command}");
        eventually("it is freed by another thread", || client.number("lazyfreed_objects") > freed);
        eventually("the memory is given back", || used_memory(&mut client) < base + MEGABYTE / 2);
        client.get::<()>("DEL log");
    }
    // A server that is told to free at once does so.
    make_million(&mut client, &["log"]);
    client.get::<()>("DEL log");
    assert!(used_memory(&mut client) < base + MEGABYTE / 2);
}

#[test]
#[serial]
#[ignore = "takes long: make test-faults"]
fn a_million_keys_that_nobody_uses_vanish_and_give_their_memory_back() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    client.limit("RL.TOKENBUCKET warm 10 1");
    let base = used_memory(&mut client);
    let create = "for i = 1, 20000 do redis.call('RL.TOKENBUCKET', KEYS[1] .. i, 10, 1) end";
    for part in 0..50 {
        client.eval::<()>(create, &format!("user:{part}:"), &[]);
    }
    assert_eq!(client.get::<i64>("DBSIZE"), 1_000_001);
    assert!(used_memory(&mut client) > base + 100 * MEGABYTE);
    // Each is as good as new after a second, and gone a second later at the latest.
    server.clock().advance_ms(2_001);
    eventually("they expire", || client.get::<i64>("DBSIZE") == 0);
    eventually("the memory is given back", || used_memory(&mut client) < base + MEGABYTE);
    assert_eq!(client.limit("RL.TOKENBUCKET user:1:1 10 1"), [1, 10, 9, 0, 1_000]);
}
