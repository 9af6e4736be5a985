//! Damaged effects and dumps are rejected with an error, change nothing, and use little memory.

use std::fs;

use crate::common::dump::with_checksum;
use crate::common::{effects_file, Client, Server};

/// A server with one key of each algorithm, and their names.
fn server_with_keys() -> (Server, Client, [&'static str; 5]) {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.limit("RL.TOKENBUCKET bucket 10 1/h COST 3");
    client.limit("RL.LEAKYBUCKET queue 10 1/h COST 3");
    client.limit("RL.FIXEDWINDOW window 10 10w COST 3");
    client.limit("RL.SLIDINGCOUNTER counter 10 10w COST 3");
    client.eval::<()>("for i = 1, 2000 do redis.call('RL.SLIDINGLOG', KEYS[1], 100000, '1d') end", "log", &[]);
    (server, client, ["bucket", "queue", "window", "counter", "log"])
}

#[test]
fn damaged_dumps_are_rejected_or_make_valid_values() {
    let (mut server, mut client, keys) = server_with_keys();
    let before: Vec<_> = keys.iter().map(|key| client.digest(key)).collect();
    let mut rejected = 0;
    for key in keys {
        let dump: Vec<u8> = client.get(&format!("DUMP {key}"));
        let body = &dump[..dump.len() - 8];
        // Every byte in turn, with a few values; of a long log only the start. The last two bytes are the server's RDB
        // version.
        for at in 0..(body.len() - 2).min(60) {
            for value in [0, 1, 0x7f, 0x80, 0xff, body[at] ^ 1, body[at].wrapping_add(1)] {
                let mut damaged = body.to_vec();
                damaged[at] = value;
                rejected += u32::from(!restore(&mut client, &damaged));
            }
        }
        // Not within the last ten bytes: the RDB version and the checksum behind the value might rarely replace them.
        for cut in (0..body.len() - 12).step_by(1 + body.len() / 40) {
            let mut damaged = body[..cut].to_vec();
            damaged.extend_from_slice(&body[body.len() - 2..]);
            assert!(!restore(&mut client, &damaged), "{key}: cut at {cut} and accepted");
        }
    }
    assert!(rejected > 300, "only {rejected} were rejected");
    assert!(server.is_running());
    assert_eq!(keys.iter().map(|key| client.digest(key)).collect::<Vec<_>>(), before);
}

/// Restores a payload with a valid checksum, and uses the resulting key.
fn restore(client: &mut Client, body: &[u8]) -> bool {
    let payload = with_checksum(body);
    client.get::<()>("DEL restored");
    let accepted = client.call_bytes(&[b"RESTORE", b"restored", b"0", &payload]).is_ok();
    if accepted && client.get::<String>("TYPE restored") == "ratelimit" {
        for command in ["TOKENBUCKET", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGLOG", "SLIDINGCOUNTER"] {
            let _ = client.call(&format!("RL.{command} restored 7 1 FORCE"));
        }
        client.get::<i64>("MEMORY USAGE restored");
        client.get::<Vec<u8>>("DUMP restored");
    }
    accepted
}

#[test]
fn the_checksum_of_these_tests_is_correct() {
    let (_server, mut client, _) = server_with_keys();
    let dump: Vec<u8> = client.get("DUMP bucket");
    let body = &dump[..dump.len() - 8];
    assert_eq!(with_checksum(body), dump);
    assert!(restore(&mut client, body), "an intact payload is accepted");
}

#[test]
fn a_dump_of_another_version_is_rejected() {
    let (server, mut client, _) = server_with_keys();
    let dump: Vec<u8> = client.get("DUMP bucket");
    let mut body = dump[..dump.len() - 8].to_vec();
    // After the kind of the value come eight bytes with the type's id, whose lowest ten bits are the version.
    assert_eq!((&body[..2], body[9]), (&[7, 0x81][..], 1));
    body[9] = 2;
    assert!(!restore(&mut client, &body));
    assert!(
        server.log().contains("unsupported type encoding version 2 (this module reads up to 1)"),
        "{}",
        server.log()
    );
}

#[test]
fn damaged_effects_are_rejected_and_change_nothing() {
    let (mut server, mut client, keys) = server_with_keys();
    let before: Vec<_> = keys.iter().map(|key| client.digest(key)).collect();
    let memory = client.number("used_memory");
    let damaged: [&[u8]; 16] = [
        b"",
        b"\0",
        b"\x01",
        b"\x01\x01",
        b"\x01\x00\x01\x0a\x01\xc0\x84\x3d\x01\x01",
        b"\x01\x01\x09\x0a\x01\xc0\x84\x3d\x01\x01",
        // A capacity, a cost and a time out of range.
        b"\x01\x01\x01\x00\x01\xc0\x84\x3d\x01\x01",
        b"\x01\x01\x01\x0a\x01\xc0\x84\x3d\x00\x01",
        b"\x01\x01\x01\x0a\x01\xc0\x84\x3d\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        // Trailing bytes.
        b"\x01\x01\x01\x0a\x01\xc0\x84\x3d\x01\x01\x01",
        b"\x04\x01\x01\x04\x0a\xc0\x84\x3d\x00",
        b"\x05",
        // No entries.
        b"\x05\x01\x00\x01",
        // A value without a version, and one with a count above twice the limit.
        b"\x04\x01\x00\x03\x0a\xc0\x84\x3d\x01\x01",
        b"\x04\x01\x01\x03\x0a\xc0\x84\x3d\x01\x15",
        b"\x04\x01",
    ];
    for key in keys.iter().chain(&["new"]) {
        for effect in damaged {
            let error = client.error_of(&[b"RL.APPLY", key.as_bytes(), effect]);
            assert_eq!(error, "ERR cannot apply the effect: corrupt data", "{effect:?}");
        }
    }
    // Intact effects for another algorithm, or that continue a log that does not exist or is newer.
    let taken = b"\x01\x01\x03\x0a\xc0\x84\x3d\x01\x01";
    let entries = b"\x05\x01\x00\x01\x00";
    for key in ["bucket", "queue", "counter", "log"] {
        let error = client.error_of(&[b"RL.APPLY", key.as_bytes(), taken]);
        assert_eq!(error, "ERR the effect does not match the value of the key");
    }
    for key in ["bucket", "queue", "window", "counter", "log", "new"] {
        let error = client.error_of(&[b"RL.APPLY", key.as_bytes(), entries]);
        assert_eq!(error, "ERR the effect does not match the value of the key");
    }
    assert!(client.error("RL.APPLY").to_lowercase().starts_with("err wrong number of arguments"));
    assert_eq!(keys.iter().map(|key| client.digest(key)).collect::<Vec<_>>(), before);
    assert_eq!(client.get::<i64>("EXISTS new"), 0);
    let grown = client.number("used_memory") - memory;
    assert!(grown < 1_000_000, "{grown} more bytes");
    client.get::<()>("SET string 1");
    assert!(client.error_of(&[b"RL.APPLY", b"string", taken]).starts_with("WRONGTYPE"));
    assert!(server.is_running());
}

#[test]
fn a_damaged_effect_in_an_append_only_file_is_reported_and_the_rest_loaded() {
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start(&settings);
    let mut client = server.connect();
    client.limit("RL.TOKENBUCKET before 10 1/h");
    client.limit("RL.SLIDINGLOG damaged 10 1d");
    client.limit("RL.FIXEDWINDOW after 10 10w");
    let intact = ["before", "after"];
    let digests = intact.map(|key| client.digest(key));
    server.crash();
    let file = effects_file(&server);
    let mut bytes = fs::read(&file).expect("a file");
    // The effect follows the key, each after its length, and starts with its kind.
    let key = bytes.windows(11).position(|bytes| bytes == b"\r\ndamaged\r\n").expect("the key") + 11;
    let kind = key + bytes[key..].iter().position(|&byte| byte == b'\n').expect("a length") + 1;
    assert_eq!(bytes[kind], 1);
    bytes[kind] = 9;
    fs::write(&file, bytes).expect("damaged");

    server.start_again();
    let mut client = server.connect();
    assert_eq!(intact.map(|key| client.digest(key)), digests);
    assert_eq!(client.get::<i64>("EXISTS damaged"), 0);
    let log = server.log();
    assert!(
        log.contains("== CRITICAL ==") && log.contains("cannot apply the effect: unsupported effect kind"),
        "{log}"
    );
    // With this option the server does not start instead.
    server.set(&[&settings[..], &["--propagation-error-behavior", "panic"]].concat());
    assert!(!server.try_restart());
}
