//! `RL.CHECK`: all limits of a named policy, in one key.

use crate::common::multi::{ask, remaining, reply, set, SLOW};
use crate::common::traffic::all_digests;
use crate::common::Server;

#[test]
fn each_limit_has_its_reply_and_the_wait_is_the_longest() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    set(&mut client, "api", "SLIDINGLOG 2 1s FIXEDWINDOW 4 1m");
    let request = "RL.CHECK api key";
    assert_eq!(ask(&mut client, request), reply("1 0; 1 2 1 0 1000; 1 4 3 0 60000"));
    server.clock().advance_ms(300);
    assert_eq!(ask(&mut client, request), reply("1 0; 1 2 0 0 1000; 1 4 2 0 59700"));
    let before = client.digest("key");
    assert_eq!(ask(&mut client, request), reply("0 700; 0 2 0 700 1000; 1 4 2 0 59700"));
    server.clock().advance_ms(699);
    assert_eq!(ask(&mut client, request), reply("0 1; 0 2 0 1 301; 1 4 2 0 59001"));
    assert_eq!(client.digest("key"), before, "a denied request takes nothing");
    server.clock().advance_ms(1);
    assert_eq!(ask(&mut client, request), reply("1 0; 1 2 0 0 1000; 1 4 1 0 59000"));
    let before = client.digest("key");
    let both = reply("0 59000; 0 2 0 1000 1000; 0 4 1 59000 59000");
    assert_eq!(ask(&mut client, "RL.CHECK api key COST 2"), both);
    let never = reply("0 -1; 0 2 0 -1 1000; 0 4 1 59000 59000");
    assert_eq!(ask(&mut client, "RL.CHECK api key COST 3"), never);
    assert_eq!(client.digest("key"), before, "a denied request takes nothing");
    // A forced request is denied, and all limits count it.
    let forced = reply("0 59000; 0 2 0 1000 1000; 0 4 0 59000 59000");
    assert_eq!(ask(&mut client, "RL.CHECK api key force cost 2"), forced);
    server.clock().advance_ms(1_000);
    assert_eq!(ask(&mut client, request), reply("0 58000; 1 2 2 0 0; 0 4 0 58000 58000"));
    server.clock().advance_ms(58_000);
    let fresh = reply("1 0; 1 2 0 0 1000; 1 4 2 0 60000");
    assert_eq!(ask(&mut client, "RL.CHECK api key COST 2"), fresh);
}

#[test]
fn after_force_the_wait_is_the_longest_of_all_limits() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    set(&mut client, "api", "SLIDINGLOG 1 1s SLIDINGLOG 2 1h");
    assert_eq!(ask(&mut client, "RL.CHECK api key"), reply("1 0; 1 1 0 0 1000; 1 2 1 0 3600000"));
    // The second limit allows the request, which uses it up.
    let forced = reply("0 3600000; 0 1 0 1000 1000; 1 2 0 0 3600000");
    assert_eq!(ask(&mut client, "RL.CHECK api key FORCE"), forced);
    server.clock().advance_ms(3_599_999);
    assert_eq!(ask(&mut client, "RL.CHECK api key").0, 0);
    server.clock().advance_ms(1);
    assert_eq!(ask(&mut client, "RL.CHECK api key").0, 1);
}

#[test]
fn a_policy_may_have_limits_of_every_algorithm() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let limits = "TOKENBUCKET 10 1 LEAKYBUCKET 10 1 FIXEDWINDOW 10 20 SLIDINGLOG 10 20 SLIDINGCOUNTER 10 20";
    set(&mut client, "all", limits);
    let first = "1 0; 1 10 6 0 4000; 1 10 6 0 4000 0; 1 10 6 0 20000; 1 10 6 0 20000; 1 10 6 0 35001";
    assert_eq!(ask(&mut client, "RL.CHECK all key COST 4"), reply(first));
    server.clock().advance_ms(2_000);
    let second = "1 0; 1 10 3 0 7000; 1 10 3 0 7000 2000; 1 10 1 0 18000; 1 10 1 0 20000; 1 10 1 0 35778";
    assert_eq!(ask(&mut client, "RL.CHECK all key COST 5"), reply(second));
    let before = client.digest("key");
    let denied = "0 18001; 1 10 3 0 7000; 1 10 3 0 7000 0; 0 10 1 18000 18000; 0 10 1 18000 20000; 0 10 1 18001 35778";
    assert_eq!(ask(&mut client, "RL.CHECK all key COST 2"), reply(denied));
    assert_eq!(client.digest("key"), before);
    let forced = "0 21637; 1 10 1 0 9000; 1 10 1 0 9000 0; 0 10 0 18000 18000; 0 10 0 18000 20000; 0 10 0 21637 36182";
    assert_eq!(ask(&mut client, "RL.CHECK all key COST 2 FORCE"), reply(forced));
    server.clock().advance_ms(21_636);
    assert_eq!(ask(&mut client, "RL.CHECK all key COST 2").1, 1);
    server.clock().advance_ms(1);
    assert_eq!(ask(&mut client, "RL.CHECK all key COST 2").0, 1);
}

#[test]
fn the_error_for_an_unknown_policy_names_the_known_ones() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let unknown = "ERR unknown policy 'api',";
    let none = format!("{unknown} no policies are defined, create one with RL.POLICY SET");
    assert_eq!(client.error("RL.CHECK api key"), none);
    let names: Vec<_> = (1..=25).map(|number| format!("p{number:02}")).collect();
    for (index, name) in names.iter().enumerate() {
        set(&mut client, name, "FIXEDWINDOW 10 1d");
        let known = names[..=index.min(19)].join(", ");
        let more = if index < 20 { String::new() } else { format!(" and {} more", index - 19) };
        assert_eq!(client.error("RL.CHECK api key FORCE"), format!("{unknown} known policies: {known}{more}"));
    }
    assert!(client.error("RL.CHECK P01 key").starts_with("ERR unknown policy 'P01', known policies:"), "case matters");
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
}

#[test]
fn after_a_change_of_the_policy_limits_in_the_same_position_keep_their_state() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    let old = "SLIDINGLOG 10 1h FIXEDWINDOW 10 1h";
    // The remaining quota of each limit after a cost of three with the old policy, and of one with the new policy.
    let cases: [(&str, &str, &[i64]); 8] = [
        ("other numbers", "SLIDINGLOG 20 2h FIXEDWINDOW 8 1h", &[16, 4]),
        ("lengthened", "SLIDINGLOG 10 1h FIXEDWINDOW 10 1h TOKENBUCKET 10 1/h SLIDINGLOG 10 1m", &[6, 6, 9, 9]),
        ("lengthened in front", "TOKENBUCKET 10 1/h SLIDINGLOG 10 1h FIXEDWINDOW 10 1h", &[9, 9, 9]),
        ("lengthened between", "SLIDINGLOG 10 1h SLIDINGCOUNTER 10 1h FIXEDWINDOW 10 1h", &[6, 9, 9]),
        ("shortened", "SLIDINGLOG 10 1h", &[6]),
        ("shortened in front", "FIXEDWINDOW 10 1h", &[9]),
        ("reordered", "FIXEDWINDOW 10 1h SLIDINGLOG 10 1h", &[9, 9]),
        ("one replaced", "LEAKYBUCKET 10 1/h FIXEDWINDOW 10 1h", &[9, 6]),
    ];
    for (change, new, expected) in cases {
        client.get::<()>("FLUSHALL");
        set(&mut client, "api", old);
        assert_eq!(remaining(&ask(&mut client, "RL.CHECK api key COST 3")), [7, 7]);
        let before = client.digest("key");
        set(&mut client, "api", new);
        // A denied request stores nothing, whether a limit denies it for now or for ever.
        let kept = expected.iter().any(|remaining| *remaining < 9);
        for cost in if kept { &[8, 100][..] } else { &[100] } {
            let denied = ask(&mut client, &format!("RL.CHECK api key COST {cost}"));
            assert_eq!((denied.0, denied.2.len()), (0, expected.len()), "{change}: {denied:?}");
            assert_eq!(
                remaining(&denied),
                expected.iter().map(|remaining| remaining + 1).collect::<Vec<_>>(),
                "{change}"
            );
            assert_eq!(client.digest("key"), before, "{change}");
        }
        set(&mut client, "api", old);
        assert_eq!(remaining(&ask(&mut client, "RL.CHECK api key COST 8")), [7, 7], "{change} and taken back");
        set(&mut client, "api", new);
        let taken = ask(&mut client, "RL.CHECK api key");
        assert_eq!((taken.0, &remaining(&taken)[..]), (1, expected), "{change}");
        // FORCE applies the change too.
        assert_eq!(ask(&mut client, "RL.CHECK api key COST 100 FORCE").0, 0);
        assert!(remaining(&ask(&mut client, "RL.CHECK api key")).iter().all(|remaining| *remaining == 0), "{change}");
    }
    // The first request that takes something drops limits that the policy no longer has.
    client.get::<()>("FLUSHALL");
    for (limits, expected) in [(old, &[7, 7][..]), ("SLIDINGLOG 10 1h", &[4]), (old, &[1, 7])] {
        set(&mut client, "api", limits);
        assert_eq!(remaining(&ask(&mut client, "RL.CHECK api key COST 3 FORCE")), expected);
    }
}

#[test]
fn another_policy_on_the_same_key_keeps_what_is_used() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    set(&mut client, "free", "TOKENBUCKET 10 10/h SLIDINGLOG 50 1d");
    set(&mut client, "pro", "TOKENBUCKET 100 100/h SLIDINGLOG 500 1d");
    assert_eq!(remaining(&ask(&mut client, "RL.CHECK free user:1 COST 10")), [0, 40]);
    assert_eq!(ask(&mut client, "RL.CHECK free user:1").0, 0);
    let upgraded = ask(&mut client, "RL.CHECK pro user:1 COST 50");
    assert_eq!((upgraded.0, remaining(&upgraded)), (1, vec![40, 440]));
    let downgraded = ask(&mut client, "RL.CHECK free user:1");
    assert_eq!((downgraded.0, remaining(&downgraded)), (0, vec![0, 0]));
    assert_eq!(remaining(&ask(&mut client, "RL.CHECK pro user:1")), [39, 439], "a denial does not downgrade");
}

#[test]
fn keys_of_limiters_and_of_policies_have_different_types() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    set(&mut client, "api", "SLIDINGLOG 10 1d FIXEDWINDOW 10 3650d");
    set(&mut client, "one", "FIXEDWINDOW 10 3650d");
    client.get::<()>("SET string 1");
    ask(&mut client, "RL.CHECK api both");
    ask(&mut client, "RL.CHECK one single");
    for (algorithm, pace) in SLOW {
        client.limit(&format!("RL.{algorithm} {algorithm} 10 {pace}"));
    }
    let before = all_digests(&mut client);
    for (algorithm, pace) in SLOW {
        for options in ["", "FORCE", "COST 100"] {
            assert_eq!(
                client.error(&format!("RL.CHECK one {algorithm} {options}")),
                format!(
                    "WRONGTYPE key holds a {algorithm} limiter, not the limits of a policy; delete the key to start over"
                )
            );
            for (key, limits) in [("both", "SLIDINGLOG, FIXEDWINDOW"), ("single", "FIXEDWINDOW")] {
                assert_eq!(
                    client.error(&format!("RL.{algorithm} {key} 10 {pace} {options}")),
                    format!(
                        "WRONGTYPE key holds the limits of a policy ({limits}), not {algorithm}; delete the key to \
                         start over"
                    )
                );
            }
        }
    }
    let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(client.error("RL.CHECK api string"), wrong_type);
    assert_eq!(client.error("RL.CHECK api key NOW"), "ERR unknown option 'NOW': expected COST n or FORCE");
    let amount = "expected an integer from 1 to 9007199254740991";
    assert_eq!(client.error("RL.CHECK api key COST 0"), format!("ERR invalid COST '0': {amount}"));
    assert_eq!(client.error("RL.CHECK api key FORCE FORCE"), "ERR duplicate option FORCE");
    let arity = client.error("RL.CHECK api").to_uppercase();
    assert_eq!(arity, "ERR WRONG NUMBER OF ARGUMENTS FOR 'RL.CHECK' COMMAND");
    client.get::<()>("CONFIG SET maxmemory 1");
    assert!(["both", "new"].iter().all(|key| client.error(&format!("RL.CHECK api {key}")).starts_with("OOM")));
    client.get::<()>("CONFIG SET maxmemory 0");
    assert_eq!(all_digests(&mut client), before);
}

#[test]
fn a_key_expires_when_its_last_limit_has_reset() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    set(&mut client, "long", "TOKENBUCKET 10 1/m LEAKYBUCKET 10 1 SLIDINGLOG 20 5m");
    set(&mut client, "short", "TOKENBUCKET 20 1 FIXEDWINDOW 50 10s SLIDINGCOUNTER 50 10s");
    for (step, options) in (0..300_u64).zip(["", "COST 3", "", "FORCE"].iter().cycle()) {
        server.clock().advance_ms(step * 104_729 % 40_000);
        let policy = if step % 50 < 40 { "long" } else { "short" };
        let (allowed, _, each) = ask(&mut client, &format!("RL.CHECK {policy} key {options}"));
        if allowed == 1 || *options == "FORCE" {
            let reset = each.iter().map(|reply| reply[4]).max().expect("a limit");
            let ttl: i64 = client.get("PTTL key");
            assert!((reset..=reset + 1_000).contains(&ttl), "{policy}: reset in {reset}, expires in {ttl}");
        }
    }
    let ttl: u64 = client.get("PTTL key");
    server.clock().advance_ms(ttl - 1);
    assert_eq!(client.get::<i64>("EXISTS key"), 1);
    server.clock().advance_ms(2);
    assert_eq!(client.get::<i64>("EXISTS key"), 0);
}

#[test]
fn generic_commands_work() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let limits = "TOKENBUCKET 10 1/h LEAKYBUCKET 10 1/h FIXEDWINDOW 10 1h SLIDINGLOG 10 1h SLIDINGCOUNTER 10 1h";
    set(&mut client, "all", limits);
    for _ in 0..3 {
        server.clock().advance_ms(100);
        ask(&mut client, "RL.CHECK all key");
    }
    let original = client.digest("key");
    assert_eq!(client.get::<String>("TYPE key"), "ratelimit");
    assert_eq!(client.get::<String>("OBJECT ENCODING key"), "raw");
    // Five limiters of 32 bytes each, at least.
    assert!(client.get::<i64>("MEMORY USAGE key") > 5 * 32);
    assert_eq!(client.get::<(String, Vec<String>)>("SCAN 0 TYPE ratelimit COUNT 1000").1, ["key"]);
    client.get::<()>("RENAME key renamed");
    assert_eq!(client.digest("renamed"), original);
    assert_eq!(client.get::<i64>("COPY renamed key"), 1);
    assert_eq!(client.digest("key"), original);
    let dump: Vec<u8> = client.get("DUMP key");
    let expires = original.1.to_string();
    client.call_bytes(&[b"RESTORE", b"restored", expires.as_bytes(), &dump, b"ABSTTL"]).expect("restored");
    assert_eq!(client.digest("restored"), original);
    // The copies are independent, and have the same state.
    let fourth = ask(&mut client, "RL.CHECK all key");
    assert_eq!((fourth.0, remaining(&fourth)), (1, vec![6; 5]));
    for copy in ["renamed", "restored"] {
        assert_eq!(client.digest(copy), original);
        assert_eq!(ask(&mut client, &format!("RL.CHECK all {copy}")), fourth);
        assert_eq!(client.digest(copy), client.digest("key"));
    }
}

#[test]
fn a_denied_request_changes_nothing_at_all() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    set(&mut client, "api", "SLIDINGLOG 5 1d FIXEDWINDOW 10 3650d");
    // First the key is new, then it exists.
    for (options, takes) in [("COST 6", false), ("COST 5", true), ("", false), ("FORCE", true), ("COST 20", false)] {
        client.get::<()>("WATCH key");
        let before = (client.info("rdb_changes_since_last_save"), all_digests(&mut client));
        ask(&mut other, &format!("RL.CHECK api key {options}"));
        let after = (client.info("rdb_changes_since_last_save"), all_digests(&mut client));
        assert_eq!((before.0 != after.0, before.1 != after.1), (takes, takes), "{options}");
        client.get::<()>("MULTI");
        client.get::<()>("PING");
        assert_eq!(client.get::<Option<Vec<String>>>("EXEC").is_none(), takes, "{options}");
    }
}

#[test]
fn keys_outlive_their_policy() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let limits = "SLIDINGLOG 10 1d FIXEDWINDOW 10 3650d";
    set(&mut client, "api", limits);
    ask(&mut client, "RL.CHECK api key COST 4");
    let before = client.digest("key");
    assert_eq!(client.get::<i64>("RL.POLICY DEL api"), 1);
    for options in ["", "FORCE"] {
        assert!(client.error(&format!("RL.CHECK api key {options}")).starts_with("ERR unknown policy 'api'"));
    }
    assert_eq!(client.digest("key"), before);
    set(&mut client, "api", limits);
    assert_eq!(remaining(&ask(&mut client, "RL.CHECK api key")), [5, 5]);
}

#[test]
fn the_key_is_the_second_argument() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for policy in ["app:1", "other"] {
        set(&mut client, policy, "FIXEDWINDOW 10 3650d");
    }
    assert_eq!(client.get::<Vec<String>>("COMMAND GETKEYS RL.CHECK policy key COST 3 FORCE"), ["key"]);
    client.get::<()>("ACL SETUSER app on nopass ~app:* +rl.check");
    client.get::<()>("ACL SETUSER reader on nopass %R~app:* +rl.check");
    let mut app = server.connect();
    app.get::<()>("AUTH reader x");
    assert!(app.error("RL.CHECK other app:1").starts_with("NOPERM"), "read permission is not enough for a write");
    app.get::<()>("AUTH app x");
    assert!(app.error("RL.CHECK app:1 other").starts_with("NOPERM"));
    assert!(app.error("RL.POLICY SET app:1 FIXEDWINDOW 1 1").starts_with("NOPERM"));
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
    assert_eq!(ask(&mut app, "RL.CHECK other app:1").0, 1);
    assert_eq!(client.get::<Vec<String>>("KEYS *"), ["app:1"]);
}
