//! `RL.STATS` and `INFO`: counters by algorithm and by policy.

mod live_keys;

use std::collections::BTreeMap;

use redis::Value;

use crate::common::live_keys::assert_exact;
use crate::common::multi::SLOW;
use crate::common::policy_file::PolicyFile;
use crate::common::replicas::{attach, catch_up};
use crate::common::stats::{counted, Counted, Row};
use crate::common::{eventually, Client, Server, START};

const POLICY: &str = "RL.POLICY SET login SLIDINGLOG 2 1d FIXEDWINDOW 3 3650d";

/// What a request adds to the counters of a name: allowed, denied, forced, refunded.
type Added<'a> = (&'a str, [i64; 4]);
const ALLOWED: [i64; 4] = [1, 0, 0, 0];
const DENIED: [i64; 4] = [0, 1, 0, 0];
const FORCED: [i64; 4] = [0, 1, 1, 0];
const REFUNDED: [i64; 4] = [0, 0, 0, 1];

/// The expected counters.
#[derive(Default)]
struct Expected(BTreeMap<String, [i64; 4]>);

impl Expected {
    /// Sends a command, whatever its reply, and checks the counters.
    fn after(&mut self, client: &mut Client, command: &str, added: &[Added]) {
        let _ = client.call(command);
        for (name, numbers) in added {
            let sums = self.0.entry((*name).to_owned()).or_default();
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        let counted = counted(client);
        let expected: BTreeMap<&str, _> = self.0.iter().map(|(name, sums)| (name.as_str(), *sums)).collect();
        assert_eq!(counted.requests(), expected, "after {command}");
    }
}

/// The lines of a section of `INFO`.
fn section(info: &str, name: &str) -> Option<Vec<String>> {
    let mut lines = info.lines().skip_while(|line| *line != format!("# {name}"));
    lines.next()?;
    Some(lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The expected sections of `INFO`.
fn sections(counted: &Counted) -> [(&'static str, Vec<String>); 3] {
    let Counted { version, since_millis, keys, log_bytes, algorithms, policies } = counted;
    let line = |name: &str, row: &Row| {
        let Row { allowed, denied, forced, refunded, keys } = row;
        let numbers = format!("allowed={allowed},denied={denied},forced={forced},refunded={refunded},keys={keys}");
        format!("ratelimit_{name}:{numbers}")
    };
    let whole = [
        format!("ratelimit_version:{version}"),
        format!("ratelimit_counted_since_ms:{since_millis}"),
        format!("ratelimit_keys:{keys}"),
        format!("ratelimit_log_bytes:{log_bytes}"),
    ];
    let order = SLOW.map(|(algorithm, _)| line(algorithm, &algorithms[algorithm]));
    // Fields of `INFO` end with a colon, so the server replaces colons in names.
    let policies =
        policies.iter().map(|(name, row)| line(&format!("policy_{}", name.replace(':', "_")), row)).collect();
    [("ratelimit", whole.into()), ("ratelimit_algorithms", order.into()), ("ratelimit_policies", policies)]
}

/// Sends a different number of requests to each algorithm and to two policies.
fn send_some(client: &mut Client) {
    client.get::<()>(POLICY);
    client.get::<()>("RL.POLICY SET a:b/c.d-e TOKENBUCKET 10 1/d");
    for (number, (algorithm, pace)) in SLOW.into_iter().enumerate() {
        for request in 0..3 + 2 * number {
            client.limit(&format!("RL.{algorithm} {algorithm}{} 1 {pace}", request % (2 + number)));
        }
        client.limit(&format!("RL.{algorithm} {algorithm}0 1 {pace} FORCE"));
    }
    for request in ["login user", "login user", "login user", "login user FORCE", "a:b/c.d-e other"] {
        client.get::<Value>(&format!("RL.CHECK {request}"));
    }
    client.get::<Value>("RL.REFUND user 1");
    client.get::<Value>("RL.REFUND SLIDINGCOUNTER0 1");
}

#[test]
fn the_reply_is_a_map_in_both_protocols() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    let probes = Counted::of(client.get("RL.STATS"));
    assert_eq!(
        probes.row("FIXEDWINDOW").requests(),
        [2, 0, 0, 0],
        "two requests of the test server's check of its clock"
    );
    client.get::<()>("RL.STATS RESET");
    send_some(&mut client);
    let flat = client.call("RL.STATS").expect("a reply");
    assert!(matches!(&flat, Value::Array(pairs) if pairs.len() == 12), "{flat:?}");
    client.get::<Value>("HELLO 3");
    let map = client.call("RL.STATS").expect("a reply");
    assert!(matches!(&map, Value::Map(pairs) if pairs.len() == 6), "{map:?}");
    let counted = Counted::of(map);
    assert_eq!(Counted::of(flat), counted);

    assert_eq!(counted.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(counted.since_millis.cast_unsigned(), START / 1_000);
    let names: Vec<&String> = counted.algorithms.keys().collect();
    assert_eq!(names, ["FIXEDWINDOW", "LEAKYBUCKET", "SLIDINGCOUNTER", "SLIDINGLOG", "TOKENBUCKET"]);
    assert_eq!(counted.row("TOKENBUCKET"), Row { allowed: 2, denied: 2, forced: 1, refunded: 0, keys: 2 });
    assert_eq!(counted.row("SLIDINGCOUNTER"), Row { allowed: 6, denied: 6, forced: 1, refunded: 1, keys: 6 });
    assert_eq!(counted.row("login"), Row { allowed: 2, denied: 2, forced: 1, refunded: 1, keys: 1 });
    assert_eq!(counted.row("a:b/c.d-e"), Row { allowed: 1, keys: 1, ..Row::default() });
    assert_eq!(counted.keys, 2 + 3 + 4 + 5 + 6 + 2);
    assert!(counted.log_bytes > 0);
}

#[test]
fn info_shows_the_same_counters() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for round in 0..2 {
        let expected = sections(&counted(&mut client));
        for query in ["INFO ratelimit", "INFO everything", "INFO modules", "INFO all ratelimit"] {
            let info: String = client.get(query);
            for (name, lines) in &expected {
                assert_eq!(section(&info, name).as_ref(), Some(lines), "{name} in {query}, round {round}");
            }
        }
        for (name, lines) in &expected[1..] {
            let info: String = client.get(&format!("INFO {name}"));
            assert_eq!(section(&info, name).as_ref(), Some(lines), "{name}, round {round}");
            assert_eq!(info.matches("# ").count(), 1, "{info}");
        }
        send_some(&mut client);
    }
    for query in ["INFO", "INFO default", "INFO all", "INFO server", "INFO keyspace", "INFO rate"] {
        let info: String = client.get(query);
        assert!(!info.contains("ratelimit_keys") && !info.contains("ratelimit_TOKENBUCKET"), "{query}: {info}");
    }
}

#[test]
fn every_request_counts_once() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut expected = Expected::default();
    for (algorithm, pace) in SLOW {
        for (request, added) in [
            (format!("RL.{algorithm} {algorithm} 2 {pace}"), ALLOWED),
            (format!("RL.{algorithm} {algorithm} 2 {pace} COST 2"), DENIED),
            (format!("RL.{algorithm} {algorithm} 2 {pace} COST 3"), DENIED),
            (format!("RL.{algorithm} {algorithm} 2 {pace} COST 2 FORCE"), FORCED),
            (format!("RL.{algorithm} other:{algorithm} 2 {pace} FORCE"), ALLOWED),
            (format!("RL.REFUND {algorithm} 1"), REFUNDED),
            (format!("RL.REFUND {algorithm} 1000"), REFUNDED),
        ] {
            expected.after(&mut client, &request, &[(algorithm, added)]);
        }
        // Nothing is refunded or taken.
        for request in [
            format!("RL.REFUND {algorithm} 1"),
            "RL.REFUND none 1".to_owned(),
            format!("RL.PEEK other:{algorithm} COST 2"),
            format!("RL.INFO other:{algorithm}"),
        ] {
            expected.after(&mut client, &request, &[]);
        }
    }
}

#[test]
fn of_several_limits_all_count_if_allowed_and_else_those_that_deny() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut expected = Expected::default();
    let all = "RL.ALL 3 TOKENBUCKET a 9 1/d SLIDINGLOG b 2 1d SLIDINGLOG c 4 1d";
    let (bucket, log) = ("TOKENBUCKET", "SLIDINGLOG");
    expected.after(&mut client, &format!("{all} COST 2"), &[(bucket, ALLOWED), (log, ALLOWED), (log, ALLOWED)]);
    expected.after(&mut client, &format!("{all} COST 2"), &[(log, DENIED)]);
    expected.after(&mut client, &format!("{all} COST 3"), &[(log, DENIED), (log, DENIED)]);
    expected.after(&mut client, &format!("{all} COST 8"), &[(bucket, DENIED), (log, DENIED), (log, DENIED)]);
    expected.after(&mut client, "RL.ALL 1 SLIDINGCOUNTER d 1 3650d", &[("SLIDINGCOUNTER", ALLOWED)]);
}

#[test]
fn a_request_with_a_policy_counts_for_the_policy_only() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut expected = Expected::default();
    for policy in [POLICY, "RL.POLICY SET other SLIDINGLOG 9 1d FIXEDWINDOW 9 3650d"] {
        expected.after(&mut client, policy, &[]);
    }
    for (command, added) in [
        ("RL.CHECK login key", &[("login", ALLOWED)][..]),
        ("RL.CHECK login key COST 2", &[("login", DENIED)]),
        ("RL.CHECK login key COST 2 FORCE", &[("login", FORCED)]),
        ("RL.CHECK login free FORCE", &[("login", ALLOWED)]),
        ("RL.PEEK key", &[]),
        ("RL.REFUND key 1", &[("login", REFUNDED)]),
        // The key has another policy now.
        ("RL.CHECK other key", &[("other", ALLOWED)]),
        ("RL.REFUND key 1", &[("other", REFUNDED)]),
        ("RL.CHECK login key COST 3", &[("login", DENIED)]),
        ("RL.REFUND key 1", &[("other", REFUNDED)]),
        ("RL.REFUND key 100", &[("other", REFUNDED)]),
        ("RL.REFUND key 1", &[]),
        ("RL.CHECK none key", &[]),
    ] {
        expected.after(&mut client, command, added);
    }
    // A refund for a deleted policy does not count.
    client.get::<()>("RL.CHECK other key");
    client.get::<()>("RL.POLICY DEL other");
    expected.0.remove("other");
    expected.after(&mut client, "RL.REFUND key 1", &[]);
}

#[test]
fn cl_throttle_counts_as_a_token_bucket() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut expected = Expected::default();
    for (command, added) in [
        ("CL.THROTTLE key 1 1 86400", &[("TOKENBUCKET", ALLOWED)][..]),
        ("CL.THROTTLE key 1 1 86400 2", &[("TOKENBUCKET", DENIED)]),
        ("CL.THROTTLE key 1 1 86400 0", &[]),
        ("CL.THROTTLE none 1 1 86400 0", &[]),
        ("CL.THROTTLE none 1 1 86400 3", &[("TOKENBUCKET", DENIED)]),
        ("CL.THROTTLE key 1 1", &[]),
        ("CL.THROTTLE key 1 1 0", &[]),
        ("RL.REFUND key 1", &[("TOKENBUCKET", REFUNDED)]),
        ("CONFIG SET ratelimit.cl-throttle no", &[]),
        ("CL.THROTTLE key 1 1 86400", &[]),
    ] {
        expected.after(&mut client, command, added);
    }
    assert_eq!(counted(&mut client).row("TOKENBUCKET").keys, 1);
}

#[test]
fn errors_do_not_count() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>(POLICY);
    client.get::<()>("SET string x");
    client.get::<()>("RL.CHECK login policy");
    client.get::<()>("RL.TOKENBUCKET bucket 10 1/d");
    client.get::<()>("RL.STATS RESET");
    let mut expected = Expected::default();
    for command in [
        "RL.TOKENBUCKET string 10 1",
        "RL.TOKENBUCKET policy 10 1",
        "RL.SLIDINGLOG bucket 10 1",
        "RL.SLIDINGLOG log 10",
        "RL.SLIDINGLOG log 0 1",
        "RL.SLIDINGLOG log 10 1 COST x",
        "RL.SLIDINGLOG log 10 1 NO",
        "RL.ALL 2 TOKENBUCKET a 10 1 SLIDINGLOG string 10 1",
        "RL.ALL 2 TOKENBUCKET a 10 1 SLIDINGLOG a 10 1",
        "RL.ALL 2 TOKENBUCKET a 10 1 SLIDINGLOG bucket 10 1",
        "RL.CHECK login string",
        "RL.CHECK login bucket",
        "RL.CHECK none key",
        "RL.CHECK login key COST 0",
        "RL.REFUND string 1",
        "RL.REFUND bucket 0",
        "CL.THROTTLE string 1 1 1",
        "CL.THROTTLE policy 1 1 1",
        "CL.THROTTLE policy 1 1 1 0",
        "RL.STATS NO",
        "RL.STATS RESET NO",
        "RL.TOP 0",
    ] {
        assert!(client.call(command).is_err(), "{command}");
        expected.after(&mut client, command, &[]);
    }
    for (setting, code) in [("maxmemory 1", "OOM"), ("maxmemory 0", ""), ("min-replicas-to-write 1", "NOREPLICAS")] {
        client.get::<()>(&format!("CONFIG SET {setting}"));
        for command in ["RL.SLIDINGLOG log 10 1", "RL.CHECK login key", "CL.THROTTLE key 1 1 1"] {
            if !code.is_empty() {
                assert!(client.error(command).starts_with(code), "{command}");
                expected.after(&mut client, command, &[]);
            }
        }
    }
}

#[test]
fn a_reset_clears_the_counters_and_keeps_the_keys() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    send_some(&mut client);
    client.get::<()>("RL.POLICY SET unused SLIDINGLOG 2 1d");
    let before = counted(&mut client);
    server.clock().advance_ms(1_234);
    assert_eq!(client.get::<String>("rl.stats reset"), "OK");
    let after = counted(&mut client);
    assert_eq!(after.since_millis, before.since_millis + 1_234);
    assert!(after.requests().is_empty(), "{after:?}");
    assert_eq!((after.keys, after.log_bytes), (before.keys, before.log_bytes));
    for (rows_after, rows_before) in [(&after.algorithms, &before.algorithms), (&after.policies, &before.policies)] {
        let keys = |rows: &BTreeMap<String, Row>| rows.iter().map(|(name, row)| (name.clone(), row.keys)).collect();
        let (after, before): (Vec<_>, Vec<_>) = (keys(rows_after), keys(rows_before));
        assert_eq!(after, before);
    }
    assert_eq!(client.get::<Vec<Value>>("RL.TOP").len(), 4);
    assert!(!format!("{:?}", client.get::<Value>("RL.TOP")).contains("user"), "RL.TOP is reset too");
    send_some(&mut client);
    assert!(counted(&mut client).row("TOKENBUCKET").denied > 0);
    assert_exact(&mut client, "RL.STATS RESET");
}

#[test]
fn a_policy_that_is_set_again_keeps_its_counters() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut expected = Expected::default();
    client.get::<()>(POLICY);
    expected.after(&mut client, "RL.CHECK login key", &[("login", ALLOWED)]);
    expected.after(&mut client, "RL.POLICY SET login TOKENBUCKET 3 1/d", &[]);
    expected.after(&mut client, "RL.CHECK login key COST 4", &[("login", DENIED)]);
    expected.after(&mut client, "DEBUG RELOAD", &[]);
    expected.after(&mut client, "RL.CHECK login key", &[("login", ALLOWED)]);
    expected.after(&mut client, "RL.POLICY SET login TOKENBUCKET 5 1/d", &[]);
    expected.after(&mut client, "DEBUG RELOAD", &[]);
    expected.after(&mut client, "DEBUG RELOAD", &[]);
    expected.after(&mut client, "RL.CHECK login key", &[("login", ALLOWED)]);
}

#[test]
fn a_deleted_policy_is_listed_while_it_has_keys() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for reload in ["PING", "DEBUG RELOAD"] {
        client.get::<()>(POLICY);
        client.get::<()>("RL.POLICY SET unused SLIDINGLOG 2 1d");
        client.get::<()>("RL.CHECK login key");
        client.get::<()>("RL.CHECK login other");
        client.get::<()>("RL.CHECK login other COST 9");
        assert_eq!(counted(&mut client).row("login"), Row { allowed: 2, denied: 1, keys: 2, ..Row::default() });
        client.get::<()>(reload);
        client.get::<()>("RL.POLICY DEL login");
        client.get::<()>("RL.POLICY DEL unused");
        assert_eq!(
            counted(&mut client).policies,
            BTreeMap::from([("login".to_owned(), Row { keys: 2, ..Row::default() })])
        );
        client.get::<()>("DEL key");
        assert_eq!(counted(&mut client).row("login").keys, 1);
        let info: String = client.get("INFO ratelimit_policies");
        assert!(info.contains("ratelimit_policy_login:allowed=0,denied=0,forced=0,refunded=0,keys=1"), "{info}");
        client.get::<()>("DEL other");
        assert!(counted(&mut client).policies.is_empty());
        // A new policy of the same name starts at zero.
        client.get::<()>(POLICY);
        assert_eq!(counted(&mut client).row("login"), Row::default(), "after {reload}");
        client.get::<()>("RL.POLICY DEL login");
    }
}

#[test]
fn counters_from_before_a_reset_do_not_come_back() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>(POLICY);
    client.get::<()>("RL.CHECK login key");
    client.get::<()>("DEBUG RELOAD");
    client.get::<()>("RL.POLICY DEL login");
    client.get::<()>("RL.STATS RESET");
    client.get::<()>(POLICY);
    assert_eq!(counted(&mut client).row("login"), Row { keys: 1, ..Row::default() });
}

#[test]
fn a_policy_of_a_file_keeps_its_counters_when_the_file_is_read_again() {
    let file = PolicyFile::new("login SLIDINGLOG 2 1d\nother SLIDINGLOG 2 1d");
    let server = file.server(&[]);
    let mut client = server.connect();
    let mut expected = Expected::default();
    expected.after(&mut client, "RL.CHECK login key", &[("login", ALLOWED)]);
    expected.after(&mut client, "RL.CHECK other key COST 3", &[("other", DENIED)]);
    expected.after(&mut client, "RL.POLICY LOAD", &[]);
    file.replace("login SLIDINGLOG 3 1d\nnew SLIDINGLOG 2 1d");
    eventually("the file is read", || client.get::<Vec<String>>("RL.POLICY LIST") == ["login", "new"]);
    expected.0.remove("other");
    expected.after(&mut client, "RL.CHECK login key COST 9", &[("login", DENIED)]);
    expected.after(&mut client, "RL.CHECK new key", &[("new", ALLOWED)]);
    expected.after(&mut client, "DEBUG RELOAD", &[]);
    expected.after(&mut client, "RL.POLICY SET login SLIDINGLOG 4 1d", &[]);
    expected.after(&mut client, "RL.POLICY LOAD", &[]);
    expected.after(&mut client, "RL.CHECK login key FORCE COST 9", &[("login", FORCED)]);
}

#[test]
fn replication_counts_keys_and_no_requests() {
    for load in ["disabled", "swapdb"] {
        let primary = Server::start(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
        let replica = Server::start(&["--repl-diskless-load", load]);
        let (mut client, mut follower) = (primary.connect(), replica.connect());
        send_some(&mut client);
        // A replica keeps its own counters, also of a policy that its primary has too.
        client.get::<()>("RL.POLICY SET both SLIDINGLOG 100 1d");
        follower.get::<()>("RL.POLICY SET both SLIDINGLOG 9 1d");
        follower.get::<()>("RL.POLICY SET own SLIDINGLOG 9 1d");
        let mut expected = Expected::default();
        expected.after(&mut follower, "RL.CHECK both key", &[("both", ALLOWED)]);
        expected.after(&mut follower, "RL.TOKENBUCKET bucket 1 1 COST 2", &[("TOKENBUCKET", DENIED)]);
        follower.get::<()>("RL.CHECK own key");
        attach(&replica, &primary);
        send_some(&mut client);
        client.get::<()>("RL.CHECK both key");
        catch_up(&mut client, &mut follower);
        expected.after(&mut follower, "PING", &[]);
        expected.after(&mut follower, "RL.TOKENBUCKET bucket 1 1", &[]);
        assert!(follower.error("RL.TOKENBUCKET bucket 1 1").starts_with("READONLY"));
        let [there, here] = [&mut client, &mut follower].map(counted);
        assert_eq!(here.keys, there.keys, "{load}");
        for name in there.algorithms.keys().chain(there.policies.keys()) {
            assert_eq!(here.row(name).keys, there.row(name).keys, "{name}, {load}");
        }
        // A replica resets only its own counters.
        follower.get::<()>("RL.STATS RESET");
        assert!(counted(&mut follower).requests().is_empty());
        assert_eq!(counted(&mut client).requests(), there.requests());
    }
}

/// Starts a slow full sync of a replica with a primary that has these policies.
fn begin_to_load(follower: &mut Client, policies: &[&str]) -> Server {
    let primary = Server::start(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    let mut client = primary.connect();
    for policy in policies {
        client.get::<()>(policy);
    }
    client.get::<()>("CONFIG SET rdbcompression no");
    // More than the buffers of the connection hold.
    client.get::<()>("DEBUG POPULATE 2000 key 10000");
    follower.get::<()>("CONFIG SET key-load-delay 100000");
    follower.get::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    eventually("it loads", || follower.info("loading") == "1");
    primary
}

#[test]
fn counters_survive_failed_full_syncs_but_not_a_reset() {
    let settings = ["--repl-diskless-load", "on-empty-db", "--loading-process-events-interval-bytes", "1024"];
    for resets in [false, true] {
        let replica = Server::start(&settings);
        let mut follower = replica.connect();
        follower.get::<()>(POLICY);
        let mut expected = Expected::default();
        expected.after(&mut follower, "RL.CHECK login key COST 9", &[("login", DENIED)]);
        for _ in 0..2 {
            begin_to_load(&mut follower, &[]).crash();
            follower.get::<()>("CONFIG SET key-load-delay 0");
            eventually("it gives up", || follower.info("loading") == "0");
            assert_eq!(follower.info("master_link_status"), "down");
        }
        if resets {
            follower.get::<()>("RL.STATS RESET");
            expected = Expected::default();
        }
        let _primary = begin_to_load(&mut follower, &[POLICY]);
        follower.get::<()>("CONFIG SET key-load-delay 0");
        eventually("it is attached", || follower.info("master_link_status") == "up");
        expected.after(&mut follower, "PING", &[]);
        assert_eq!(follower.get::<Vec<String>>("RL.POLICY LIST"), ["login"]);
    }
}

#[test]
fn loading_counts_keys_and_no_requests() {
    for preamble in ["yes", "no"] {
        let mut server = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]);
        let mut client = server.connect();
        send_some(&mut client);
        for rewritten in [false, true] {
            if rewritten {
                client.get::<()>("BGREWRITEAOF");
                client.wait_for_files();
            }
            let keys = counted(&mut client).keys;
            server.restart();
            client = server.connect();
            let counted = counted(&mut client);
            assert!(counted.requests().is_empty(), "{counted:?}");
            assert_eq!(counted.keys, keys);
            assert_eq!([counted.row("login").keys, counted.row("a:b/c.d-e").keys], [1, 1]);
        }
    }
}
