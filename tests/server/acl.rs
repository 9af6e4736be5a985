//! ACLs: categories, the permission for `RL.STATS RESET`, and key permissions of every command.

use std::collections::{BTreeMap, BTreeSet};

use limiter::{Algorithm, Quota};
use redis::Value;
use redis_ratelimit::replication::EffectBytes;

use crate::common::traffic::all_digests;
use crate::common::{Client, Server};

/// The module's commands.
fn commands(client: &mut Client) -> BTreeSet<String> {
    let names: Vec<String> = client.get("COMMAND LIST FILTERBY MODULE ratelimit");
    names.into_iter().map(|name| name.to_uppercase()).collect()
}

/// A connection of a new user with these rules.
fn user(server: &Server, name: &str, rules: &str) -> Client {
    server.connect().get::<()>(&format!("ACL SETUSER {name} on nopass {rules}"));
    let mut client = server.connect();
    client.get::<()>(&format!("AUTH {name} x"));
    client
}

#[test]
fn the_acl_category_has_the_commands_for_applications() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    if !client.get::<Vec<String>>("ACL CAT").contains(&"ratelimit".to_owned()) {
        let (redis, valkey) = (client.info("redis_version"), client.valkey_version());
        let lacks_them = valkey.map_or(["7.0.", "7.2."].iter().any(|old| redis.starts_with(old)), |it| it < (8, 0));
        assert!(lacks_them, "{redis} {valkey:?}");
        eprintln!("skipped: modules cannot add categories on this server");
        return;
    }
    let is_for_admins = |name: &str| name == "RL.APPLY" || name.starts_with("RL.POLICY");
    let mut expected = commands(&mut client);
    for command in &expected {
        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {command}"));
        let categories: Vec<String> = redis::from_redis_value(info[0][6].clone()).expect("names");
        let is_member = categories.contains(&"@ratelimit".to_owned());
        assert_eq!(is_member, !is_for_admins(command), "{command}: {categories:?}");
    }
    expected.retain(|name| !is_for_admins(name));
    assert_eq!(expected.iter().filter(|name| !name.contains('|')).count(), 13, "{expected:?}");
    // Valkey lists no commands of modules there.
    let listed: BTreeSet<String> =
        client.get::<Vec<String>>("ACL CAT ratelimit").iter().map(|it| it.to_uppercase()).collect();
    assert!(listed == expected || (listed.is_empty() && client.valkey_version().is_some()), "{listed:?}");

    client.get::<()>("RL.POLICY SET login SLIDINGLOG 5 1d");
    let mut app = user(&server, "app", "~* +@ratelimit");
    for command in [
        "RL.TOKENBUCKET bucket 10 1",
        "RL.ALL 1 SLIDINGLOG log 10 1",
        "RL.CHECK login key",
        "RL.PEEK key",
        "RL.REFUND key 1",
        "RL.INFO key",
        "RL.STATS",
        "RL.TOP",
        "CL.THROTTLE cell 15 30 60",
    ] {
        app.get::<Value>(command);
    }
    for command in ["RL.POLICY LIST", "RL.POLICY GET login", "RL.POLICY DEL login", "RL.APPLY key x", "GET key"] {
        assert!(app.error(command).starts_with("NOPERM"), "{command}");
    }
    let mut other = user(&server, "other", "~* +@all -@ratelimit");
    assert!(other.error("RL.TOKENBUCKET bucket 10 1").starts_with("NOPERM"));
    other.get::<Value>("RL.POLICY LIST");
}

const NO_RESET: &str =
    "NOPERM RL.STATS RESET requires the permission to run CONFIG RESETSTAT, and is not allowed from scripts";

#[test]
fn resetting_stats_requires_permission_for_config_resetstat() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.limit("RL.TOKENBUCKET bucket 1 1 COST 2");
    let reset = |client: &mut Client| client.call("RL.STATS RESET").map_err(|error| error.to_string());
    for rules in ["+rl.stats", "+@all -@admin", "+@all -config", "+@all -config|resetstat", "+rl.stats +config|get"] {
        let mut denied = user(&server, "user", &format!("reset on nopass {rules} +multi +exec"));
        assert_eq!(denied.error("RL.STATS RESET"), NO_RESET, "{rules}");
        denied.get::<Value>("RL.STATS");
        // Nor in a transaction.
        denied.get::<()>("MULTI");
        denied.get::<()>("RL.STATS RESET");
        assert!(denied.error("EXEC").contains("NOPERM"), "{rules}");
    }
    assert!(format!("{:?}", client.get::<Value>("RL.TOP")).contains("bucket"), "it was reset");
    for rules in ["+@all", "+rl.stats +config|resetstat", "+rl.stats +config", "+@admin +rl.stats"] {
        let mut allowed = user(&server, "user", &format!("reset on nopass {rules}"));
        assert_eq!(reset(&mut allowed), Ok(Value::Okay), "{rules}");
    }
    let mut without = user(&server, "user", "reset on nopass +@all -rl.stats");
    assert!(without.error("RL.STATS RESET").starts_with("NOPERM"), "{}", without.error("RL.STATS RESET"));
    assert!(!format!("{:?}", client.get::<Value>("RL.TOP")).contains("bucket"));
    client.get::<()>("MULTI");
    client.get::<()>("RL.STATS RESET");
    assert_eq!(client.get::<Vec<String>>("EXEC"), ["OK"]);
}

#[test]
fn scripts_cannot_reset_stats() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.limit("RL.TOKENBUCKET bucket 1 1 COST 2");
    let library =
        b"#!lua name=library\nredis.register_function('reset', function() return redis.call('RL.STATS', 'RESET') end)";
    client.call_bytes(&[b"FUNCTION", b"LOAD", library]).expect("loaded");
    for words in
        [&[b"EVAL".as_slice(), b"return redis.call('RL.STATS', 'RESET')", b"0"][..], &[b"FCALL", b"reset", b"0"]]
    {
        let error = client.error_of(words);
        assert!(error.starts_with("NOPERM RL.STATS RESET requires the permission"), "{error}");
    }
    assert!(format!("{:?}", client.get::<Value>("RL.TOP")).contains("bucket"), "it was reset");
    assert!(client.call_bytes(&[b"EVAL", b"return #redis.call('RL.STATS')", b"0"]).is_ok(), "reading is allowed");
}

/// Calls of each command with a key, `@`, in every position of a key. `effect` stands for a valid effect.
fn calls_with_key() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("RL.TOKENBUCKET", &["@ 10 1/d", "@ 10 1/d COST 3", "@ 10 1/d FORCE"][..]),
        ("RL.LEAKYBUCKET", &["@ 10 1/d", "@ 10 1/d COST 3 FORCE"]),
        ("RL.FIXEDWINDOW", &["@ 10 1d", "@ 10 1d COST 3 FORCE"]),
        ("RL.SLIDINGLOG", &["@ 10 1d", "@ 10 1d COST 3 FORCE"]),
        ("RL.SLIDINGCOUNTER", &["@ 10 1d", "@ 10 1d COST 3 FORCE"]),
        (
            "RL.ALL",
            &[
                "1 FIXEDWINDOW @ 10 1d",
                "1 FIXEDWINDOW @ 10 1d COST 3",
                "2 FIXEDWINDOW @ 10 1d FIXEDWINDOW app:1 10 1d",
                "2 FIXEDWINDOW app:1 10 1d FIXEDWINDOW @ 10 1d",
                "2 SLIDINGLOG app:2 10 1d FIXEDWINDOW @ 10 1d COST 3",
                "3 FIXEDWINDOW app:1 10 1d FIXEDWINDOW @ 10 1d FIXEDWINDOW app:2 10 1d",
                "3 FIXEDWINDOW app:1 10 1d FIXEDWINDOW app:2 10 1d FIXEDWINDOW @ 10 1d",
            ],
        ),
        ("RL.CHECK", &["app:policy @", "app:policy @ COST 3", "app:policy @ FORCE", "app:none @"]),
        ("RL.PEEK", &["@", "@ COST 3"]),
        ("RL.REFUND", &["@ 1", "@ 1000"]),
        ("RL.INFO", &["@"]),
        ("CL.THROTTLE", &["@ 9 1 86400", "@ 9 1 86400 3", "@ 9 1 86400 0"]),
        (
            "RL.APPLY",
            &["@ effect", "@ effect app:1 effect", "app:1 effect @ effect", "app:2 effect app:1 effect @ effect"],
        ),
        // These have no keys. The keys in their replies are tested separately.
        ("RL.STATS", &[]),
        ("RL.TOP", &[]),
        ("RL.POLICY", &[]),
        ("RL.POLICY|SET", &[]),
        ("RL.POLICY|GET", &[]),
        ("RL.POLICY|DEL", &[]),
        ("RL.POLICY|LIST", &[]),
        ("RL.POLICY|LOAD", &[]),
        ("RL.POLICY|SAVE", &[]),
        ("RL.POLICY|HELP", &[]),
    ])
}

/// The words of a call, with the values of `@` and `effect`.
fn words(command: &str, call: &str, key: &str) -> Vec<Vec<u8>> {
    let quota = Quota::parse(Algorithm::FixedWindow, b"10", b"1d").expect("a quota");
    let effect = EffectBytes::take(&quota, 3, 1_790_000_000_000_000);
    let word = |word: &str| match word {
        "@" => key.as_bytes().to_vec(),
        "effect" => effect.as_ref().to_vec(),
        _ => word.as_bytes().to_vec(),
    };
    format!("{command} {call}").split(' ').map(word).collect()
}

#[test]
fn no_command_accesses_keys_without_permission() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET app:policy FIXEDWINDOW 10 3650d");
    client.get::<()>("RL.CHECK app:policy other:policy");
    client.limit("RL.FIXEDWINDOW other:1 2 3650d COST 2");
    client.limit("RL.FIXEDWINDOW other:1 2 3650d");
    client.limit("RL.TOKENBUCKET other:bucket 10 1/d COST 7");
    let others = ["other:1", "other:bucket", "other:policy", "other:none"];
    let before = all_digests(&mut client);

    let calls = calls_with_key();
    let known: BTreeSet<String> = calls.keys().map(|name| (*name).to_owned()).collect();
    let commands = commands(&mut client);
    assert!(commands.is_subset(&known), "no calls of {:?}", commands.difference(&known));
    for (rules, reads) in [("~app:*", false), ("~app:* %R~other:*", true), ("~app:* %W~other:*", false), ("", false)] {
        let mut restricted = user(&server, "restricted", &format!("reset on nopass {rules} +@all"));
        for (command, calls) in &calls {
            for (call, key) in calls.iter().flat_map(|call| others.iter().map(move |key| (call, key))) {
                let words = words(command, call, key);
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let shown = format!("{command} {call} on {key} with {rules:?}");
                if reads && ["RL.PEEK", "RL.INFO"].contains(command) {
                    assert!(restricted.call_bytes(&words).is_ok(), "{shown}");
                    continue;
                }
                let error = restricted.error_of(&words);
                assert!(error.starts_with("NOPERM"), "{shown}: {error}");
                // The same from a script with undeclared keys.
                let script = b"return redis.call(unpack(ARGV))".as_slice();
                let by_script = [&[b"EVAL".as_slice(), script, b"0"], &words[..]].concat();
                let error = restricted.error_of(&by_script);
                let denied = error.contains("permission") || error.contains("can't access at least one of the keys");
                assert!(denied, "{shown}: {error}");
            }
        }
        // A key that the key specification does not find is not used either.
        for call in ["1 FIXEDWINDOW app:1 10 1d FIXEDWINDOW other:1 10 1d", "01 FIXEDWINDOW other:1 10 1d"] {
            restricted.error(&format!("RL.ALL {call}"));
        }
        let top = format!("{:?}", restricted.get::<Value>("RL.TOP"));
        assert_eq!(top.contains("other:"), reads, "{rules:?}: {top}");
        assert!(!format!("{:?}", restricted.get::<Value>("RL.STATS")).contains("other:"));
        assert!(!restricted.get::<String>("INFO ratelimit").contains("other:"));
        assert_eq!(all_digests(&mut client), before, "{rules:?}");
    }
}
