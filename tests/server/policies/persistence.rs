//! Policies as data of the server: snapshots and append-only files restore them.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::policies::{policies, set_policies};
use crate::common::replicas::{attach, catch_up};
use crate::common::{effects_file, eventually, Server, START};

const API: &str = "api TOKENBUCKET 100 10/s FIXEDWINDOW 1000 1d";
const LOGIN: &str = "login SLIDINGLOG 5 1m";
const OTHER: &str = "other LEAKYBUCKET 7 7/d";

#[test]
fn a_snapshot_restores_policies_and_flushall_keeps_them() {
    let mut server = Server::start(&["--dbfilename", "dump.rdb"]);
    let mut client = server.connect();
    set_policies(&mut client, &[API, LOGIN, OTHER]);
    client.get::<()>("RL.POLICY DEL other");
    client.get::<()>("SET key value");
    for command in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "DEBUG RELOAD", "SAVE"] {
        client.get::<()>(command);
        assert_eq!(policies(&mut client), [API, LOGIN], "{command}");
    }
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
    server.restart();
    assert_eq!(policies(&mut server.connect()), [API, LOGIN]);
}

/// Checks that commands without effect on data are not in the append-only file.
fn assert_only_data_is_logged(server: &Server) {
    for file in fs::read_dir(server.folder().join("appendonlydir")).expect("files") {
        let text = fs::read(file.expect("a file").path()).expect("bytes").to_ascii_uppercase();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("BGREWRITEAOF") && !text.contains("CONFIG") && !text.contains("UNKNOWN"), "{text}");
    }
}

#[test]
fn the_append_only_file_restores_policies_before_and_after_a_rewrite() {
    for (preamble, keys) in [("yes", true), ("yes", false), ("no", true), ("no", false)] {
        let mut server = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]);
        let mut client = server.connect();
        set_policies(&mut client, &[API, LOGIN, OTHER]);
        client.get::<()>("RL.POLICY DEL unknown");
        if keys {
            client.get::<()>("RL.CHECK api key");
        }
        let mut expected = vec![API, LOGIN, OTHER];
        for (step, command) in [
            ("as it was written", "PING"),
            ("rewritten", "BGREWRITEAOF"),
            ("deleted after that", "RL.POLICY DEL other"),
            ("loaded", "DEBUG LOADAOF"),
            ("rewritten again", "BGREWRITEAOF"),
        ] {
            let mut client = server.connect();
            client.get::<()>(command);
            client.wait_for_files();
            if command.contains("DEL") {
                expected.pop();
            }
            assert_eq!(policies(&mut client), expected, "preamble {preamble}, keys {keys}: {step}");
            server.restart();
            let after = policies(&mut server.connect());
            assert_eq!(after, expected, "preamble {preamble}, keys {keys}: {step}, and restarted");
            assert_eq!(server.connect().get::<i64>("DBSIZE"), i64::from(keys));
            assert_only_data_is_logged(&server);
        }
    }
}

#[test]
fn automatic_rewrites_keep_policies() {
    for preamble in ["yes", "no"] {
        // First the rewrite that starts the file, then one because the file has grown.
        let mut server = Server::start(&["--aof-use-rdb-preamble", preamble]);
        let mut client = server.connect();
        set_policies(&mut client, &[API, OTHER]);
        client.get::<()>("CONFIG SET appendonly yes");
        client.wait_for_files();
        assert_only_data_is_logged(&server);
        server.set(&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]);
        server.restart();
        let mut client = server.connect();
        assert_eq!(policies(&mut client), [API, OTHER], "preamble {preamble}");
        set_policies(&mut client, &[LOGIN]);
        client.get::<()>("RL.POLICY DEL other");
        client.get::<()>("CONFIG SET auto-aof-rewrite-min-size 1 auto-aof-rewrite-percentage 1");
        eventually("a rewrite", || server.log().contains("Starting automatic rewriting of AOF"));
        client.get::<()>("CONFIG SET auto-aof-rewrite-percentage 0");
        client.wait_for_files();
        server.restart();
        assert_eq!(policies(&mut server.connect()), [API, LOGIN], "preamble {preamble}");
        assert_only_data_is_logged(&server);
    }
}

#[test]
fn changes_during_a_rewrite_are_kept() {
    for preamble in ["yes", "no"] {
        let mut server = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]);
        let mut client = server.connect();
        set_policies(&mut client, &["api FIXEDWINDOW 1 1d", OTHER, LOGIN]);
        client.get::<()>("DEBUG POPULATE 4");
        client.get::<()>("CONFIG SET rdb-key-save-delay 1500000");
        client.get::<()>("BGREWRITEAOF");
        set_policies(&mut client, &[API, "new FIXEDWINDOW 1 1d"]);
        client.get::<()>("RL.POLICY DEL other");
        assert_eq!(client.info("aof_rewrite_in_progress"), "1", "the rewrite must still run");
        client.wait_for_files();
        server.restart();
        let after = policies(&mut server.connect());
        assert_eq!(after, [API, LOGIN, "new FIXEDWINDOW 1 1d"], "preamble {preamble}");
    }
}

#[test]
fn a_rewrite_fails_while_writes_are_paused_and_keeps_policies() {
    for crash in [false, true] {
        let mut server =
            Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--appendfsync", "always"]);
        let mut client = server.connect();
        set_policies(&mut client, &[API, LOGIN]);
        client.get::<()>("CLIENT PAUSE 600000 WRITE");
        client.get::<()>("BGREWRITEAOF");
        client.wait_for_files();
        assert_eq!(client.info("aof_last_bgrewrite_status"), "err");
        assert!(server.log().contains("the append-only file is not rewritten while clients are paused"));
        assert!(server.is_running(), "{}", server.log());
        if crash {
            server.crash();
            server.start_again();
        } else {
            server.restart();
        }
        assert_eq!(policies(&mut server.connect()), [API, LOGIN], "crash: {crash}");
    }
}

#[test]
fn policies_that_cannot_be_written_during_a_pause_are_written_after_it() {
    for step_back in [0, 3_600_000_000] {
        let mut server = Server::with_clock(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
        server.clock().run_from(START);
        let mut client = server.connect();
        set_policies(&mut client, &[API, LOGIN]);
        // The pause begins right after the fork.
        let mut pipeline = redis::pipe();
        pipeline.cmd("BGREWRITEAOF").cmd("CLIENT").arg("PAUSE").arg("600000").arg("WRITE");
        client.pipeline(&pipeline.get_packed_pipeline(), 2);
        client.wait_for_files();
        assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        // Longer than the interval of attempts.
        let start = Instant::now();
        eventually("time passes", || start.elapsed() > Duration::from_secs(1));
        assert!(server.is_running());
        assert_eq!(fs::read(effects_file(&server)).expect("bytes"), b"", "nothing is written during the pause");
        server.clock().run_from(START - step_back);
        client.get::<()>("CLIENT UNPAUSE");
        eventually("the policies are written", || {
            fs::read_to_string(effects_file(&server)).expect("text").contains("login")
        });
        server.restart();
        assert_eq!(policies(&mut server.connect()), [API, LOGIN]);
    }
}

#[test]
fn with_a_preamble_a_rewrite_works_during_a_pause() {
    let mut server = Server::start(&["--appendonly", "yes"]);
    let mut client = server.connect();
    set_policies(&mut client, &[API, LOGIN]);
    client.get::<()>("CLIENT PAUSE 600000 WRITE");
    client.get::<()>("BGREWRITEAOF");
    client.wait_for_files();
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
    server.restart();
    assert_eq!(policies(&mut server.connect()), [API, LOGIN]);
}

#[test]
fn a_replica_with_an_append_only_file_keeps_policies() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut replica = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = primary.connect();
    set_policies(&mut client, &[API]);
    // After a sync it rewrites the file.
    attach(&replica, &primary).wait_for_files();
    replica.restart();
    assert_eq!(policies(&mut replica.connect()), [API]);
    let mut follower = attach(&replica, &primary);
    set_policies(&mut client, &[LOGIN]);
    catch_up(&mut client, &mut follower);
    follower.wait_for_files();
    follower.get::<()>("BGREWRITEAOF");
    follower.wait_for_files();
    // The rewrite does not move the replication offset.
    set_policies(&mut client, &[OTHER]);
    catch_up(&mut client, &mut follower);
    assert_eq!(follower.info("master_link_status"), "up");
    replica.restart();
    assert_eq!(policies(&mut replica.connect()), [API, LOGIN, OTHER]);
    assert_only_data_is_logged(&replica);
}

#[test]
fn a_snapshot_without_policies_does_not_need_the_module() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    if client.info("redis_version").starts_with("7.0.") && client.valkey_version().is_none() {
        eprintln!("skipped: Redis 7.0 writes a record for every module with auxiliary data");
        return;
    }
    let mut plain = Server::without_module();
    client.get::<()>("SET key value");
    for (line, loads) in [("RL.POLICY SET login SLIDINGLOG 5 1m", false), ("RL.POLICY DEL login", true)] {
        client.get::<()>(line);
        client.get::<()>("SAVE");
        fs::copy(server.folder().join("dump.rdb"), plain.folder().join("dump.rdb")).expect("a copy");
        assert_eq!(plain.try_restart(), loads, "after {line}:\n{}", plain.log());
    }
    assert_eq!(plain.connect().get::<String>("GET key"), "value");
}

#[test]
fn damaged_policies_in_a_snapshot_are_rejected_with_a_line_in_the_log() {
    let mut server = Server::start(&["--rdbchecksum", "no", "--rdbcompression", "no"]);
    let mut client = server.connect();
    set_policies(&mut client, &[API, LOGIN]);
    client.get::<()>("SAVE");
    let file = server.folder().join("dump.rdb");
    let mut bytes = fs::read(&file).expect("a snapshot");
    let word = bytes.windows(10).position(|word| word == b"SLIDINGLOG").expect("a word of the second line");
    bytes[word] = b'X';
    fs::write(&file, &bytes).expect("written");
    assert!(!server.try_restart(), "a damaged snapshot must not load");
    let line = "cannot load the policies of ratelimit: line 2: limit 1: unknown algorithm 'XLIDINGLOG'";
    assert!(server.log().contains(line), "{}", server.log());
}
