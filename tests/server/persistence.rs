//! Keys survive a restart, from snapshots and from both forms of the append-only file.

use std::fs;

use crate::common::aof::commands;
use crate::common::traffic::{all_digests, send};
use crate::common::{eventually, Server};

#[test]
fn everything_is_restored_from_a_snapshot() {
    let mut server = Server::with_clock(&["--dbfilename", "dump.rdb"]);
    let mut client = server.connect();
    send(&mut server, &mut client, 2_000);
    let before = all_digests(&mut client);
    assert_eq!(before.len(), 20);
    client.get::<()>("SAVE");
    server.restart();
    assert_eq!(all_digests(&mut server.connect()), before);
}

#[test]
fn everything_is_restored_from_the_append_only_file() {
    for preamble in ["yes", "no"] {
        let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--appendfsync", "always"];
        let mut server = Server::with_clock(&settings);
        let mut client = server.connect();
        send(&mut server, &mut client, 1_000);
        let before = all_digests(&mut client);
        server.restart();
        assert_eq!(all_digests(&mut server.connect()), before, "preamble {preamble}: effects");

        let mut client = server.connect();
        client.get::<()>("BGREWRITEAOF");
        client.wait_for_files();
        assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        server.restart();
        assert_eq!(all_digests(&mut server.connect()), before, "preamble {preamble}: rewritten");

        let mut client = server.connect();
        send(&mut server, &mut client, 500);
        let after = all_digests(&mut client);
        assert_ne!(after, before);
        server.restart();
        assert_eq!(all_digests(&mut server.connect()), after, "preamble {preamble}: rewritten and effects");
    }
}

#[test]
fn a_long_log_is_rewritten_in_segments() {
    let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
    let mut server = Server::start(&settings);
    let mut client = server.connect();
    let script = "for i = 1, 20000 do redis.call('RL.SLIDINGLOG', KEYS[1], 100000, '1d', 'COST', i % 3 + 1) end";
    client.eval::<()>(script, "log", &[]);
    let before = client.digest("log");
    client.get::<()>("BGREWRITEAOF");
    client.wait_for_files();
    server.restart();
    assert_eq!(server.connect().digest("log"), before);
}

#[test]
fn a_rewritten_file_can_be_piped_into_a_running_server() {
    let mut server = Server::with_clock(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = server.connect();
    send(&mut server, &mut client, 500);
    client.get::<()>("PERSIST slidinglog0");
    client.get::<()>("BGREWRITEAOF");
    client.wait_for_files();
    let expected = all_digests(&mut client);
    assert!(expected.iter().any(|(_, (_, expires))| *expires == -1));

    let mut other = Server::with_clock(&[]);
    let now = server.clock().now();
    other.clock().set(now);
    let base = fs::read_dir(server.folder().join("appendonlydir"))
        .expect("files")
        .map(|file| file.expect("a file").path())
        .find(|path| path.to_string_lossy().ends_with(".base.aof"))
        .expect("the rewritten file");
    let mut client = other.connect();
    for command in commands(&fs::read(base).expect("its bytes")) {
        client.call_bytes(&command).expect("accepted");
    }
    assert_eq!(all_digests(&mut client), expected);
    // A restart loads the same.
    server.restart();
    assert_eq!(all_digests(&mut server.connect()), expected);
}

#[test]
fn the_append_only_file_is_loaded_at_any_time_of_the_clock() {
    let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
    let mut server = Server::with_clock(&settings);
    let mut client = server.connect();
    send(&mut server, &mut client, 500);
    let now = server.clock().now();
    let before = all_digests(&mut client);
    server.clock().set(now - 1_800_000_000);
    server.restart();
    assert_eq!(all_digests(&mut server.connect()), before);
    // Long after their expiry all keys are gone.
    server.clock().set(now + 365 * 86_400_000_000);
    server.restart();
    let mut client = server.connect();
    eventually("all keys expire", || client.get::<i64>("DBSIZE") == 0);
}

#[test]
fn a_damaged_snapshot_is_rejected_with_a_line_in_the_log() {
    let mut server = Server::start(&["--dbfilename", "dump.rdb", "--rdbchecksum", "no"]);
    let mut client = server.connect();
    client.limit("RL.TOKENBUCKET key 10 1/h");
    client.get::<()>("SAVE");
    let file = server.folder().join("dump.rdb");
    let mut bytes = fs::read(&file).expect("a snapshot");
    // The value is a string of the version, the algorithm, the capacity and the rate. The algorithm becomes an unknown
    // one.
    let value = find(&bytes, &[1, 1, 10, 1]).expect("the value");
    bytes[value + 1] = 99;
    fs::write(&file, &bytes).expect("written");
    let loading = server.try_restart();
    assert!(!loading, "a damaged snapshot must not load");
    assert!(server.log().contains("cannot load a ratelimit key: corrupt data"), "{}", server.log());
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
