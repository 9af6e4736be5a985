//! Servers with I/O threads: no two commands of the module run at the same time, and none crashes the server.
//!
//! In a cluster, Valkey finds the keys of a command in the I/O thread that has read it. If it called the module there,
//! the server would crash within a few thousand commands once it replicates.

use std::collections::BTreeSet;
use std::thread;

use limiter::{Algorithm, Quota};
use redis::Value;
use redis_ratelimit::replication::EffectBytes;
use serial_test::serial;

use crate::common::cluster::Cluster;
use crate::common::policies::policies;
use crate::common::policy_file::PolicyFile;
use crate::common::replicas::catch_up;
use crate::common::traffic::all_digests;
use crate::common::{eventually, Client, Server};

const CONNECTIONS: usize = 16;
/// Commands in a pipeline, at least.
const PIPELINED: usize = 20;
/// Commands of each kind in all.
const COMMANDS: usize = 16_000;
/// The same for commands that are known to crash servers, which took 400 to 15,000 of them.
const DANGEROUS: usize = 40_000;

/// Every command of the module in all its forms, allowed and denied. The word `effect` stands for an encoded effect.
const CALLS: [&str; 30] = [
    "RL.ALL 2 TOKENBUCKET {1}:a 100000 10 TOKENBUCKET {1}:b 100000 10",
    "RL.ALL 1 FIXEDWINDOW {1}:denied 1 3650d",
    "RL.ALL 3 SLIDINGLOG {1}:log 9000 1d LEAKYBUCKET {1}:leaky 9000 1/m SLIDINGCOUNTER {1}:counter 9000 1d COST 2",
    "RL.ALL 2 TOKENBUCKET {1}:a 100000",
    "RL.TOKENBUCKET {1}:a 100000 10",
    "RL.TOKENBUCKET {1}:bucket 1 1/d",
    "RL.LEAKYBUCKET {1}:leaky 9000 1/m COST 3 FORCE",
    "RL.FIXEDWINDOW {1}:window 10 1ms",
    "RL.SLIDINGLOG {1}:log 9000 1d",
    "RL.SLIDINGCOUNTER {1}:counter 9000 1d",
    "RL.CHECK policy {1}:checked COST 2",
    "RL.CHECK policy {1}:checked FORCE",
    "RL.PEEK {1}:a COST 5",
    "RL.REFUND {1}:a 1",
    "RL.INFO {1}:log",
    "RL.STATS",
    "RL.TOP",
    "RL.POLICY SET policy TOKENBUCKET 9000 1/m SLIDINGLOG 9000 1d",
    "RL.POLICY SET other TOKENBUCKET 100 100",
    "RL.POLICY GET policy",
    "RL.POLICY DEL other",
    "RL.POLICY LIST",
    "RL.POLICY LOAD",
    "RL.POLICY SAVE",
    "RL.POLICY HELP",
    "RL.APPLY {1}:applied effect",
    "RL.APPLY {1}:applied effect {1}:second effect",
    "CL.THROTTLE {1}:cell 15 30 864000",
    "INFO ratelimit",
    "COMMAND GETKEYSANDFLAGS RL.ALL 2 TOKENBUCKET {1}:a 10 10 TOKENBUCKET {1}:b 10 10",
];

/// Those of them that fail: one has too few arguments, and there is no policy file.
const FAILING: [&str; 3] = ["RL.ALL 2 TOKENBUCKET {1}:a 100000", "RL.POLICY LOAD", "RL.POLICY SAVE"];

/// Commands that make the server free limiters: in the main thread, in the background, and by overwriting one.
const FREEING: [&str; 12] = [
    "RL.SLIDINGLOG {1}:freed 100000 1h",
    "SET {1}:freed value",
    "DEL {1}:freed",
    "RL.CHECK policy {1}:freed",
    "UNLINK {1}:freed",
    "RL.TOKENBUCKET {1}:freed 100000 10",
    "SET {1}:freed value",
    "DEL {1}:freed",
    "COPY {1}:log {1}:freed REPLACE",
    "UNLINK {1}:freed",
    "COPY {1}:log {1}:freed REPLACE",
    "DUMP {1}:log",
];

fn packed(command: &str) -> Vec<u8> {
    let quota = Quota::parse(Algorithm::FixedWindow, b"100000", b"3650d").expect("a quota");
    let effect = EffectBytes::take(&quota, 1, crate::common::now());
    let mut packed = redis::Cmd::new();
    for word in command.split(' ') {
        packed.arg(if word == "effect" { effect.as_ref() } else { word.as_bytes() });
    }
    packed.get_packed_command()
}

/// Sends the commands in turn on many connections, `count` in all. Exactly those in `failing` fail.
fn send(server: &Server, commands: &[&str], failing: &[&str], count: usize) {
    let pipelined = PIPELINED.next_multiple_of(commands.len());
    let pipeline: Vec<u8> = commands.iter().cycle().take(pipelined).flat_map(|command| packed(command)).collect();
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for client in &mut clients {
        // So that a replica in a cluster replies; other servers ignore it or fail.
        let _ = client.call("READONLY");
    }
    thread::scope(|scope| {
        for mut client in clients {
            let pipeline = &pipeline;
            scope.spawn(move || {
                for _ in 0..count.div_ceil(CONNECTIONS * pipelined) {
                    let replies = client.pipeline(pipeline, pipelined);
                    assert_eq!(replies.len(), pipelined);
                    for (command, reply) in commands.iter().cycle().zip(replies) {
                        let is_expected = match &reply {
                            // Another connection has just replaced the key.
                            Value::ServerError(error) if error.code() == "WRONGTYPE" => command.contains(":freed"),
                            reply => matches!(reply, Value::ServerError(_)) == failing.contains(command),
                        };
                        assert!(is_expected, "{command}: {reply:?}");
                    }
                }
            });
        }
    });
}

/// The configuration with which this server uses its I/O threads as often as it can.
fn config() -> Vec<&'static str> {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let always: &[&str] = match client.valkey_version() {
        Some(version) if version >= (9, 0) => &["--io-threads-always-active", "yes"],
        Some(version) if version >= (8, 0) => &["--events-per-io-thread", "0"],
        Some(_) => &["--io-threads-do-reads", "yes"],
        None if client.info("redis_version").starts_with("7.") => &["--io-threads-do-reads", "yes"],
        None => &[],
    };
    [&["--io-threads", "2", "--appendonly", "yes", "--appendfsync", "no"], always].concat()
}

#[test]
#[serial]
fn every_command_is_pipelined_from_many_connections_in_a_cluster() {
    let cluster = Cluster::with_settings(&config(), 1, true);
    let (mut client, mut follower) = (cluster.nodes[0].connect(), cluster.nodes[1].connect());
    follower.get::<()>("READONLY");
    let called: BTreeSet<String> = CALLS
        .iter()
        .map(|call| {
            call.split(' ').take(if call.starts_with("RL.POLICY") { 2 } else { 1 }).collect::<Vec<_>>().join("|")
        })
        .collect();
    let names: Vec<String> = client.get("COMMAND LIST FILTERBY MODULE ratelimit");
    let commands = names.into_iter().map(|name| name.to_uppercase()).filter(|name| name != "RL.POLICY");
    let missing: Vec<String> = commands.filter(|name| !called.contains(name)).collect();
    assert!(missing.is_empty(), "no calls of {missing:?}");

    client.get::<()>("RL.POLICY SET policy TOKENBUCKET 9000 1/m SLIDINGLOG 9000 1d");
    for call in CALLS {
        send(&cluster.nodes[0], &[call], &FAILING, if call.starts_with("RL.ALL") { DANGEROUS } else { COMMANDS });
    }
    send(&cluster.nodes[0], &FREEING, &[], COMMANDS);
    // All commands at once, and on the replica those that only read.
    let replica = &cluster.nodes[1];
    thread::scope(|scope| {
        let readable = ["RL.PEEK {1}:a", "RL.INFO {1}:log", "RL.STATS", "RL.TOP"];
        scope.spawn(move || send(replica, &readable, &[], COMMANDS));
        send(&cluster.nodes[0], &[&CALLS[..], &FREEING].concat(), &FAILING, COMMANDS);
    });

    // These may expire during the comparison.
    client.get::<()>("DEL {1}:window {1}:freed");
    catch_up(&mut client, &mut follower);
    let digests = all_digests(&mut client);
    assert!(digests.len() > 5, "{digests:?}");
    assert_eq!(all_digests(&mut follower), digests);
    client.get::<()>("DEBUG LOADAOF");
    assert_eq!(all_digests(&mut client), digests);
    let reads = client.number("io_threaded_reads_processed");
    assert!(reads > 1_000, "{reads} reads in other threads than the main one");
    for (node, client) in cluster.nodes.iter().zip([&mut client, &mut follower]) {
        assert_eq!(client.get::<String>("PING"), "PONG");
        let log = node.log();
        assert!(!log.contains("a bug was caught") && !log.contains("BUG REPORT"), "{log}");
    }
}

#[test]
#[serial]
fn limiters_that_are_freed_in_other_threads_are_counted() {
    let server = Server::start(&config());
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET policy TOKENBUCKET 9000 1/m SLIDINGLOG 9000 1d");
    // Large costs make the log long enough to be freed in the background.
    send(&server, &["RL.SLIDINGLOG {1}:log 9007199254740991 1d COST 5000000"], &[], COMMANDS);
    send(&server, &FREEING, &[], COMMANDS);
    eventually("some are freed in the background", || client.number("lazyfreed_objects") > 500);
    client.get::<()>("FLUSHALL ASYNC");
    eventually("all keys are freed", || {
        let info = client.get::<String>("INFO ratelimit");
        let keys: Vec<&str> = info.lines().filter(|line| line.contains("keys")).collect();
        assert!(!keys.is_empty(), "{info}");
        keys.iter().all(|line| line.contains("keys=0") || line.ends_with("keys:0"))
    });
    let reply: Value = client.get("RL.SLIDINGLOG {1}:log 10 1d");
    assert!(matches!(reply, Value::Array(_)));
}

#[test]
#[serial]
fn the_policy_file_is_read_and_written_during_other_requests() {
    const POLICY: &str = "policy TOKENBUCKET 9000 1/m SLIDINGLOG 9000 1d";
    // A few only, because saving waits for the disk.
    const COUNT: usize = 640;
    let file = PolicyFile::new(POLICY);
    let server = file.server(&config());
    send(&server, &["RL.POLICY SAVE", "RL.CHECK policy {1}:checked", "RL.POLICY LOAD", "RL.POLICY LIST"], &[], COUNT);
    assert_eq!(policies(&mut server.connect()), [POLICY]);
}
