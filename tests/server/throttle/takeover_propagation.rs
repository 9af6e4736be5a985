//! Strings of redis-cell become limiters on replicas and in files as on the primary.

use std::fs;

use redis::Value;

use crate::common::redis_cell::{nanoseconds, set_cell_key};
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::stats::counted;
use crate::common::traffic::{all_digests, keys_without_expiry};
use crate::common::watch::watched_key_changed;
use crate::common::{Client, Server};

/// Creates strings of redis-cell. Of each three one allows requests, one denies them, and one allows them in a second.
fn set_cell_keys(server: &mut Server, client: &mut Client, prefix: &str) {
    for (number, millis) in (0..9).zip([1_500, 60_000, 5_200].into_iter().cycle()) {
        let full_at = nanoseconds(server, millis) + number;
        set_cell_key(client, &format!("{prefix}{number}"), full_at, millis);
    }
}

/// Sends requests to these strings that read, are denied, and take something, while time passes.
fn throttle_many(server: &mut Server, client: &mut Client, prefix: &str) {
    for quantity in [0, 6, 1, 1] {
        for number in 0..9 {
            client.limit(&format!("CL.THROTTLE {prefix}{number} 4 1 1 {quantity}"));
        }
        server.clock().advance_us(700_123);
    }
    let kinds = |client: &mut Client, number: u32| client.get::<String>(&format!("TYPE {prefix}{number}"));
    assert_eq!([0, 1, 2].map(|number| kinds(client, number)), ["ratelimit", "string", "ratelimit"]);
}

#[test]
fn replicas_and_the_append_only_file_follow() {
    let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--repl-diskless-sync-delay", "0"];
    let mut primary = Server::with_clock(&settings);
    let mut behind = Server::with_clock(&["--appendonly", "yes"]);
    let mut ahead = Server::with_clock(&[]);
    let (mut client, now) = (primary.connect(), primary.clock().now());
    behind.clock().set(now - 3_600_000_000);
    // By this clock all keys have expired, but only the primary deletes them.
    ahead.clock().set(now + 3_600_000_000);
    // Strings from the snapshot, and later ones.
    set_cell_keys(&mut primary, &mut client, "before:");
    let mut followers = [attach(&behind, &primary), attach(&ahead, &primary)];
    set_cell_keys(&mut primary, &mut client, "after:");
    throttle_many(&mut primary, &mut client, "before:");
    throttle_many(&mut primary, &mut client, "after:");
    let expected = all_digests(&mut client);
    assert!(expected.len() >= 12, "{expected:?}");
    assert_eq!(keys_without_expiry(&mut client), [""; 0]);
    for follower in &mut followers {
        catch_up(&mut client, follower);
    }
    assert_eq!(digests_of(&mut followers[0], &expected), expected);
    let values = digests_of(&mut followers[1], &expected).into_iter().map(|(_, (value, _))| value);
    assert_eq!(values.collect::<Vec<_>>(), expected.iter().map(|(_, (value, _))| value.clone()).collect::<Vec<_>>());
    behind.restart();
    assert_eq!(digests_of(&mut behind.connect(), &expected), expected, "the replica's append-only file");

    primary.restart();
    let mut client = primary.connect();
    assert_eq!(all_digests(&mut client), expected, "replayed");
    client.get::<()>("BGREWRITEAOF");
    client.wait_for_files();
    primary.restart();
    let mut client = primary.connect();
    assert_eq!(all_digests(&mut client), expected, "rewritten");
}

#[test]
fn denials_are_not_replicated() {
    let settings = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600"];
    let mut primary = Server::with_clock(&settings);
    let replica = Server::with_clock(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    let full_at = nanoseconds(&mut primary, 5_000);
    set_cell_key(&mut client, "key", full_at, 5_000);
    let offset = client.number("master_repl_offset");
    for quantity in [0, 1, 5, 6] {
        client.limit(&format!("CL.THROTTLE key 4 1 1 {quantity}"));
    }
    assert_eq!(client.number("master_repl_offset"), offset);
    primary.clock().advance_us(1_000_000);
    // The migration is a single change, on a replica too.
    catch_up(&mut client, &mut follower);
    follower.get::<()>("CONFIG RESETSTAT");
    follower.get::<()>("WATCH key");
    client.limit("CL.THROTTLE key 4 1 1");
    catch_up(&mut client, &mut follower);
    let [effects, transactions] = follower.infos(["cmdstat_RL.APPLY", "cmdstat_exec"]);
    assert!(effects.starts_with("calls=2,") && transactions.starts_with("calls=1,"), "{effects} {transactions}");
    assert!(watched_key_changed(&mut follower));
    assert_eq!(follower.digest("key"), client.digest("key"));
}

#[test]
fn transactions_and_scripts_migrate_strings() {
    let mut primary = Server::with_clock(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::with_clock(&[]);
    let mut client = primary.connect();
    let mut follower = attach(&replica, &primary);
    let full_at = nanoseconds(&mut primary, 2_000);
    // Also a string that the same transaction has created.
    client.get::<()>("MULTI");
    client.get::<()>(&format!("SET key {full_at} PX 2000"));
    for quantity in [0, 4, 2, 0] {
        client.get::<()>(&format!("CL.THROTTLE key 4 1 1 {quantity}"));
    }
    let (_, read, denied, allowed, then): (Value, Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>) = client.get("EXEC");
    assert_eq!((read, denied), (vec![0, 5, 3, -1, 2], vec![1, 5, 3, 1, 2]));
    assert_eq!((allowed, then), (vec![0, 5, 1, -1, 4], vec![0, 5, 1, -1, 4]));

    set_cell_key(&mut client, "scripted", full_at, 2_000);
    let script = "redis.call('CL.THROTTLE', KEYS[1], 4, 1, 1, 4) local kind = redis.call('TYPE', KEYS[1]).ok \
                  local reply = redis.call('CL.THROTTLE', KEYS[1], 4, 1, 1, 2) \
                  return {kind, redis.call('TYPE', KEYS[1]).ok, reply[3]}";
    let reply: (String, String, i64) = client.eval(script, "scripted", &[]);
    assert_eq!(reply, ("string".to_owned(), "ratelimit".to_owned(), 1));
    assert_eq!(client.digest("scripted"), client.digest("key"));
    catch_up(&mut client, &mut follower);
    for key in ["key", "scripted"] {
        assert_eq!(follower.digest(key), client.digest(key), "{key}");
    }
}

#[test]
fn an_append_only_file_of_redis_cell_is_loaded() {
    let mut server = Server::with_clock(&[]);
    let full_at = nanoseconds(&mut server, 2_000);
    let expires = server.clock().now() / 1_000 + 2_000;
    // redis-cell appends every command, whatever its reply.
    let commands = [
        format!("SET key {full_at} PXAT {expires}"),
        "CL.THROTTLE key 4 1 1 0".to_owned(),
        "CL.THROTTLE key 4 1 1 2".to_owned(),
        "CL.THROTTLE key 4 1 1 2".to_owned(),
        "CL.THROTTLE new 4 1 1 5".to_owned(),
    ];
    let append = |command: &String| {
        let words: Vec<_> = command.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{}", words.len(), words.concat())
    };
    server.stop();
    fs::write(server.folder().join("appendonly.aof"), commands.iter().map(append).collect::<String>())
        .expect("written");
    server.set(&["--appendonly", "yes"]);
    server.start_again();
    for _ in 0..2 {
        let mut client = server.connect();
        let counted = counted(&mut client).row("TOKENBUCKET");
        assert_eq!((counted.allowed, counted.denied, counted.keys), (0, 0, 2), "loading counts no requests");
        assert_eq!(client.limit("CL.THROTTLE key 4 1 1 0"), [0, 5, 1, -1, 4]);
        assert_eq!(client.limit("CL.THROTTLE new 4 1 1 0"), [0, 5, 0, -1, 5]);
        assert_eq!(keys_without_expiry(&mut client), [""; 0]);
        // The rewritten file has this module's commands.
        client.get::<()>("BGREWRITEAOF");
        client.wait_for_files();
        server.restart();
    }
}
