//! Loading of the module: when it is rejected, the server goes on unharmed.

use std::fs;

use crate::common::{compile, module, Client, Server};

fn load(client: &mut Client, arguments: &str) -> Result<redis::Value, redis::RedisError> {
    client.call(&format!("MODULE LOAD {} {arguments}", module().display()))
}

fn load_other(client: &mut Client, command: &str) {
    client.get::<()>(&format!("MODULE LOAD {} {command}", compile("other_module").display()));
}

/// Triggers the server events that modules receive.
fn assert_unharmed(server: &mut Server) {
    let mut client = server.connect();
    client.get::<()>("CONFIG SET maxmemory 0");
    client.get::<()>("BGSAVE");
    client.wait_for_files();
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    client.get::<()>("REPLICAOF 127.0.0.1 1");
    client.get::<()>("REPLICAOF NO ONE");
    client.get::<()>("DEBUG RELOAD");
    assert!(server.is_running());
}

#[test]
fn the_module_cannot_be_unloaded() {
    let mut server = Server::without_module();
    let mut client = server.connect();
    load(&mut client, "").expect("loaded");
    client.limit("RL.SLIDINGLOG log 10 1d");
    assert!(client.error("MODULE UNLOAD ratelimit").contains("data types"), "the server's message");
    assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 8]);
    client.get::<()>("DEL log");
    assert!(client.error("MODULE UNLOAD ratelimit").contains("data types"), "keys may be in files and on replicas");
    assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 9]);
    assert_unharmed(&mut server);
}

#[test]
fn loading_it_twice_is_rejected_and_the_first_one_works_on() {
    let mut server = Server::without_module();
    let mut client = server.connect();
    load(&mut client, "").expect("loaded");
    client.limit("RL.TOKENBUCKET bucket 10 1/h");
    // The same file, and a copy of it.
    let copy = server.folder().join("copy.so");
    fs::copy(module(), &copy).expect("a copy");
    assert!(load(&mut client, "").is_err());
    assert!(client.call(&format!("MODULE LOAD {}", copy.display())).is_err());
    assert!(load(&mut client, "nonsense").is_err());
    let message = "redis-ratelimit cannot be loaded: a module named ratelimit is loaded already";
    assert_eq!(server.log().matches(message).count(), 3, "{}", server.log());
    assert_eq!(client.limit("RL.TOKENBUCKET bucket 10 1/h")[..3], [1, 10, 8]);
    assert_unharmed(&mut server);
    assert_eq!(client.limit("RL.TOKENBUCKET bucket 10 1/h")[..3], [1, 10, 7]);
}

#[test]
fn unknown_arguments_are_rejected_and_the_server_works_on() {
    let mut server = Server::without_module();
    let mut client = server.connect();
    assert!(load(&mut client, "nonsense").is_err());
    let log = server.log();
    assert!(log.contains("redis-ratelimit cannot be loaded: unknown argument 'nonsense'"), "{log}");
    assert!(client.error("RL.TOKENBUCKET bucket 10 1").contains("unknown command"));
    assert_unharmed(&mut server);
    load(&mut client, "").expect("loaded");
    assert_eq!(client.limit("RL.TOKENBUCKET bucket 10 1/h")[..3], [1, 10, 9]);
}

#[test]
fn an_unknown_parameter_is_rejected_and_the_server_works_on() {
    let mut server = Server::without_module();
    let mut client = server.connect();
    if client.valkey_version().is_some() {
        eprintln!("skipped: Valkey crashes when it rejects a parameter of any module with a data type");
        return;
    }
    assert!(client.call(&format!("MODULE LOADEX {} CONFIG ratelimit.nonsense 1", module().display())).is_err());
    assert_unharmed(&mut server);
}

#[test]
fn if_another_module_has_cl_throttle_it_is_not_registered() {
    let mut server = Server::without_module();
    let mut client = server.connect();
    load_other(&mut client, "CL.THROTTLE");
    load(&mut client, "").expect("loaded");
    assert_eq!(client.get::<i64>("CL.THROTTLE user 15 30 60"), 42);
    assert_eq!(client.limit("RL.TOKENBUCKET bucket 10 1/h")[..3], [1, 10, 9]);
    let log = server.log();
    assert!(log.contains("redis-ratelimit: CL.THROTTLE belongs to another module and is not registered"), "{log}");
    // The parameter stays on, so that a rewritten configuration enables the command once the other module is gone.
    assert_eq!(client.get::<[String; 2]>("CONFIG GET ratelimit.cl-throttle")[1], "yes");
    client.get::<()>("CONFIG SET ratelimit.cl-throttle yes");
    client.get::<()>("CONFIG SET ratelimit.cl-throttle no");
    assert!(client.error("CONFIG SET ratelimit.cl-throttle yes").contains("belongs to another module"));
    assert_eq!(client.get::<i64>("CL.THROTTLE user 15 30 60"), 42);
    assert_unharmed(&mut server);
}

#[test]
fn another_module_can_register_cl_throttle_later_only_if_it_is_off() {
    for off in [false, true] {
        let mut server = Server::without_module();
        let mut client = server.connect();
        load(&mut client, if off { "cl-throttle no" } else { "" }).expect("loaded");
        let other = format!("MODULE LOAD {} CL.THROTTLE", compile("other_module").display());
        assert_eq!(client.call(&other).is_ok(), off);
        if off {
            assert_eq!(client.get::<i64>("CL.THROTTLE user 15 30 60"), 42);
        } else {
            assert_eq!(client.limit("CL.THROTTLE user 15 30 60")[..3], [0, 16, 15]);
        }
        assert_eq!(client.limit("RL.TOKENBUCKET bucket 10 1/h")[..3], [1, 10, 9]);
        assert!(!server.log().contains("another module has CL.THROTTLE"));
        assert_unharmed(&mut server);
    }
}

#[test]
fn if_another_module_has_an_rl_command_loading_is_rejected() {
    for command in ["RL.TOKENBUCKET", "rl.apply"] {
        let mut server = Server::without_module();
        let mut client = server.connect();
        load_other(&mut client, command);
        assert!(load(&mut client, "").is_err());
        let log = server.log();
        let message =
            format!("redis-ratelimit cannot be loaded: the server refuses the command {};", command.to_uppercase());
        assert!(log.contains(&message), "{log}");
        assert_eq!(client.get::<i64>(command), 42);
        assert!(client.error("RL.SLIDINGLOG log 10 1d").contains("unknown command"));
        assert_unharmed(&mut server);
    }
}
