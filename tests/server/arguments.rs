//! Bad requests get a helpful error and change nothing. And the information that servers have about the commands.

use std::collections::HashMap;

use redis::Value;

use crate::common::Server;

const BUCKETS: [&str; 2] = ["RL.TOKENBUCKET", "RL.LEAKYBUCKET"];
const WINDOWS: [&str; 3] = ["RL.FIXEDWINDOW", "RL.SLIDINGLOG", "RL.SLIDINGCOUNTER"];

#[test]
fn errors_name_the_argument_its_value_and_what_is_expected() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let amount = "expected an integer from 1 to 9007199254740991";
    for command in BUCKETS {
        for bad in ["0", "-1", "abc", "1.5", "9007199254740992", "99999999999999999999"] {
            let error = client.error(&format!("{command} k {bad} 1"));
            assert_eq!(error, format!("ERR invalid capacity '{bad}': {amount}"));
        }
        for bad in ["0", "-1", "abc", "1e3", "3/", "3/5x", "1/11y", "1/3651d", "1000000001"] {
            let error = client.error(&format!("{command} k 1 {bad}"));
            assert_eq!(
                error,
                format!(
                    "ERR invalid rate '{bad}': expected tokens per second such as 10 or 0.6, in up to 18 digits, or a \
                     count per period such as 3/5s or 100/m (units: us, ms, s, m, h, d, w), from 1 per 10 years to \
                     1000000000 per second"
                )
            );
        }
        assert_eq!(
            client.error(&format!("{command} k 36501 1/d")),
            "ERR invalid rate '1/d': a bucket of 36501 would take longer than 100 years to fill"
        );
    }
    for command in WINDOWS {
        for bad in ["0", "-1", "abc", "1.5", "9007199254740992"] {
            let error = client.error(&format!("{command} k {bad} 1"));
            assert_eq!(error, format!("ERR invalid limit '{bad}': {amount}"));
        }
        for bad in ["0", "-1", "abc", "999us", "3651d", "1y"] {
            let error = client.error(&format!("{command} k 1 {bad}"));
            assert_eq!(
                error,
                format!(
                    "ERR invalid window '{bad}': expected seconds such as 60 or 0.5, or a number with a unit (us, ms, \
                     s, m, h, d, w) such as 500ms or 1d, in whole microseconds from 1ms to 10 years"
                )
            );
        }
    }
    for command in BUCKETS.iter().chain(&WINDOWS) {
        for bad in ["0", "-1", "abc", "1.5", "9007199254740992"] {
            let error = client.error(&format!("{command} k 10 10 COST {bad}"));
            assert_eq!(error, format!("ERR invalid COST '{bad}': {amount}"));
        }
        let option = "expected COST n or FORCE";
        assert_eq!(client.error(&format!("{command} k 10 10 3")), format!("ERR unknown option '3': {option}"));
        assert_eq!(
            client.error(&format!("{command} k 10 10 FORCED")),
            format!("ERR unknown option 'FORCED': {option}")
        );
        assert_eq!(
            client.error(&format!("{command} k 10 10 COST")),
            "ERR COST requires a value: an integer from 1 to 9007199254740991"
        );
        assert_eq!(client.error(&format!("{command} k 10 10 COST 1 cost 1")), "ERR duplicate option COST");
        assert_eq!(client.error(&format!("{command} k 10 10 FORCE COST 1 force")), "ERR duplicate option FORCE");
        let arity = client.error(&format!("{command} k 10")).to_uppercase();
        assert_eq!(arity, format!("ERR WRONG NUMBER OF ARGUMENTS FOR '{command}' COMMAND"));
        client.error(command);
    }
    assert_eq!(client.get::<i64>("DBSIZE"), 0, "errors create no keys");
}

#[test]
fn options_come_in_any_order_and_case() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for command in BUCKETS.iter().chain(&WINDOWS) {
        let mut remaining = 100;
        let pace = if command.ends_with("BUCKET") { "1/h" } else { "10w" };
        for options in ["COST 3 FORCE", "FORCE COST 3", "cost 3", "CoSt 3 fOrCe", "force cost 3"] {
            remaining -= 3;
            let reply = client.limit(&format!("{} {command} 100 {pace} {options}", command.to_lowercase()));
            assert_eq!(reply[..3], [1, 100, remaining], "{command} {options}");
        }
    }
}

#[test]
fn the_reply_is_the_same_in_both_protocols() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for protocol in ["2", "3"] {
        client.get::<Value>(&format!("HELLO {protocol}"));
        let integers = |values: &[i64]| Value::Array(values.iter().map(|value| Value::Int(*value)).collect());
        let bucket = client.call(&format!("RL.TOKENBUCKET bucket{protocol} 10 1 COST 11")).expect("a reply");
        assert_eq!(bucket, integers(&[0, 10, 10, -1, 0]));
        let queue = client.call(&format!("RL.LEAKYBUCKET queue{protocol} 10 1 COST 11")).expect("a reply");
        assert_eq!(queue, integers(&[0, 10, 10, -1, 0, 0]));
    }
}

#[test]
fn keys_may_be_any_bytes_and_errors_escape_them() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let key = b"\0\r\n\xff key";
    assert!(client.call_bytes(&[b"RL.TOKENBUCKET", key, b"10", b"1"]).is_ok());
    assert!(client.call_bytes(&[b"RL.TOKENBUCKET", b"", b"10", b"1"]).is_ok());
    assert_eq!(client.get::<i64>("DBSIZE"), 2);
    let error = client.error_of(&[b"RL.TOKENBUCKET", key, b"1\0\r\n\xff", b"1"]);
    assert!(error.starts_with(r"ERR invalid capacity '1\x00\r\n\xff': expected"), "{error}");
    let error = client.error_of(&[b"RL.TOKENBUCKET", key, b"1", &b"9".repeat(1_000_000)]);
    assert!(error.len() < 400 && error.contains("99...'"), "{error}");
}

#[test]
fn keys_of_other_types_are_left_alone() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("SET string 1");
    client.get::<()>("RPUSH list 1");
    for command in BUCKETS.iter().chain(&WINDOWS) {
        for key in ["string", "list"] {
            for options in ["", "FORCE"] {
                assert_eq!(
                    client.error(&format!("{command} {key} 10 10 {options}")),
                    "WRONGTYPE Operation against a key holding the wrong kind of value"
                );
            }
        }
        for other in BUCKETS.iter().chain(&WINDOWS).filter(|other| other != &command) {
            client.get::<()>("DEL limiter");
            client.limit(&format!("{command} limiter 10 10"));
            let before = client.digest("limiter");
            assert_eq!(
                client.error(&format!("{other} limiter 10 10 FORCE")),
                format!(
                    "WRONGTYPE key holds a {} limiter, not {}; delete the key to start over",
                    &command[3..],
                    &other[3..]
                )
            );
            assert_eq!(client.digest("limiter"), before);
        }
    }
    assert_eq!(client.get::<String>("GET string"), "1");
    assert!(client.error("GET limiter").starts_with("WRONGTYPE"));
    // A plain write replaces the key, as it does for every type.
    client.get::<()>("SET limiter 1");
    assert_eq!(client.get::<String>("TYPE limiter"), "string");
}

#[test]
fn a_full_server_replies_with_oom() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.limit("RL.FIXEDWINDOW known 10 1d");
    client.get::<()>("CONFIG SET maxmemory 1");
    let before = client.digest("known");
    assert!(client.error("RL.FIXEDWINDOW known 10 1d").starts_with("OOM"));
    assert!(client.error("RL.FIXEDWINDOW new 10 1d").starts_with("OOM"));
    client.get::<()>("CONFIG SET maxmemory 0");
    assert_eq!(client.digest("known"), before);
    assert_eq!(client.get::<i64>("EXISTS new"), 0);
}

#[test]
fn command_info_and_docs_describe_the_commands() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for command in BUCKETS.iter().chain(&WINDOWS) {
        let keys: Vec<String> = client.get(&format!("COMMAND GETKEYS {command} the:key 10 10 COST 3"));
        assert_eq!(keys, ["the:key"]);

        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {command}"));
        assert_eq!(info[0][1], Value::Int(-4), "arity");
        let flags = format!("{:?}", info[0][2]);
        assert!(["write", "denyoom", "fast"].iter().all(|flag| flags.contains(flag)), "{flags}");
        assert!(!flags.contains("admin"), "{flags}");
        assert_eq!(info[0][3..6], [Value::Int(1), Value::Int(1), Value::Int(1)], "first, last key and step");

        let docs: HashMap<String, HashMap<String, Value>> = client.get(&format!("COMMAND DOCS {command}"));
        let docs = &docs.iter().find(|(name, _)| name.eq_ignore_ascii_case(command)).expect("documented").1;
        assert!(docs.contains_key("summary") && docs.contains_key("complexity") && docs.contains_key("since"));
        let arguments = format!("{:?}", docs["arguments"]);
        let names = if command.ends_with("BUCKET") { ["capacity", "rate"] } else { ["limit", "window"] };
        for name in names.iter().chain(&["key", "cost", "COST", "force", "FORCE", "pure-token", "optional"]) {
            assert!(arguments.contains(&format!("{name:?}")), "{command}: {name} in {arguments}");
        }
    }
    for (command, expected) in [
        ("CL.THROTTLE", &["write", "denyoom", "fast"][..]),
        ("RL.STATS", &["loading", "stale"]),
        ("RL.TOP", &["loading", "stale", "noscript"]),
    ] {
        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {command}"));
        let flags = format!("{:?}", info[0][2]);
        assert!(expected.iter().all(|flag| flags.contains(flag)), "{command}: {flags}");
        let others = ["write", "denyoom", "fast", "admin", "loading", "noscript"];
        let others = others.iter().filter(|flag| !expected.contains(flag));
        assert!(others.clone().all(|flag| !flags.contains(flag)), "{command}: {flags}");
    }
    assert_eq!(client.get::<Vec<String>>("COMMAND GETKEYS CL.THROTTLE the:key 15 30 60 1"), ["the:key"]);
    let apply: Vec<Vec<Value>> = client.get("COMMAND INFO RL.APPLY");
    let flags = format!("{:?}", apply[0][2]);
    assert!(flags.contains("admin") && flags.contains("write"), "{flags}");
    assert!(!flags.contains("denyoom"), "a full replica must still follow: {flags}");
    assert_eq!(client.get::<Vec<String>>("COMMAND GETKEYS RL.APPLY key effect"), ["key"]);
    assert_eq!(client.get::<Vec<String>>("COMMAND GETKEYS RL.APPLY a effect b effect"), ["a", "b"]);
}

#[test]
fn command_docs_describe_every_command() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let algorithms = ["TOKENBUCKET", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGLOG", "SLIDINGCOUNTER"];
    for (command, arity, names) in [
        ("RL.ALL", -6, &["numlimits", "limit", "algorithm", "key", "a", "b", "cost", "multiple"][..]),
        ("RL.CHECK", -3, &["policy", "key", "cost", "COST", "force", "FORCE"]),
        ("RL.PEEK", -2, &["key", "cost"]),
        ("RL.REFUND", 3, &["key", "n"]),
        ("RL.INFO", 2, &["key"]),
        ("RL.STATS", -1, &["reset", "RESET", "optional"]),
        ("RL.TOP", -1, &["count", "optional"]),
        ("CL.THROTTLE", -5, &["key", "max_burst", "count", "period", "quantity", "optional"]),
        ("RL.POLICY|SET", -6, &["name", "limit", "algorithm", "a", "b", "multiple"]),
        ("RL.POLICY|GET", 3, &["name"]),
        ("RL.POLICY|DEL", 3, &["name"]),
        ("RL.POLICY|LIST", 2, &[]),
        ("RL.POLICY|LOAD", 2, &[]),
        ("RL.POLICY|SAVE", 2, &[]),
        ("RL.POLICY|HELP", 2, &[]),
        ("RL.APPLY", -3, &["key", "effect", "multiple"]),
    ] {
        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {command}"));
        assert_eq!(info[0][1], Value::Int(arity), "{command}");
        let docs: HashMap<String, HashMap<String, Value>> = client.get(&format!("COMMAND DOCS {command}"));
        let docs = &docs.iter().find(|(name, _)| name.eq_ignore_ascii_case(command)).expect("documented").1;
        assert!(["summary", "complexity", "since"].iter().all(|field| docs.contains_key(*field)), "{command}");
        let arguments = docs.get("arguments").map_or(String::new(), |arguments| format!("{arguments:?}"));
        for name in names {
            assert!(arguments.contains(&format!("{name:?}")), "{command}: {name} in {arguments}");
        }
        if names.contains(&"algorithm") {
            assert!(algorithms.iter().all(|name| arguments.contains(&format!("{name:?}"))), "{command}: {arguments}");
        }
    }
}

#[test]
fn acl_key_patterns_apply() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("ACL SETUSER app on nopass ~app:* +rl.fixedwindow");
    client.get::<()>("ACL SETUSER reader on nopass %R~app:* +rl.fixedwindow");
    client.limit("RL.FIXEDWINDOW other 10 1d");
    let before = client.digest("other");
    let mut app = server.connect();
    app.get::<()>("AUTH app x");
    assert_eq!(app.limit("RL.FIXEDWINDOW app:1 10 1d")[0], 1);
    assert!(app.error("RL.FIXEDWINDOW other 10 1d").starts_with("NOPERM"));
    assert!(app.error("RL.TOKENBUCKET app:1 10 1").starts_with("NOPERM"));
    assert!(app.error("RL.APPLY app:1 x").starts_with("NOPERM"));
    app.get::<()>("AUTH reader x");
    assert!(app.error("RL.FIXEDWINDOW app:1 10 1d").starts_with("NOPERM"), "it writes, so reading is not enough");
    assert_eq!(client.digest("other"), before);
}

#[test]
fn the_commands_are_in_their_acl_categories() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    // Some servers also have the module's category for applications.
    let has_own = client.get::<Vec<String>>("ACL CAT").contains(&"ratelimit".to_owned());
    let mut categories = |command: &str| {
        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {command}"));
        let mut names: Vec<String> = redis::from_redis_value(info[0][6].clone()).expect("names");
        names.sort();
        names
    };
    if categories("RL.APPLY").is_empty() {
        assert!(client.info("redis_version").starts_with("7.0"), "only Redis 7.0 has no categories for modules");
        return;
    }
    for command in ["RL.APPLY", "RL.POLICY|SET", "RL.POLICY|DEL"] {
        assert_eq!(categories(command), ["@admin", "@dangerous", "@write"], "{command}");
    }
    for command in ["RL.POLICY", "RL.POLICY|GET", "RL.POLICY|LIST", "RL.POLICY|LOAD", "RL.POLICY|SAVE"] {
        assert_eq!(categories(command), ["@admin", "@dangerous"], "{command}");
    }
    let own = |categories: &[&str]| {
        let mut categories: Vec<String> = categories.iter().map(|it| (*it).to_owned()).collect();
        categories.extend(has_own.then(|| "@ratelimit".to_owned()));
        categories.sort();
        categories
    };
    for command in ["RL.PEEK", "RL.INFO"] {
        assert_eq!(categories(command), own(&["@fast", "@read"]), "{command}");
    }
    assert_eq!(categories("RL.POLICY|HELP"), ["@slow"]);
    for command in ["RL.STATS", "RL.TOP"] {
        assert_eq!(categories(command), own(&["@slow"]), "{command}");
    }
    for command in BUCKETS.iter().chain(&WINDOWS).chain(&["RL.ALL", "RL.CHECK", "RL.REFUND", "CL.THROTTLE"]) {
        assert_eq!(categories(command), own(&["@fast", "@write"]), "{command}");
    }
}

#[test]
fn an_unknown_module_argument_is_rejected() {
    // The test server passes the argument to the module.
    let log = Server::refuses_to_start(&["nonsense"], &[]);
    assert!(log.contains("redis-ratelimit cannot be loaded: unknown argument 'nonsense'"), "{log}");
}
