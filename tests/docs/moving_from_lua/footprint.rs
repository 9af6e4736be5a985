//! Keys and writes of the usual Lua scripts, beside the commands that replace them. The figures are those of
//! `docs/moving-from-lua.md`.

use limiter::Algorithm;

use super::page::{number, says};
use super::script::{alike, Script, FIXED_WINDOW, SCRIPTS, SLIDING_COUNTER};
use super::{Both, Side};
use crate::common::cluster::{Cluster, SLOTS};
use crate::common::{eventually, Server};

/// The keys and writes of a script or a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Footprint {
    /// Keys of a user with requests in this window and in the previous one.
    keys: usize,
    /// Writes of an allowed and of a denied request.
    allowed: i64,
    denied: i64,
    /// Whether a denied request is written to the append-only file.
    is_logged: bool,
}

/// With three requests a minute, a user sends one request in a minute, and four in the next.
fn footprint(both: &mut Both, script: &Script, side: Side) -> Footprint {
    let limit = if script.is_bucket() { alike(3, "0.05") } else { alike(3, "60") };
    let request = |both: &mut Both, allowed: bool| {
        // Within one microsecond the log's script admits any number, and writes one entry.
        both.server.clock().advance_us(1);
        let before = both.client.numbers(["rdb_changes_since_last_save", "aof_current_size"]);
        assert_eq!(both.ask(side, &limit).allowed, allowed, "{side:?} of the {}", script.title());
        let after = both.client.numbers(["rdb_changes_since_last_save", "aof_current_size"]);
        (after[0] - before[0], after[1] > before[1])
    };
    request(both, true);
    both.wait_ms(60_000);
    request(both, true);
    let keys = both.client.get::<Vec<String>>("KEYS *").len();
    let (allowed, _) = request(both, true);
    request(both, true);
    let (denied, is_logged) = request(both, false);
    both.client.get::<()>("FLUSHALL");
    Footprint { keys, allowed, denied, is_logged }
}

#[test]
fn a_command_needs_one_key_and_one_write_and_no_write_for_a_denial() {
    for script in SCRIPTS {
        let mut both = Both::with(script, &["--appendonly", "yes", "--appendfsync", "no"]);
        let of_command = footprint(&mut both, script, Side::Command);
        assert_eq!(of_command, Footprint { keys: 1, allowed: 1, denied: 0, is_logged: false }, "{}", script.title());
        let Footprint { keys, allowed, denied, is_logged } = footprint(&mut both, script, Side::Script);
        assert_eq!(is_logged, denied > 0);
        says(&format!("| {} | {keys} | {allowed} | {denied} |", script.title()));
    }
    says("| every command | 1 | 1 | 0 |");
}

#[test]
fn a_window_script_leaves_a_key_for_every_window() {
    const MINUTES: u64 = 60;
    for script in [&FIXED_WINDOW, &SLIDING_COUNTER] {
        let mut both = Both::of(script);
        let mut keys = [0, 0];
        for (keys, side) in keys.iter_mut().zip([Side::Script, Side::Command]) {
            for _ in 0..MINUTES {
                assert!(both.ask(side, &alike(10, "60")).allowed);
                both.wait_ms(60_000);
            }
            *keys = both.client.get::<u64>("DBSIZE");
        }
        assert_eq!(keys[1] - keys[0], 1);
        says(&format!("leaves one behind in every window, {} keys in an hour of minutes", number(keys[0])));
        both.client.get::<()>("DEBUG SET-ACTIVE-EXPIRE 1");
        both.wait_ms(120_000);
        eventually("the server removes them", || both.client.get::<u64>("DBSIZE") == 0);
    }
}

#[test]
fn in_a_cluster_a_script_fails_if_the_keys_that_it_builds_are_on_another_node() {
    const USERS: u32 = 30;
    let cluster = Cluster::start(3, false);
    let mut nodes = cluster.connect();
    let limit = alike(10, "60");
    for script in [&FIXED_WINDOW, &SLIDING_COUNTER] {
        let shas: Vec<String> = nodes.iter_mut().map(|node| script.load(node)).collect();
        let mut failure = |user: String| {
            let user = &format!("{user}:{}", script.algorithm.name());
            let slot: usize = nodes[0].get(&format!("CLUSTER KEYSLOT {user}"));
            let owner = (0..3).rev().find(|node| node * SLOTS / 3 <= slot).expect("an owner");
            let refused = nodes[owner].call(&script.call(&shas[owner], user, &limit)).err();
            nodes[owner].limit(&script.command(user, &limit));
            refused.map(|error| error.to_string())
        };
        let failures: Vec<String> = (0..USERS).filter_map(|user| failure(format!("user:{user}"))).collect();
        assert!(!failures.is_empty(), "the keys of each of {USERS} users are on one node");
        assert!(failures.iter().all(|error| error.contains("non local key")), "{failures:?}");
        let failures: Vec<String> = (0..USERS).filter_map(|user| failure(format!("{{user:{user}}}"))).collect();
        assert_eq!(failures, [""; 0]);
    }
}

#[test]
fn script_and_command_count_separately() {
    for script in SCRIPTS {
        let mut both = Both::of(script);
        let limit = if script.is_bucket() { alike(5, "0.05") } else { alike(5, "60") };
        let mut admitted = [0, 0];
        for _ in 0..20 {
            for (admitted, side) in admitted.iter_mut().zip([Side::Script, Side::Command]) {
                *admitted += u32::from(both.ask(side, &limit).allowed);
            }
            both.server.clock().advance_us(1);
        }
        assert_eq!(admitted, [5, 5], "{}", script.title());
    }
}

#[test]
fn only_the_key_of_a_log_script_blocks_the_command_until_it_is_deleted() {
    let server = Server::with_clock(&[]);
    let (mut client, limit) = (server.connect(), alike(5, "60"));
    for script in SCRIPTS {
        let sha = script.load(&mut client);
        let (call, command) = (script.call(&sha, "user:42", &limit), script.command("user:42", &limit));
        let [first, second] = [[1, 5, 4], [1, 5, 3]];
        assert_eq!(client.limit(&call)[..3], first);
        if script.algorithm == Algorithm::SlidingLog {
            assert!(client.error(&command).starts_with("WRONGTYPE"));
            client.get::<()>("DEL user:42");
            assert_eq!(client.limit(&command)[..3], first);
            assert!(client.error(&call).contains("WRONGTYPE"));
        } else {
            assert_eq!(client.limit(&command)[..3], first, "{}", script.title());
            assert_eq!(client.limit(&call)[..3], second, "{}", script.title());
        }
        client.get::<()>("FLUSHALL");
    }
}
