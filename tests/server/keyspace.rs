//! Limiters are keys like any other: they expire, and can be renamed, copied, dumped, scanned, measured, watched,
//! cached.

use crate::common::{eventually, Client, Server};

const FIVE: [&str; 5] = ["RL.TOKENBUCKET", "RL.LEAKYBUCKET", "RL.FIXEDWINDOW", "RL.SLIDINGLOG", "RL.SLIDINGCOUNTER"];

/// A request on a key named after its command that allows ten in ten seconds.
fn request(command: &str) -> String {
    let pace = if command.ends_with("BUCKET") { "1" } else { "10" };
    format!("{command} {command} 10 {pace}")
}

#[test]
fn a_key_expires_soon_after_its_limit_has_reset() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        let request = request(command);
        for step in 0..200_u64 {
            server.clock().advance_us(step * 104_729 % 3_000_000);
            let reset = client.limit(&request)[4];
            let ttl: i64 = client.get(&format!("PTTL {command}"));
            assert!((reset..=2 * reset + 1_000).contains(&ttl), "{command}: reset in {reset}, expires in {ttl}");
        }
        // It exists until a millisecond before its expiry.
        let ttl: i64 = client.get(&format!("PTTL {command}"));
        server.clock().advance_ms(u64::try_from(ttl).expect("a time to live") - 1);
        assert_eq!(client.get::<i64>(&format!("EXISTS {command}")), 1, "{command}");
        server.clock().advance_ms(2);
        assert_eq!(client.get::<i64>(&format!("EXISTS {command}")), 0, "{command}");
    }
}

#[test]
fn idle_keys_expire() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for command in FIVE {
        client.limit(&format!("{command} {command} 10 {}", if command.ends_with("BUCKET") { "100" } else { "50ms" }));
    }
    eventually("all keys expire", || client.get::<i64>("DBSIZE") == 0);
    assert_eq!(client.info("expired_keys"), "5");
}

#[test]
fn the_expiry_is_not_updated_on_every_request() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        let pace = if command.ends_with("BUCKET") { "100" } else { "10" };
        let expiry = format!("PEXPIRETIME {command}");
        let mut updates = 0;
        let mut last = 0;
        for _ in 0..100 {
            assert_eq!(client.limit(&format!("{command} {command} 1000 {pace}"))[0], 1);
            let now: i64 = client.get(&expiry);
            updates += i64::from(now != last);
            last = now;
            server.clock().advance_ms(10);
        }
        assert!((1..=6).contains(&updates), "{command}: {updates} updates for 100 requests in a second");
    }
}

#[test]
fn the_next_request_restores_a_removed_expiry() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        client.limit(&request(command));
        assert_eq!(client.get::<i64>(&format!("PERSIST {command}")), 1);
        let reset = client.limit(&request(command))[4];
        let ttl: i64 = client.get(&format!("PTTL {command}"));
        assert!((reset..=2 * reset + 1_000).contains(&ttl), "{command}");
        client.get::<()>(&format!("EXPIRE {command} 100000"));
        let reset = client.limit(&request(command))[4];
        assert!(client.get::<i64>(&format!("PTTL {command}")) <= 2 * reset + 1_000, "{command}");
    }
}

#[test]
fn generic_commands_work() {
    let mut server = Server::with_clock(&["--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.connect();
    for command in FIVE {
        let key = command;
        for _ in 0..3 {
            server.clock().advance_ms(100);
            client.limit(&request(command));
        }
        assert_eq!(client.get::<String>(&format!("TYPE {key}")), "ratelimit");
        assert_eq!(client.get::<i64>(&format!("EXISTS {key}")), 1);
        assert_eq!(client.get::<i64>(&format!("TOUCH {key}")), 1);
        assert!(client.get::<i64>(&format!("TTL {key}")) > 0);
        assert!(client.get::<i64>(&format!("MEMORY USAGE {key}")) > 16);
        assert_eq!(client.get::<i64>(&format!("OBJECT REFCOUNT {key}")), 1);
        assert!(client.get::<i64>(&format!("OBJECT IDLETIME {key}")) >= 0);
        let (_, found): (String, Vec<String>) = client.get("SCAN 0 TYPE ratelimit COUNT 1000");
        assert!(found.contains(&key.to_owned()), "{found:?}");

        let original = client.digest(key);
        client.get::<()>(&format!("RENAME {key} renamed"));
        assert_eq!(client.digest("renamed"), original);
        assert_eq!(client.get::<i64>(&format!("COPY renamed {key}")), 1);
        assert_eq!(client.digest(key), original);
        assert_eq!(client.get::<i64>("MOVE renamed 1"), 1);
        client.get::<()>("SELECT 1");
        assert_eq!(client.digest("renamed"), original);
        assert_eq!(client.get::<i64>("UNLINK renamed"), 1);
        client.get::<()>("SELECT 0");

        // The copy is independent of the original.
        assert_eq!(client.get::<i64>(&format!("COPY {key} copy")), 1);
        let four = client.limit(&request(command).replace(&format!(" {key} "), " copy "));
        assert_eq!(client.digest(key), original);
        assert_eq!(client.limit(&request(command)), four, "both have the same state");
        assert_eq!(client.get::<i64>("DEL copy"), 1);

        let before = client.digest(key);
        let dump: Vec<u8> = client.get(&format!("DUMP {key}"));
        let expires = before.1.to_string();
        client.get::<()>(&format!("DEL {key}"));
        let restore = [b"RESTORE", key.as_bytes(), expires.as_bytes(), &dump, b"ABSTTL"];
        client.call_bytes(&restore).expect("restored");
        assert_eq!(client.digest(key), before);
        assert_eq!(client.get::<i64>(&format!("DEL {key}")), 1);
    }
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
}

#[test]
fn a_long_log_is_dumped_copied_and_freed_in_the_background() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.eval::<()>("for i = 1, 100000 do redis.call('RL.SLIDINGLOG', KEYS[1], 1000000, '1d') end", "log", &[]);
    let used: i64 = client.get("MEMORY USAGE log SAMPLES 0");
    assert!((100_000..800_000).contains(&used), "{used} bytes for 100,000 entries");
    let before = client.digest("log");
    let dump: Vec<u8> = client.get("DUMP log");
    let expires = before.1.to_string();
    client.call_bytes(&[b"RESTORE", b"restored", expires.as_bytes(), &dump, b"ABSTTL"]).expect("restored");
    client.get::<()>("COPY log copy");
    assert_eq!(client.digest("restored"), before);
    assert_eq!(client.digest("copy"), before);
    assert_eq!(client.limit("RL.SLIDINGLOG restored 1000000 1d")[2], 899_999);

    let freed = client.number("lazyfreed_objects");
    client.get::<()>("UNLINK log");
    client.get::<()>("CONFIG SET lazyfree-lazy-user-del yes");
    client.get::<()>("DEL copy");
    eventually("both are freed in another thread", || client.number("lazyfreed_objects") == freed + 2);
    client.limit("RL.TOKENBUCKET small 10 1");
    client.get::<()>("UNLINK small");
    assert_eq!(client.number("lazyfreed_objects"), freed + 2, "a small value is freed at once");
}

#[test]
fn transactions_and_scripts_work() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        client.get::<()>("MULTI");
        for _ in 0..2 {
            assert_eq!(client.get::<String>(&request(command)), "QUEUED");
        }
        let both: Vec<Vec<i64>> = client.get("EXEC");
        assert_eq!((both[0][2], both[1][2]), (9, 8), "{command}");

        let pace = if command.ends_with("BUCKET") { "1" } else { "10" };
        let script = "return redis.call(ARGV[1], KEYS[1], 10, ARGV[2])";
        let reply: Vec<i64> = client.eval(script, command, &[command, pace]);
        assert_eq!(reply[2], 7, "{command}");
        let error: String = client.eval("return redis.pcall(ARGV[1], KEYS[1], 0, 1)['err']", command, &[command]);
        assert!(error.contains("expected an integer"), "{error}");
    }
}

#[test]
fn functions_can_call_the_commands() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let library = b"#!lua name=limits\n\
        redis.register_function('limit', function(keys) return redis.call('RL.FIXEDWINDOW', keys[1], 10, '3650d') end)";
    client.call_bytes(&[b"FUNCTION", b"LOAD", library]).expect("loaded");
    assert_eq!(client.limit("FCALL limit 1 key")[2], 9);
    assert_eq!(client.limit("FCALL limit 1 key")[2], 8);
}

#[test]
fn a_denied_request_changes_nothing_at_all() {
    // Otherwise the server may write the file later, which would look like a change.
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::with_clock(&settings);
    let mut client = server.connect();
    let mut other = server.connect();
    for command in FIVE {
        let request = request(command);
        while client.limit(&request)[0] == 1 {}
        let watched = |client: &mut Client, other: &mut Client, request: &str| {
            client.get::<()>(&format!("WATCH {command}"));
            other.limit(request);
            client.get::<()>("MULTI");
            client.get::<()>("PING");
            client.get::<Option<Vec<String>>>("EXEC").is_some()
        };
        server.clock().advance_ms(1);
        let before = (client.digest(command), client.info("rdb_changes_since_last_save"), aof(&server));
        assert!(watched(&mut client, &mut other, &request), "{command}: a denial must not fail WATCH");
        for denied in [&request, &format!("{request} COST 11"), &request.replace(" 10 ", " 5 ")] {
            assert_eq!(client.limit(denied)[0], 0, "{command}");
        }
        let after = (client.digest(command), client.info("rdb_changes_since_last_save"), aof(&server));
        assert_eq!(before, after, "{command}");
        // The same check detects a change.
        assert!(!watched(&mut client, &mut other, &format!("{request} FORCE")), "{command}: a change must fail WATCH");
        assert_ne!(client.info("rdb_changes_since_last_save"), after.1, "{command}");
        assert_ne!(aof(&server), after.2, "{command}");
    }
}

/// The bytes of the append-only files.
fn aof(server: &Server) -> u64 {
    let files = std::fs::read_dir(server.folder().join("appendonlydir")).expect("append-only files");
    files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum()
}

#[test]
fn client_side_caches_are_invalidated_by_changes_only() {
    let server = Server::start(&[]);
    let mut reader = server.connect();
    let mut writer = server.connect();
    writer.limit("RL.FIXEDWINDOW key 1 3650d");
    let id: i64 = writer.get("CLIENT ID");
    // A cached key is tracked until it is invalidated.
    let tracked = |client: &mut Client| client.info("tracking_total_keys");
    reader.get::<()>(&format!("CLIENT TRACKING ON REDIRECT {id}"));
    reader.get::<Vec<u8>>("DUMP key");
    assert_eq!(tracked(&mut reader), "1");
    let mut third = server.connect();
    assert_eq!(third.limit("RL.FIXEDWINDOW key 1 3650d")[0], 0);
    assert_eq!(tracked(&mut reader), "1", "a denial must not invalidate the key");
    third.limit("RL.FIXEDWINDOW key 1 3650d FORCE");
    assert_eq!(tracked(&mut reader), "0");
}

#[test]
fn generic_keyspace_notifications_work() {
    let server = Server::start(&["--notify-keyspace-events", "KEA"]);
    let client = redis::Client::open(("127.0.0.1", server.port)).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    connection.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a timeout");
    let mut events = connection.as_pubsub();
    events.subscribe("__keyspace@0__:renamed").expect("subscribed");
    let mut client = server.connect();
    client.limit("RL.FIXEDWINDOW key 10 3650d");
    client.get::<()>("RENAME key renamed");
    client.get::<()>("PEXPIRE renamed 1");
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("expired") {
        seen.push(events.get_message().expect("an event").get_payload::<String>().expect("a text"));
    }
    assert_eq!(seen, ["rename_to", "expire", "expired"]);
}
