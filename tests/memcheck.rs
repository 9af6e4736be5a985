//! The module in a server under valgrind's memcheck: no invalid access, no use of uninitialized memory, and no leaks.

mod common;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use common::dump::{damaged, with_checksum};
use common::mutation::mutate;
use common::replicas::{attach, catch_up};
use common::traffic::Requests;
use common::{compile, eventually, module, Client, Server};
use fastrand::Rng;
use limiter::{Algorithm, Limiter, Quota, Request, Value};
use redis_ratelimit::replication::effect::recreate;
use redis_ratelimit::replication::EffectBytes;

/// A server under memcheck; `None` if valgrind cannot run it.
fn under_memcheck() -> Option<Server> {
    let wrapper = [
        "valgrind",
        "--trace-children=yes",
        "--leak-check=full",
        "--num-callers=40",
        "--soname-synonyms=somalloc=*jemalloc*",
        "--log-file={folder}/memcheck.%p",
    ];
    let settings = [
        "--enable-module-command",
        "yes",
        "--aof-use-rdb-preamble",
        "no",
        "--repl-diskless-sync-delay",
        "0",
        // The compression reads uninitialized memory, harmlessly.
        "--rdbcompression",
        "no",
    ];
    let server = Server::try_under(&wrapper.map(str::to_owned), &settings, vec![("LD_PRELOAD", compile("sized_free"))]);
    server
        .map_err(|log| {
            // Valgrind needs the symbols of the server's C library.
            assert!(log.contains("a function redirection"), "{log}");
            eprintln!("skipped: valgrind cannot run this server, whose C library has no debug symbols");
        })
        .ok()
}

/// Restores damaged dumps, applies damaged effects, and uses the resulting keys.
fn damage(client: &mut Client, dump: &[u8], command: &str) {
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == command).expect("an algorithm");
    let quota = Quota::parse(algorithm, b"700", b"1").expect("a quota");
    let mut limiter = Limiter::new(&quota);
    limiter.request(&quota, Request::forced(3, 1_790_000_000_000_000)).expect("one algorithm");
    let mut effects: Vec<Vec<u8>> = recreate(&Value::Limiter(limiter)).collect();
    effects.push(EffectBytes::take(&quota, 3, 1_790_000_000_000_001).as_ref().to_vec());
    let mut random = Rng::with_seed(3);
    for _ in 0..60 {
        let payload = with_checksum(&damaged(&mut random, dump, dump));
        let _ = client.call_bytes(&[b"RESTORE", b"restored", b"0", &payload, b"REPLACE"]);
        for effect in &effects {
            let _ = client.call_bytes(&[b"RL.APPLY", b"applied", &mutate(&mut random, effect, &effects[0])]);
        }
        for key in ["restored", "applied"] {
            let _ = client.call(&format!("RL.{command} {key} 7 7 FORCE"));
        }
    }
    for effect in &effects {
        client.call_bytes(&[b"RL.APPLY", command.as_bytes(), effect]).expect("applied");
    }
    client.get::<()>("DEL applied restored");
}

/// Several limits, changing policies, peeks and refunds, valid and invalid.
fn several_limits(client: &mut Client) {
    let names = (0..6).map(|number| format!("SLIDINGLOG several{number} 100 1d")).collect::<Vec<_>>();
    for cost in [1, 50, 60, 1_000] {
        client.get::<redis::Value>(&format!("RL.ALL 6 {} COST {cost}", names.join(" ")));
        client.get::<redis::Value>(&format!("RL.ALL 2 TOKENBUCKET new{cost} 100 1/h {} COST {cost}", names[0]));
    }
    for policy in ["SLIDINGLOG 2000 1d TOKENBUCKET 9000 1/h", "SLIDINGLOG 2000 1d FIXEDWINDOW 9 1d LEAKYBUCKET 9 1/h"] {
        client.get::<()>(&format!("RL.POLICY SET policy {policy}"));
        let grow = "for i = 1, 1500 do redis.call('RL.CHECK', 'policy', KEYS[1], 'COST', i % 3 + 1, 'FORCE') end";
        client.eval::<()>(grow, "policy", &[]);
        let dump: Vec<u8> = client.get("DUMP policy");
        assert!(client.call_bytes(&[b"RESTORE", b"policy", b"0", &dump, b"REPLACE"]).is_ok());
        for command in ["RL.PEEK policy", "RL.INFO policy", "RL.REFUND policy 700", "RL.REFUND policy 1"] {
            client.get::<redis::Value>(command);
        }
        client.get::<()>("COPY policy copy REPLACE");
        client.digest("copy");
        damage(client, &dump[..dump.len() - 8], "SLIDINGLOG");
    }
    for command in ["RL.PEEK log", "RL.INFO log", "RL.REFUND log 1", "RL.REFUND log 1500", "RL.REFUND tokenbucket0 1"] {
        client.get::<redis::Value>(command);
    }
    for bad in [
        "RL.ALL 2 SLIDINGLOG several0 100 1d SLIDINGLOG several0 100 1d",
        "RL.ALL 2 SLIDINGLOG several0 100 1d FIXEDWINDOW several1 100 1d",
        "RL.ALL 2 SLIDINGLOG several0 100 1d NO several1 100 1d",
        "RL.ALL 2 SLIDINGLOG several0 100 1d SLIDINGLOG string 100 1d",
        "RL.CHECK none policy",
        "RL.CHECK policy several0",
        "RL.POLICY SET policy NO 1 1",
        "RL.POLICY SET policy TOKENBUCKET 1 1 TOKENBUCKET 1",
        "RL.POLICY LOAD",
    ] {
        client.error(bad);
    }
    client.get::<redis::Value>("RL.POLICY GET policy");
    client.get::<redis::Value>("RL.POLICY LIST");
    client.get::<()>("RL.POLICY SET other SLIDINGCOUNTER 10 1d");
    client.get::<()>("RL.POLICY DEL other");
}

/// Keys of redis-cell in all encodings of strings, and other strings.
fn keys_of_redis_cell(client: &mut Client) {
    let (seconds, _): (u64, u64) = client.get("TIME");
    let head = seconds + 2_000;
    for _ in 0..20 {
        client.get::<()>(&format!("SET number {head}000000000 PXAT {head}000"));
        client.get::<()>(&format!("SET text {head} PXAT {head}000"));
        client.get::<()>("APPEND text 000000000");
        for key in ["number", "text"] {
            for (quantity, limited) in [(0, 0), (5, 1), (9, 1), (1, 0), (1, 0)] {
                let reply = client.limit(&format!("CL.THROTTLE {key} 4 1 1000 {quantity}"));
                assert_eq!(reply[0], limited, "{quantity} of {key}");
            }
        }
    }
    for other in ["", "1", "-100000000000000000", "9223372036854775808", "a string that is longer than nineteen bytes"]
    {
        client.call_bytes(&[b"SET", b"other", other.as_bytes(), b"PX", b"2000000"]).expect("set");
        let _ = client.call("CL.THROTTLE other 4 1 1000 0");
    }
}

/// Commands of operators and of redis-cell's clients.
fn administration(client: &mut Client) {
    for size in ["3", "100", "0", "3"] {
        client.get::<()>(&format!("CONFIG SET ratelimit.top-size {size}"));
        let deny =
            "for i = 1, 20 do redis.call('RL.TOKENBUCKET', KEYS[1] .. string.rep(i, i * 5), 1, 1, 'COST', 2) end";
        client.eval::<()>(deny, "denied:", &[]);
        for command in
            ["RL.STATS", "RL.TOP", "RL.TOP 1000", "INFO ratelimit", "INFO everything", "CONFIG GET ratelimit.*"]
        {
            client.get::<redis::Value>(command);
        }
    }
    client.get::<()>("ACL SETUSER app on nopass ~denied:1* +@all -config");
    client.get::<()>("AUTH app x");
    client.get::<redis::Value>("RL.TOP");
    for bad in
        ["RL.STATS RESET", "RL.STATS NO", "RL.TOP x", "RL.TOP 1 2", "CL.THROTTLE denied:1 1 1", "CL.THROTTLE x 1 1 1"]
    {
        client.error(bad);
    }
    client.get::<()>("AUTH default x");
    client.error_of(&[b"EVAL", b"return redis.call('RL.STATS', 'RESET')", b"0"]);
    client.get::<()>("RL.STATS RESET");

    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after the epoch").as_nanos();
    client.get::<()>(&format!("SET cell {0} PXAT {1}", now + 1_000_000_000_000, now / 1_000_000 + 1_000_000));
    for command in
        ["cell 9000 1 1 0", "cell 9000 1 1 9001", "cell 9000 1 1", "cell 9000 1 1 9000", "new 1 1 1 5", "new 1 1 1"]
    {
        client.limit(&format!("CL.THROTTLE {command}"));
    }
    for bad in ["string 1 1 1", "string 1 1 1 0", "policy 1 1 1", "new 1 0 1", "new 1 1 x", "new 1 1 1 1 1"] {
        client.error(&format!("CL.THROTTLE {bad}"));
    }
    client.get::<()>("CONFIG SET ratelimit.cl-throttle no");
    client.error("CL.THROTTLE new 1 1 1");
    client.error("CONFIG SET ratelimit.top-size x");
}

/// Everything that clients, replicas and files make the module do.
fn mixed_run(server: &Server, client: &mut Client) {
    let replica = Server::start(&[]);
    let mut follower = attach(&replica, server);
    for request in Requests::new(1).take(400).chain(Requests::lasting(1).take(400)) {
        client.limit(&request);
    }
    for bad in ["k", "k 0 1", "k 1 0", "k 1 1 COST", "k 1 1 COST x", "k 1 1 NO", "tokenbucket0 1 1", "fixedwindow0 1 1"]
    {
        let _ = client.call(&format!("RL.LEAKYBUCKET {bad}"));
    }
    client.get::<()>("SET string x");
    assert!(client.error("RL.SLIDINGLOG string 1 1").starts_with("WRONGTYPE"));
    let grow = "for i = 1, 3000 do redis.call('RL.SLIDINGLOG', KEYS[1], 2000, '1d', 'COST', i % 5 + 1, 'FORCE') end";
    client.eval::<()>(grow, "log", &[]);
    for window in ["1ms", "2ms", "1d"] {
        client.limit(&format!("RL.SLIDINGLOG slidinglog0 100000 {window} FORCE"));
    }

    several_limits(client);
    keys_of_redis_cell(client);
    administration(client);

    for (key, command, pace) in [
        ("log", "SLIDINGLOG", "1d"),
        ("tokenbucket0", "TOKENBUCKET", "10/d"),
        ("leakybucket0", "LEAKYBUCKET", "10/d"),
        ("fixedwindow0", "FIXEDWINDOW", "100w"),
        ("slidinglog1", "SLIDINGLOG", "1d"),
        ("slidingcounter0", "SLIDINGCOUNTER", "100w"),
    ] {
        client.limit(&format!("RL.{command} {key} 2000 {pace} FORCE"));
        let dump: Vec<u8> = client.get(&format!("DUMP {key}"));
        assert!(client.call_bytes(&[b"RESTORE", key.as_bytes(), b"0", &dump, b"REPLACE"]).is_ok());
        damage(client, &dump[..dump.len() - 8], command);
        client.get::<()>(&format!("COPY {key} copy REPLACE"));
        client.get::<()>(&format!("RENAME copy {key}"));
        client.get::<i64>(&format!("MEMORY USAGE {key}"));
        client.digest(key);
    }
    catch_up(client, &mut follower);
    assert_eq!(client.digest("log"), follower.digest("log"));

    client.get::<()>("DEBUG RELOAD");
    for command in ["BGSAVE", "CONFIG SET appendonly yes", "BGREWRITEAOF"] {
        client.get::<()>(command);
        client.wait_for_files();
    }
    client.get::<()>("DEBUG LOADAOF");
    assert_eq!(client.digest("log").0, follower.digest("log").0);
    assert!(client.call(&format!("MODULE LOAD {}", module().display())).is_err());
    client.get::<()>("UNLINK log");
    client.get::<()>("DEL slidinglog1 tokenbucket0");
    client.get::<()>("FLUSHALL ASYNC");
    client.limit("RL.SLIDINGLOG log 10 1d");
    eventually("all keys are freed", || client.info("lazyfree_pending_objects") == "0");
}

#[test]
#[ignore = "takes long: make test-faults"]
fn a_mixed_run_has_no_invalid_access_and_no_leak() {
    let Some(mut server) = under_memcheck() else { return };
    mixed_run(&server, &mut server.connect());
    // Without keys, all memory that is left is leaked.
    server.connect().get::<()>("FLUSHALL SYNC");
    server.stop();
    let report = |name: &str| fs::read_to_string(server.folder().join(name)).expect("a report");
    let of_server = format!("memcheck.{}", server.pid());
    // Valgrind must see the allocations to find anything.
    let allocations = report(&of_server).split_once("total heap usage: ").and_then(|(_, rest)| {
        let (count, _) = rest.split_once(' ')?;
        count.replace(',', "").parse::<u64>().ok()
    });
    assert!(
        allocations > Some(50_000),
        "valgrind sees {allocations:?} allocations: does the server have its own allocator?"
    );

    let files = fs::read_dir(server.folder()).expect("files").map(|file| file.expect("a file").file_name());
    let names = files.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("memcheck."));
    let names: Vec<String> = names.collect();
    assert!(names.len() > 2, "expected reports of the server and of its children: {names:?}");
    let ours = |name: &String| {
        let complaints = complaints(&report(name)).into_iter();
        complaints.filter(|complaint| is_ours(complaint, *name == of_server)).collect::<Vec<_>>()
    };
    let ours: Vec<String> = names.iter().flat_map(ours).collect();
    assert!(ours.is_empty(), "{} complaints:\n{}", ours.len(), ours.join("\n\n"));
}

/// The complaints of memcheck, with their stack traces.
fn complaints(report: &str) -> Vec<String> {
    let lines: Vec<&str> = report.lines().filter_map(|line| line.split_once("== ").map(|(_, text)| text)).collect();
    let complaints = lines.split(|line| line.trim().is_empty()).map(|lines| lines.join("\n"));
    complaints.filter(|complaint| complaint.contains("   at 0x")).collect()
}

/// Whether the module is to blame. Servers keep pointers into the middle of strings, and tagged pointers to keys, so
/// memcheck takes these for possibly lost. Of possibly lost memory only the module's own allocations count, and only if
/// no keys are left.
fn is_ours(complaint: &str, no_keys_are_left: bool) -> bool {
    if complaint.contains(" possibly lost in loss record ") {
        no_keys_are_left && complaint.contains("ServerAllocator")
    } else {
        complaint.contains("redis_ratelimit")
    }
}
