//! Every entry point is made to panic: the server replies or goes on, and stays up. Defragmentation is not tested, as
//! few servers have it.
//!
//! Needs the module built with the feature `panic-probe`.

mod common;

use common::{eventually, Server};

#[test]
fn a_panic_in_a_command_is_an_error_reply() {
    for (command, arguments) in [
        ("TOKENBUCKET", "key 10 10"),
        ("LEAKYBUCKET", "key 10 10"),
        ("FIXEDWINDOW", "key 10 10"),
        ("SLIDINGLOG", "key 10 10"),
        ("SLIDINGCOUNTER", "key 10 10"),
        ("ALL", "2 TOKENBUCKET a 10 10 SLIDINGLOG b 10 10"),
        ("CHECK", "policy key"),
        ("PEEK", "key"),
        ("REFUND", "key 1"),
        ("INFO", "key"),
        ("STATS", ""),
        ("TOP", ""),
        ("THROTTLE", "key 15 30 60"),
        ("POLICY SET", "policy TOKENBUCKET 10 10"),
        ("POLICY GET", "policy"),
        ("POLICY DEL", "policy"),
        ("POLICY LIST", ""),
        ("POLICY LOAD", ""),
        ("POLICY SAVE", ""),
        ("POLICY HELP", ""),
        ("APPLY", "key effect"),
    ] {
        let mut server = Server::with_environment("RATELIMIT_PANIC_AT", command);
        let mut client = server.connect();
        let module = if command == "THROTTLE" { "CL" } else { "RL" };
        for _ in 0..3 {
            let error = client.error(&format!("{module}.{command} {arguments}"));
            assert_eq!(error, "ERR internal error in redis-ratelimit, see the server log");
        }
        for message in ["asked to panic in", "redis-ratelimit: caught a panic in"] {
            assert!(server.log().contains(&format!("{message} {command}")), "{}", server.log());
        }
        assert_eq!(client.get::<i64>("DBSIZE"), 0);
        assert!(server.is_running());
    }
}

#[test]
fn a_panic_while_loading_the_module_rejects_it() {
    let log = Server::refuses_to_start(&[], &[("RATELIMIT_PANIC_AT", "load".into())]);
    assert!(log.contains("redis-ratelimit cannot be loaded: a bug"), "{log}");
}

#[test]
fn a_panic_while_saving_keeps_the_last_good_file() {
    for callback in ["rdb_save", "aux_save"] {
        let server = Server::with_environment("RATELIMIT_PANIC_AT", callback);
        let mut client = server.connect();
        client.get::<()>("SET good 1");
        client.get::<()>("SAVE");
        let good = std::fs::read(server.folder().join("dump.rdb")).expect("a snapshot");
        client.limit("RL.SLIDINGLOG key 10 1d");
        client.get::<()>("RL.POLICY SET policy FIXEDWINDOW 10 1d");
        client.get::<()>("BGSAVE");
        client.wait_for_files();
        assert_eq!(client.info("rdb_last_bgsave_status"), "err", "{callback}");
        assert_eq!(std::fs::read(server.folder().join("dump.rdb")).expect("a snapshot"), good, "{callback}");
    }
}

#[test]
fn a_panic_while_loading_policies_rejects_the_file() {
    let mut server = Server::with_environment("RATELIMIT_PANIC_AT", "aux_load");
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET policy FIXEDWINDOW 10 1d");
    client.get::<()>("SAVE");
    assert!(!server.try_restart());
    assert!(server.log().contains("asked to panic in aux_load"), "{}", server.log());
}

#[test]
fn a_panic_outside_of_commands_is_caught() {
    for entry in ["event", "timer", "cron", "config", "info"] {
        let mut server = Server::with_environment("RATELIMIT_PANIC_AT", entry);
        let mut client = server.connect();
        client.get::<()>("RL.POLICY SET policy FIXEDWINDOW 10 1d");
        client.get::<redis::Value>("CONFIG GET ratelimit.*");
        client.get::<()>("CONFIG SET ratelimit.top-size 5");
        client.get::<()>("CONFIG SET ratelimit.cl-throttle no");
        client.get::<String>("INFO everything");
        client.get::<()>("CONFIG SET aof-use-rdb-preamble no");
        client.get::<()>("CONFIG SET appendonly yes");
        client.wait_for_files();
        eventually("it panics", || server.log().contains(&format!("asked to panic in {entry}")));
        assert_eq!(client.limit("RL.SLIDINGLOG key 10 1d")[0], 1, "{entry}");
        assert!(server.is_running(), "{entry}");
    }
}

#[test]
fn a_panic_in_a_callback_of_the_type_is_caught() {
    let callbacks = ["rdb_save", "rdb_load", "aof_rewrite", "mem_usage", "digest", "free", "free_effort", "copy"];
    for callback in callbacks {
        let mut server = Server::with_environment("RATELIMIT_PANIC_AT", callback);
        let mut client = server.connect();
        client.limit("RL.SLIDINGLOG key 10 1d");
        // A valid dump, from a server where saving works.
        let healthy = Server::start(&[]);
        let mut other = healthy.connect();
        other.limit("RL.SLIDINGLOG key 10 1d");
        let dump: Vec<u8> = other.get("DUMP key");

        // Each callback is called by one of these commands, whatever its reply.
        let _ = client.call_bytes(&[b"RESTORE", b"restored", b"0", &dump]);
        let _ = client.call("MEMORY USAGE key");
        let _ = client.call("DEBUG DIGEST-VALUE key");
        let _ = client.call("COPY key copy");
        let _ = client.call("DUMP key");
        let _ = client.call("UNLINK key");
        client.limit("RL.SLIDINGLOG key 10 1d");
        let _ = client.call("CONFIG SET aof-use-rdb-preamble no");
        let _ = client.call("BGREWRITEAOF");
        client.wait_for_files();
        assert_eq!(client.info("aof_last_bgrewrite_status"), if callback == "aof_rewrite" { "err" } else { "ok" });
        assert_eq!(client.limit("RL.SLIDINGLOG other 10 1d")[0], 1, "{callback}");
        assert!(server.is_running(), "{callback}");
        assert!(server.log().contains(&format!("asked to panic in {callback}")), "{callback}: {}", server.log());
    }
}
