//! `RL.ALL`: several limits on several keys, all of them or none.

mod propagation;

use std::collections::{BTreeSet, HashMap};
use std::thread;

use fastrand::Rng;
use redis::Value;

use crate::common::multi::{all, ask, reply, requests, Limit, SLOW};
use crate::common::traffic::all_digests;
use crate::common::Server;

#[test]
fn a_request_that_one_limit_denies_takes_from_none() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (denying, (algorithm, _)) in SLOW.iter().enumerate() {
        for place in 0..SLOW.len() {
            client.get::<()>("FLUSHALL");
            let mut limits: Vec<_> = SLOW.iter().map(|it| Limit::slow(*it, 10)).collect();
            // The denying limit is in this position among others, some of which are new.
            limits.rotate_left((SLOW.len() + denying - place) % SLOW.len());
            for (index, limit) in limits.iter().enumerate().filter(|(index, _)| *index == place || index % 2 == 0) {
                client.limit(&limit.plain(if index == place { 9 } else { 3 }));
            }
            let before = all_digests(&mut client);
            let (allowed, wait, each) = ask(&mut client, &all(&limits, 2));
            let context = format!("{algorithm} in place {place}: {each:?}");
            assert_eq!(all_digests(&mut client), before, "{context}");
            assert_eq!(allowed, 0, "{context}");
            assert!(wait > 0 && wait == each[place][3], "{context}");
            for (index, reply) in each.iter().enumerate() {
                let left = [(1, 10, 10), (1, 10, 7), (0, 10, 1)];
                let expected = left[if index == place { 2 } else { usize::from(index % 2 == 0) }];
                assert_eq!((reply[0], reply[1], reply[2]), expected, "{context}");
                assert_eq!(reply.len(), if limits[index].algorithm == "LEAKYBUCKET" { 6 } else { 5 });
                assert_eq!(reply.get(5).copied().unwrap_or(0), 0, "{context}: a denied request has no delay");
            }
            // With a smaller cost all limits allow the request, and all are taken from.
            let (allowed, wait, each) = ask(&mut client, &all(&limits, 1));
            assert_eq!((allowed, wait), (1, 0), "{context}");
            let left = |index| if index == place { 0 } else { 9 - 3 * i64::from(index % 2 == 0) };
            assert!(each.iter().enumerate().all(|(index, reply)| reply[..3] == [1, 10, left(index)]), "{each:?}");
            assert_eq!(client.get::<i64>("DBSIZE"), 5);
        }
    }
}

#[test]
fn each_limit_has_its_reply_and_the_wait_is_the_longest() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let request = "RL.ALL 3 TOKENBUCKET t 10 2 LEAKYBUCKET l 4 1 SLIDINGLOG s 5 10s COST 2";
    let first = reply("1 0; 1 10 8 0 1000; 1 4 2 0 2000 0; 1 5 3 0 10000");
    assert_eq!(ask(&mut client, request), first);
    server.clock().advance_ms(500);
    let second = reply("1 0; 1 10 7 0 1500; 1 4 0 0 3500 1500; 1 5 1 0 10000");
    assert_eq!(ask(&mut client, request), second);
    let denied = reply("0 9500; 1 10 7 0 1500; 0 4 0 1500 3500 0; 0 5 1 9500 10000");
    assert_eq!(ask(&mut client, request), denied);
    assert_eq!(ask(&mut client, request), denied, "a denied request takes nothing");
    server.clock().advance_ms(9_499);
    let almost = reply("0 1; 1 10 10 0 0; 1 4 4 0 0 0; 0 5 1 1 501");
    assert_eq!(ask(&mut client, request), almost);
    server.clock().advance_ms(1);
    let third = reply("1 0; 1 10 8 0 1000; 1 4 2 0 2000 0; 1 5 1 0 10000");
    assert_eq!(ask(&mut client, request), third);
    // A limit that never allows the request outweighs every wait.
    let before = all_digests(&mut client);
    let never = reply("0 -1; 1 10 8 0 1000; 0 4 2 -1 2000 0; 0 5 1 10000 10000");
    assert_eq!(ask(&mut client, &request.replace("COST 2", "COST 5")), never);
    assert_eq!(all_digests(&mut client), before);
}

#[test]
fn a_denied_request_is_allowed_after_the_wait_and_not_before() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let mut waited = 0;
    for (limits, cost) in requests(500) {
        let request = all(&limits, cost);
        let (allowed, wait, _) = ask(&mut client, &request);
        if allowed == 1 {
            continue;
        }
        waited += 1;
        server.clock().advance_ms(u64::try_from(wait).expect("none costs more than its limit") - 1);
        assert_eq!(ask(&mut client, &request).1, 1, "{request}: after {wait} ms but one");
        server.clock().advance_ms(1);
        assert_eq!(ask(&mut client, &request).0, 1, "{request}: after {wait} ms");
    }
    assert!(waited > 50, "only {waited} were denied");
}

#[test]
fn it_replies_and_takes_like_the_plain_commands_one_by_one() {
    let (mut server, mut twin) = (Server::with_clock(&[]), Server::with_clock(&[]));
    let (mut client, mut one_by_one) = (server.connect(), twin.connect());
    let (mut time, mut in_force, mut denied) = (Rng::with_seed(4), HashMap::new(), 0);
    for (limits, cost) in requests(500) {
        let step = time.u64(..4_000_000);
        server.clock().advance_us(step);
        twin.clock().advance_us(step);
        let (allowed, wait, each) = ask(&mut client, &all(&limits, cost));
        assert_eq!(allowed, each.iter().map(|reply| reply[0]).min().expect("a limit"));
        assert_eq!(wait, each.iter().map(|reply| reply[3]).max().expect("a limit"));
        denied += 1 - allowed;
        for (limit, reply) in limits.iter().zip(each) {
            if allowed == 1 || reply[0] == 0 {
                assert_eq!(reply, one_by_one.limit(&limit.plain(cost)), "{}", limit.plain(cost));
            } else if in_force.get(&limit.key) == Some(&limit.quota) {
                // A peek returns the same, except for the delay.
                let mut seen: Option<Vec<i64>> = one_by_one.get(&format!("RL.PEEK {} COST {cost}", limit.key));
                seen.iter_mut().filter_map(|seen| seen.get_mut(5)).for_each(|delay| *delay = 0);
                assert!(seen.is_none_or(|seen| seen == reply), "{}", limit.plain(cost));
            }
            if allowed == 1 {
                in_force.insert(limit.key.clone(), limit.quota.clone());
            }
        }
    }
    assert!((50..450).contains(&denied), "{denied} of 500 were denied");
    assert_eq!(all_digests(&mut client), all_digests(&mut one_by_one));
}

#[test]
fn errors_of_bad_requests_say_what_is_wrong_and_change_nothing() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("RL.POLICY SET some SLIDINGLOG 10 1d FIXEDWINDOW 10 3650d");
    client.get::<Value>("RL.CHECK some policy");
    client.get::<()>("SET string 1");
    client.limit("RL.FIXEDWINDOW a 10 3650d");
    client.limit("RL.TOKENBUCKET bucket 10 1/d");
    let before = all_digests(&mut client);
    // Limits that allow the request, on an existing key and on a new one.
    let (a, new) = ("FIXEDWINDOW a 10 3650d", "SLIDINGLOG new 10 1d");
    let amount = "expected an integer from 1 to 9007199254740991";
    let again = "delete the key to start over";
    let mut bad = vec![
        (format!("2 {a}"), "ERR numlimits is 2, but limits given: 1; each limit is ALGORITHM key a b".to_owned()),
        (
            format!("3 {a} {new} FIXEDWINDOW b 10"),
            "ERR numlimits is 3, but limits given: 2; each limit is ALGORITHM key a b".to_owned(),
        ),
        (format!("1 {a} {new}"), "ERR unknown option 'SLIDINGLOG': expected COST n".to_owned()),
        (format!("2 {new} {a} FORCE"), "ERR unknown option 'FORCE': expected COST n".to_owned()),
        (format!("2 {new} {a} COST 1 FORCE"), "ERR unknown option 'FORCE': expected COST n".to_owned()),
        (format!("2 {new} {a} COST"), "ERR COST requires a value: an integer from 1 to 9007199254740991".to_owned()),
        (format!("2 {new} {a} COST 0"), format!("ERR invalid COST '0': {amount}")),
        (format!("2 {new} {a} COST 1 cost 1"), "ERR duplicate option COST".to_owned()),
        (
            format!("3 {a} {new} FIXED b 1 1"),
            "ERR limit 3: unknown algorithm 'FIXED': expected TOKENBUCKET, LEAKYBUCKET, FIXEDWINDOW, SLIDINGLOG or \
             SLIDINGCOUNTER"
                .to_owned(),
        ),
        (format!("2 {a} SLIDINGLOG b 0 1d"), format!("ERR limit 2: invalid limit '0': {amount}")),
        (format!("2 LEAKYBUCKET b -1 1 {a}"), format!("ERR limit 1: invalid capacity '-1': {amount}")),
        (
            format!("2 {a} TOKENBUCKET b 36501 1/d"),
            "ERR limit 2: invalid rate '1/d': a bucket of 36501 would take longer than 100 years to fill".to_owned(),
        ),
        (format!("3 {a} {new} {a}"), "ERR duplicate key 'a'".to_owned()),
        (format!("3 {a} {new} TOKENBUCKET new 1 1"), "ERR duplicate key 'new'".to_owned()),
    ];
    let bucket = "holds a TOKENBUCKET limiter, not FIXEDWINDOW";
    let policy = "holds the limits of a policy (SLIDINGLOG, FIXEDWINDOW), not FIXEDWINDOW";
    for (key, problem) in [
        ("string", "Operation against a key holding the wrong kind of value: 'string'".to_owned()),
        ("bucket", format!("key 'bucket' {bucket}; {again}")),
        ("policy", format!("key 'policy' {policy}; {again}")),
    ] {
        let odd = format!("FIXEDWINDOW {key} 10 3650d");
        for order in [format!("{odd} {a} {new}"), format!("{a} {odd} {new}"), format!("{new} {a} {odd}")] {
            bad.push((format!("3 {order}"), format!("WRONGTYPE {problem}")));
        }
    }
    for count in ["0", "129", "abc", "01", "+2", "-1", "2.0", "18446744073709551618"] {
        let problem = format!("ERR invalid numlimits '{count}': expected an integer from 1 to 128");
        bad.push((format!("{count} {a} {new}"), problem));
    }
    for (arguments, problem) in bad {
        assert_eq!(client.error(&format!("RL.ALL {arguments}")), problem);
        assert_eq!(all_digests(&mut client), before, "{arguments}");
        assert_eq!(client.get::<i64>("DBSIZE"), 4);
    }
    for short in ["RL.ALL", "RL.ALL 1", "RL.ALL 1 FIXEDWINDOW a 10"] {
        let arity = client.error(short).to_uppercase();
        assert_eq!(arity, "ERR WRONG NUMBER OF ARGUMENTS FOR 'RL.ALL' COMMAND");
    }
    let (allowed, _, each) = ask(&mut client, &format!("rl.all 2 fixedwindow a 10 3650d {new} cost 2"));
    assert_eq!((allowed, each[0][2], each[1][2]), (1, 7, 8), "names are case-insensitive");
}

#[test]
fn a_request_has_up_to_128_limits_and_the_server_finds_all_their_keys() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let request = |count| {
        let limit = |key| Limit { key: format!("key{key}"), ..Limit::slow(SLOW[key % 5], 10) };
        let limits: Vec<_> = (0..count).map(limit).collect();
        (limits.iter().map(|limit| limit.key.clone()).collect::<Vec<_>>(), all(&limits, 4))
    };
    for count in [1, 3, 128] {
        let (keys, request) = request(count);
        assert_eq!(client.get::<Vec<String>>(&format!("COMMAND GETKEYS {request}")), keys);
        assert_eq!(client.get::<Vec<String>>(&format!("COMMAND GETKEYS RL.APPLY {}", keys.join(" x ") + " x")), keys);
        client.get::<()>("FLUSHALL");
        let (allowed, _, each) = ask(&mut client, &request);
        assert_eq!((allowed, each.len()), (1, count));
        assert!(each.iter().all(|reply| reply[..3] == [1, 10, 6]), "{each:?}");
        assert_eq!(client.get::<usize>("DBSIZE"), count);
    }
    let before = all_digests(&mut client);
    let problem = "ERR invalid numlimits '129': expected an integer from 1 to 128";
    assert_eq!(client.error(&request(129).1), problem);
    assert_eq!(all_digests(&mut client), before);
}

#[test]
fn the_server_finds_the_keys_with_up_to_three_words_after_the_limits() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for count in [1, 2, 3, 31] {
        let keys: Vec<String> = (0..count).map(|key| format!("key{key}")).collect();
        let limits: Vec<String> = keys.iter().map(|key| format!("FIXEDWINDOW {key} 10 3650d")).collect();
        let limits = limits.join(" ");
        for more in ["", " COST", " COST 3", " COST 3 PARTIAL"] {
            let request = format!("RL.ALL {count} {limits}{more}");
            assert_eq!(client.get::<Vec<String>>(&format!("COMMAND GETKEYS {request}")), keys, "{request}");
            let with_flags: Vec<(String, BTreeSet<String>)> = client.get(&format!("COMMAND GETKEYSANDFLAGS {request}"));
            let (found, flags): (Vec<_>, Vec<_>) = with_flags.into_iter().unzip();
            assert_eq!(found, keys, "{request}");
            let changed: BTreeSet<String> = ["RW", "access", "update"].map(str::to_owned).into();
            assert!(flags.iter().all(|flags| *flags == changed), "{request}: {flags:?}");
        }
    }
    // So clients need not ask for the keys.
    let info: Vec<Vec<Value>> = client.get("COMMAND INFO RL.ALL");
    assert_eq!(info[0][3..6], [Value::Int(3), Value::Int(-3), Value::Int(4)], "first, last key and step");
    // The server never asks the module for the keys of a command.
    let names: Vec<String> = client.get("COMMAND LIST FILTERBY MODULE ratelimit");
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let info: Vec<Vec<Value>> = client.get(&format!("COMMAND INFO {name}"));
        assert!(!format!("{:?}", info[0][2]).contains("movablekeys"), "{name}: {:?}", info[0][2]);
    }
}

#[test]
fn acl_key_patterns_apply_to_every_key() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("ACL SETUSER app on nopass ~a ~b +rl.all");
    client.get::<()>("ACL SETUSER reader on nopass ~a %R~b +rl.all");
    for key in ["a", "b", "c"] {
        client.limit(&format!("RL.FIXEDWINDOW {key} 10 3650d"));
    }
    let before = all_digests(&mut client);
    let request = |keys: &[&str]| {
        let limits = keys.iter().map(|key| format!(" FIXEDWINDOW {key} 10 3650d"));
        format!("RL.ALL {}{}", keys.len(), limits.collect::<String>())
    };
    let mut app = server.connect();
    app.get::<()>("AUTH app x");
    for keys in [["c", "a", "b"], ["a", "c", "b"], ["a", "b", "c"], ["a", "b", "new"]] {
        assert!(app.error(&request(&keys)).starts_with("NOPERM"), "{keys:?}");
    }
    assert!(app.error("RL.FIXEDWINDOW a 10 3650d").starts_with("NOPERM"));
    app.get::<()>("AUTH reader x");
    for keys in [["a", "b"], ["b", "a"]] {
        assert!(app.error(&request(&keys)).starts_with("NOPERM"), "read permission is not enough for a write");
    }
    assert_eq!(all_digests(&mut client), before);
    assert_eq!(ask(&mut app, &request(&["a"])).0, 1);
    app.get::<()>("AUTH app x");
    assert_eq!(ask(&mut app, &request(&["a", "b"])).0, 1);
}

#[test]
fn watch_fails_after_changes_only() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let request = "RL.ALL 2 FIXEDWINDOW a 10 3650d SLIDINGLOG b 5 1d COST";
    for key in ["a", "b"] {
        client.get::<()>("FLUSHALL");
        // First both keys are new, then both exist.
        for (cost, changes) in [(6, false), (1, true), (5, false), (1, true)] {
            client.get::<()>(&format!("WATCH {key}"));
            assert_eq!(ask(&mut other, &format!("{request} {cost}")).0 == 1, changes);
            client.get::<()>("MULTI");
            client.get::<()>("PING");
            assert_eq!(client.get::<Option<Vec<String>>>("EXEC").is_none(), changes, "{key}: a cost of {cost}");
        }
    }
}

#[test]
fn a_full_server_replies_with_oom() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.limit("RL.FIXEDWINDOW known 10 3650d");
    let before = all_digests(&mut client);
    client.get::<()>("CONFIG SET maxmemory 1");
    for keys in [["known", "new"], ["new", "known"]] {
        let [first, second] = keys.map(|key| format!("FIXEDWINDOW {key} 10 3650d"));
        assert!(client.error(&format!("RL.ALL 2 {first} {second}")).starts_with("OOM"));
    }
    client.get::<()>("CONFIG SET maxmemory 0");
    assert_eq!(all_digests(&mut client), before);
}

#[test]
fn many_connections_are_admitted_up_to_the_tightest_limit() {
    let server = Server::start(&[]);
    // Both kinds of request share a key, the last one of the first and the first one of the second.
    let kinds =
        ["FIXEDWINDOW even 200 3650d SLIDINGLOG shared 300 1d", "SLIDINGLOG shared 300 1d TOKENBUCKET odd 900 1/d"];
    let clients: Vec<_> = kinds.iter().cycle().take(8).map(|kind| (kind, server.connect())).collect();
    let admitted: Vec<i64> = thread::scope(|scope| {
        let threads = clients.into_iter().map(|(kind, mut client)| {
            scope.spawn(move || (0..100).map(|_| ask(&mut client, &format!("RL.ALL 2 {kind}")).0).sum())
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let [even, odd] = [0, 1].map(|kind| admitted.iter().skip(kind).step_by(2).sum::<i64>());
    assert_eq!(even + odd, 300);
    let mut client = server.connect();
    let left = ["shared", "even", "odd"].map(|key| client.get::<Option<Vec<i64>>>(&format!("RL.PEEK {key}")));
    // A key exists only if a request was admitted.
    let [shared, left_even, left_odd] = left.map(|reply| reply.map(|reply| reply[2]));
    assert_eq!((shared, left_even.unwrap_or(200), left_odd.unwrap_or(900)), (Some(0), 200 - even, 900 - odd));
}
