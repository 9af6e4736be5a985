//! Memory: full servers, eviction, logs of a million entries, and a million idle keys.

use redis::Value;
use serial_test::serial;

use crate::common::long_log::make_million;
use crate::common::replicas::{attach, catch_up};
use crate::common::{eventually, Client, Server};

const MEGABYTE: i64 = 1 << 20;

fn used_memory(client: &mut Client) -> i64 {
    client.number("used_memory")
}

/// Sets `maxmemory` to `more` bytes above the present use, and returns it.
fn limit_memory(client: &mut Client, more: i64) -> i64 {
    let most = used_memory(client) + more;
    client.get::<()>(&format!("CONFIG SET maxmemory {most}"));
    most
}

/// Sends requests in a pipeline, and returns the replies.
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

/// Sends the requests number 0, 1, 2 … until some fail for lack of memory, and returns how many succeeded.
fn fill(client: &mut Client, request: impl Fn(usize) -> String) -> usize {
    const BATCH: usize = 500;
    let mut accepted = 0;
    for batch in 0..2_000 {
        let replies = send(client, (batch * BATCH..(batch + 1) * BATCH).map(&request));
        let failed = replies.iter().filter(|reply| is_oom(reply)).count();
        accepted += BATCH - failed;
        if failed > 0 {
            return accepted;
        }
    }
    panic!("the server is never full");
}

#[test]
#[serial]
fn a_full_server_rejects_requests_and_keeps_its_keys() {
    let server = Server::start(&["--maxmemory-policy", "noeviction", "--lazyfree-lazy-user-del", "no"]);
    let mut client = server.connect();
    client.limit("RL.FIXEDWINDOW known 10 3650d COST 7");
    let (known, base) = (client.digest("known"), used_memory(&mut client));
    let most = limit_memory(&mut client, 3 * MEGABYTE);
    // The server counts the memory of a single growing log, and below that of many keys.
    let entries = fill(&mut client, |_| "RL.SLIDINGLOG log 9007199254740991 1d COST 1234567890".to_owned());
    assert!(entries > 100_000, "{entries}");
    assert!(used_memory(&mut client) < most + MEGABYTE / 2);
    // Well below the present use, as the buffers of clients grow and shrink.
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
    eventually("the memory is freed", || used_memory(&mut client) < base + MEGABYTE / 2);
}

#[test]
#[serial]
fn under_every_eviction_policy_limiters_are_evicted_and_replicas_follow() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        // The backlog counts as used memory, so it must be small.
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
                let reply: Vec<i64> =
                    redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{policy}: {error}"));
                assert_eq!(reply[..3], [1, 10, 9], "{policy}");
            }
        }
        // Buffers for replicas do not count.
        let [used, not_counted] = client.numbers(["used_memory", "mem_not_counted_for_evict"]);
        assert!(used - not_counted < most + MEGABYTE / 2, "{policy}: {used} - {not_counted} of {most}");
        client.get::<()>("CONFIG SET maxmemory 0");
        let evicted = client.number("evicted_keys");
        assert!(evicted > 1_000, "{policy}: {evicted}");
        assert_eq!(client.get::<i64>("DBSIZE") + evicted, 30_000, "{policy}");
        // Keys that were not evicted keep their state.
        let (mut kept, mut evicted) = (0, 0);
        for number in (0..30_000).step_by(101) {
            let used = client.get::<i64>(&format!("EXISTS user:{number}"));
            assert_eq!(client.limit(&request(number))[..3], [1, 10, 9 - used], "{policy}: {}", request(number));
            *(if used == 1 { &mut kept } else { &mut evicted }) += 1;
        }
        assert!(kept > 0 && evicted > 0, "{policy}: {kept} kept, {evicted} evicted");
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
        // The key is new at once.
        assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 9], "{command}");
        eventually("it is freed in another thread", || client.number("lazyfreed_objects") > freed);
        eventually("the memory is freed", || used_memory(&mut client) < base + MEGABYTE / 2);
        client.get::<()>("DEL log");
    }
    // `DEL` frees it at once.
    make_million(&mut client, &["log"]);
    client.get::<()>("DEL log");
    assert!(used_memory(&mut client) < base + MEGABYTE / 2);
}

#[test]
#[serial]
#[ignore = "takes long: make test-faults"]
fn a_million_idle_keys_expire_and_free_their_memory() {
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
    // Each resets fully after a second, and expires at most a second later.
    server.clock().advance_ms(2_001);
    eventually("the keys expire", || client.get::<i64>("DBSIZE") == 0);
    eventually("the memory is freed", || used_memory(&mut client) < base + MEGABYTE);
    assert_eq!(client.limit("RL.TOKENBUCKET user:1:1 10 1"), [1, 10, 9, 0, 1_000]);
}
