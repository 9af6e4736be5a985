//! Policies as data of the server: snapshots and append-only files bring them back.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::policies::{policies, set_policies};
use crate::common::replicas::{attach, catch_up};
use crate::common::{eventually, facts_file, Server, START};

const API: &str = "api TOKENBUCKET 100 10/s FIXEDWINDOW 1000 1d";
const LOGIN: &str = "login SLIDINGLOG 5 1m";
const OTHER: &str = "other LEAKYBUCKET 7 7/d";

#[test]
fn a_snapshot_brings_them_back_and_emptying_the_server_keeps_them() {
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

/// Nothing that was merely asked of the server, and nothing that had no effect, is in its files.
fn assert_only_data_is_logged(server: &Server) {
    for file in fs::read_dir(server.folder().join("appendonlydir")).expect("files") {
        let text = fs::read(file.expect("a file").path()).expect("bytes").to_ascii_uppercase();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("BGREWRITEAOF") && !text.contains("CONFIG") && !text.contains("UNKNOWN"), "{text}");
    }
}

#[test]
fn the_append_only_file_brings_them_back_before_and_after_a_rewrite() {
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
fn rewrites_that_nobody_asked_for_keep_them() {
    for preamble in ["yes", "no"] {
        // The one with which the file begins, then one because it has grown.
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
fn what_changes_during_a_rewrite_is_kept() {
    for preamble in ["yes", "no"] {
        let mut server = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]);
        let mut client = server.connect();
        set_policies(&mut client, &["api FIXEDWINDOW 1 1d", OTHER, LOGIN]);
        client.get::<()>("DEBUG POPULATE 4");
        client.get::<()>("CONFIG SET rdb-key-save-delay 1500000");
        client.get::<()>("BGREWRITEAOF");
        set_policies(&mut client, &[API, "new FIXEDWINDOW 1 1d"]);
        client.get::<()>("RL.POLICY DEL other");
        assert_eq!(client.info("aof_rewrite_in_progress"), "1", "it was to be under way");
        client.wait_for_files();
        server.restart();
        let after = policies(&mut server.connect());
        assert_eq!(after, [API, LOGIN, "new FIXEDWINDOW 1 1d"], "preamble {preamble}");
    }
}

#[test]
fn a_file_is_not_rewritten_without_them_while_writes_are_paused() {
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
fn what_could_not_be_written_during_a_pause_is_written_after_it_whatever_the_clock_did() {
    for turned_back_by in [0, 3_600_000_000] {
        let mut server = Server::with_clock(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
        server.clock().run_from(START);
        let mut client = server.connect();
        set_policies(&mut client, &[API, LOGIN]);
        // The pause begins after the fork, and before anything else is done.
        let mut pipeline = redis::pipe();
        pipeline.cmd("BGREWRITEAOF").cmd("CLIENT").arg("PAUSE").arg("600000").arg("WRITE");
        client.pipeline(&pipeline.get_packed_pipeline(), 2);
        client.wait_for_files();
        assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        // Longer than it takes to try.
        let start = Instant::now();
        eventually("time passes", || start.elapsed() > Duration::from_secs(1));
        assert!(server.is_running());
        assert_eq!(fs::read(facts_file(&server)).expect("bytes"), b"", "nothing may be written now");
        server.clock().run_from(START - turned_back_by);
        client.get::<()>("CLIENT UNPAUSE");
        eventually("they are written", || fs::read_to_string(facts_file(&server)).expect("text").contains("login"));
        server.restart();
        assert_eq!(policies(&mut server.connect()), [API, LOGIN]);
    }
}

#[test]
fn with_a_preamble_files_are_rewritten_at_any_time() {
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
fn a_replica_with_a_file_of_its_own_keeps_them() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut replica = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = primary.connect();
    set_policies(&mut client, &[API]);
    // After a sync it rewrites the file by itself.
    attach(&replica, &primary).wait_for_files();
    replica.restart();
    assert_eq!(policies(&mut replica.connect()), [API]);
    let mut follower = attach(&replica, &primary);
    set_policies(&mut client, &[LOGIN]);
    catch_up(&mut client, &mut follower);
    follower.wait_for_files();
    follower.get::<()>("BGREWRITEAOF");
    follower.wait_for_files();
    // What it wrote is for the file alone: it is still where its primary is.
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
        eprintln!("skipped: Redis 7.0 writes a record of every module that keeps anything outside its keys");
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
fn damaged_policies_in_a_snapshot_are_refused_with_a_line_in_the_log() {
    let mut server = Server::start(&["--rdbchecksum", "no", "--rdbcompression", "no"]);
    let mut client = server.connect();
    set_policies(&mut client, &[API, LOGIN]);
    client.get::<()>("SAVE");
    let file = server.folder().join("dump.rdb");
    let mut bytes = fs::read(&file).expect("a snapshot");
    let word = bytes.windows(10).position(|word| word == b"SLIDINGLOG").expect("a word of the second line");
    bytes[word] = b'X';
    fs::write(&file, &bytes).expect("written");
    assert!(!server.try_restart(), "a damaged snapshot was loaded");
    let line = "cannot load the policies of ratelimit: line 2: limit 1: unknown algorithm 'XLIDINGLOG'";
    assert!(server.log().contains(line), "{}", server.log());
}
