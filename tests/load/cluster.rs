//! Clusters: requests are routed by the slots of their keys, and no key admits more than its limit while slots move and
//! nodes fail under traffic.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use serial_test::serial;

use crate::common::cluster::{Cluster, SLOTS};
use crate::common::load::{rest_since, EndOf};
use crate::common::{eventually, Client, Server};

const FIVE: [&str; 5] = ["RL.TOKENBUCKET", "RL.LEAKYBUCKET", "RL.FIXEDWINDOW", "RL.SLIDINGLOG", "RL.SLIDINGCOUNTER"];

/// Never reached, and with quotas that do not refill while a test runs.
const LIMIT: i64 = 1_000_000;
const CONNECTIONS: usize = 6;

fn request(command: &str, tag: &str) -> String {
    let pace = match command {
        "RL.TOKENBUCKET" | "RL.LEAKYBUCKET" => "100/d",
        "RL.SLIDINGLOG" => "1d",
        _ => "3650d",
    };
    format!("{command} {command}{{{tag}}} {LIMIT} {pace}")
}

/// A hash tag and its slot.
#[derive(Clone)]
struct Tag {
    name: String,
    slot: usize,
}

/// `count` tags with slots of node number `node`, of `nodes` that share the slots evenly.
fn tags(client: &mut Client, node: usize, nodes: usize, count: usize) -> Vec<Tag> {
    let tag = |number: usize| Tag { name: number.to_string(), slot: client.get(&format!("CLUSTER KEYSLOT {number}")) };
    let of_node = |tag: &Tag| (node * SLOTS / nodes..(node + 1) * SLOTS / nodes).contains(&tag.slot);
    (0..10_000).map(tag).filter(of_node).take(count).collect()
}

#[test]
#[serial]
fn requests_are_routed_and_a_migrated_slot_keeps_its_limiters() {
    let cluster = Cluster::start(2, false);
    let mut clients = cluster.connect();
    let near = tags(&mut clients[0], 0, 2, 1).remove(0);
    let far = tags(&mut clients[0], 1, 2, 1).remove(0);
    for command in FIVE {
        assert_eq!(clients[0].limit(&request(command, &near.name))[2], LIMIT - 1);
        let moved = format!("MOVED {} 127.0.0.1:{}", far.slot, cluster.nodes[1].port);
        assert_eq!(clients[0].error(&request(command, &far.name)), moved);
        assert_eq!(clients[1].limit(&request(command, &far.name))[2], LIMIT - 1);
    }
    let digests = |client: &mut Client| FIVE.map(|command| client.digest(&format!("{command}{{{}}}", near.name)).0);
    let before = digests(&mut clients[0]);
    cluster.move_slot(near.slot, 0, 1);
    assert_eq!(digests(&mut clients[1]), before);
    for command in FIVE {
        let rest = format!("{} COST {}", request(command, &near.name), LIMIT - 1);
        assert_eq!(clients[1].limit(&rest)[..3], [1, LIMIT, 0]);
        assert_eq!(clients[1].limit(&request(command, &near.name))[0], 0);
    }
}

#[test]
#[serial]
fn all_keys_of_a_request_are_routed_and_must_share_a_slot() {
    let cluster = Cluster::start(2, false);
    let mut clients = cluster.connect();
    let near = tags(&mut clients[0], 0, 2, 2);
    let far = tags(&mut clients[0], 1, 2, 1).remove(0);
    let moved = format!("MOVED {} 127.0.0.1:{}", far.slot, cluster.nodes[1].port);
    let limits = |keys: &[String]| -> String {
        let limits = keys.iter().map(|key| format!(" FIXEDWINDOW {key} 1000 3650d"));
        format!("{}{}", keys.len(), limits.collect::<String>())
    };
    let [here, beside] = [&near[0], &near[1]].map(|tag| |name: &str| format!("{name}{{{}}}", tag.name));
    let there = |name: &str| format!("{name}{{{}}}", far.name);
    // One key of another slot is enough, at any position.
    let crossing = [
        vec![here("a"), beside("b")],
        vec![beside("a"), here("b")],
        vec![here("a"), there("b")],
        vec![here("a"), here("b"), beside("c")],
        vec![here("a"), beside("b"), here("c")],
    ];
    for cost in ["", " COST 2"] {
        for keys in &crossing {
            let request = format!("RL.ALL {}{cost}", limits(keys));
            assert!(clients[0].error(&request).starts_with("CROSSSLOT"), "{request}");
        }
        let elsewhere = format!("RL.ALL {}{cost}", limits(&[there("a"), there("b")]));
        assert_eq!(clients[0].error(&elsewhere), moved);
        assert_eq!(clients[1].get::<Vec<Value>>(&elsewhere)[0], Value::Int(1));
        let request = format!("RL.ALL {}{cost}", limits(&[here("a"), here("b"), here("c")]));
        assert_eq!(clients[0].get::<Vec<Value>>(&request)[0], Value::Int(1));
        let script =
            "return redis.call('RL.ALL', '2', 'FIXEDWINDOW', KEYS[1], '9', '1d', 'FIXEDWINDOW', KEYS[2], '9', '1d')";
        let (first, second) = (here("d"), here("e"));
        let words = [b"EVAL".as_slice(), script.as_bytes(), b"2", first.as_bytes(), second.as_bytes()];
        clients[0].call_bytes(&words).expect("two declared keys of one slot");
    }
    // Last, because Valkey 9.1 rejects all commands of scripts, also `MSET`, after a script that crossed slots.
    for keys in &crossing {
        let limits = limits(keys);
        let script = ["EVAL", "return redis.call('RL.ALL', unpack(ARGV))", "1", &keys[0]];
        let words: Vec<&[u8]> = script.into_iter().chain(limits.split(' ')).map(str::as_bytes).collect();
        let error = clients[0].error_of(&words);
        // The reason depends on which key the server checks first.
        let reasons = ["access a non local key", "access keys that don't hash to the same slot"];
        assert!(reasons.iter().any(|reason| error.contains(reason)), "{limits} in a script: {error}");
    }
    // The rejected requests took nothing: key `c` is in two allowed requests, with costs 1 and 2.
    assert_eq!(clients[0].limit(&format!("RL.PEEK {}", here("c")))[2], 1_000 - 3);
    assert_eq!(clients[0].get::<Option<Vec<i64>>>(&format!("RL.PEEK {}", beside("b"))), None);
}

/// A key of each command for every tag, and the number of its requests with the reply "allowed".
struct Keys {
    requests: Vec<String>,
    admitted: Vec<AtomicI64>,
}

impl Keys {
    fn new(tags: &[Tag]) -> Self {
        let requests: Vec<_> = tags.iter().flat_map(|tag| FIVE.map(|command| request(command, &tag.name))).collect();
        let admitted = requests.iter().map(|_| AtomicI64::new(0)).collect();
        Self { requests, admitted }
    }

    fn all_admitted(&self) -> i64 {
        self.admitted.iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Takes the remaining quota of each key, and returns by how much it exceeded its limit: positive if requests were
    /// forgotten, negative if requests were taken without a reply.
    fn excess(&self, cluster: &Cluster) -> Vec<i64> {
        let mut client = cluster.client();
        let excess = self.requests.iter().zip(&self.admitted).map(|(request, admitted)| {
            // A request for the whole limit is denied, and returns the remaining quota.
            let left = client.limit(&format!("{request} COST {LIMIT}"))[2];
            assert!(left < LIMIT, "{request} was never served, or its key was lost");
            assert!(left == 0 || client.limit(&format!("{request} COST {left}"))[..3] == [1, LIMIT, 0], "{request}");
            assert_eq!(client.limit(request)[..3], [0, LIMIT, 0], "{request}");
            admitted.load(Ordering::SeqCst) + left - LIMIT
        });
        excess.collect()
    }
}

/// Runs `meanwhile` while several clients send requests, each to one of the groups of keys. Returns whether any
/// connection broke.
fn hammer(cluster: &Cluster, groups: &[&Keys], meanwhile: impl FnOnce()) -> bool {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let end = EndOf(over);
        let clients = groups.iter().cycle().take(CONNECTIONS).zip((0..).step_by(17)).map(|(keys, skipped)| {
            let mut client = cluster.client();
            scope.spawn(move || {
                // Each client starts with another key.
                let mut requests = keys.requests.iter().zip(&keys.admitted).cycle().skip(skipped);
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    for (request, admitted) in requests.by_ref().take(20) {
                        admitted.fetch_add(client.limit(request)[0], Ordering::SeqCst);
                    }
                    rest_since(start);
                }
                client.was_cut_off
            })
        });
        let clients: Vec<_> = clients.collect();
        meanwhile();
        drop(end);
        clients.into_iter().any(|client| client.join().expect("no client saw an error"))
    })
}

/// Moves slots of two nodes back and forth under traffic, by `move_slot`, and checks that no request is forgotten.
fn slots_move_under_traffic(cluster: &Cluster, move_slot: impl Fn(usize, usize, usize)) {
    let mut client = cluster.nodes[0].connect();
    let [first, second] = [0, 1].map(|node| tags(&mut client, node, cluster.primaries, 4));
    let keys = Keys::new(&[first.clone(), second.clone()].concat());
    let broken = hammer(cluster, &[&keys], || {
        eventually("requests are served", || keys.all_admitted() > 2_000);
        for _ in 0..2 {
            for tag in &first {
                move_slot(tag.slot, 0, 1);
            }
            for tag in &second {
                move_slot(tag.slot, 1, 0);
            }
            for tag in &first {
                move_slot(tag.slot, 1, 0);
            }
            for tag in &second {
                move_slot(tag.slot, 0, 1);
            }
        }
        let before = keys.all_admitted();
        eventually("requests are still served", || keys.all_admitted() > before + 2_000);
    });
    assert!(!broken, "no connection breaks");
    assert_eq!(keys.excess(cluster), vec![0; keys.requests.len()]);
}

/// Whether the server streams slots; otherwise the test is skipped.
fn streams_slots() -> bool {
    let streams = Server::start(&[]).connect().valkey_version() >= Some((9, 0));
    if !streams {
        eprintln!("skipped: only Valkey 9 and later stream slots");
    }
    streams
}

#[test]
#[serial]
fn slots_that_are_streamed_under_traffic_lose_nothing() {
    if !streams_slots() {
        return;
    }
    for with_replicas in [true, false] {
        let cluster = Cluster::start(3, with_replicas);
        slots_move_under_traffic(&cluster, |slot, from, to| cluster.stream_slot(slot, from, to));
    }
}

#[test]
#[serial]
fn requests_while_a_slot_is_streamed_arrive_bit_for_bit() {
    if !streams_slots() {
        return;
    }
    // Without replicas the stream is the only consumer.
    let cluster = Cluster::start(2, false);
    let (mut source, mut target) = (cluster.nodes[0].connect(), cluster.nodes[1].connect());
    let tag = tags(&mut source, 0, 2, 1).remove(0);
    let send = |source: &mut Client, count: usize| {
        for command in FIVE.iter().cycle().take(5 * count) {
            source.limit(&request(command, &tag.name));
        }
        FIVE.map(|command| source.digest(&format!("{command}{{{}}}", tag.name)))
    };
    send(&mut source, 20);
    // The stream is kept open: it first sends the keys, and then the effects of requests.
    source.get::<()>("DEBUG SLOTMIGRATION PREVENT-PAUSE 1");
    let target_id = cluster.id(1);
    source.get::<()>(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {0} {0} NODE {target_id}", tag.slot));
    let applied = |target: &mut Client| {
        let calls = target.info("cmdstat_RL.APPLY");
        calls.strip_prefix("calls=").and_then(|calls| calls.split_once(',')?.0.parse::<usize>().ok()).unwrap_or(0)
    };
    eventually("the keys have arrived", || applied(&mut target) >= FIVE.len());
    let before = applied(&mut target);
    let expected = send(&mut source, 20);
    eventually("the effects have arrived", || applied(&mut target) >= before + 100);
    source.get::<()>("DEBUG SLOTMIGRATION PREVENT-PAUSE 0");
    eventually("the slot has moved", || target.call(&request(FIVE[0], &tag.name)).is_ok());
    let arrived = FIVE.map(|command| target.digest(&format!("{command}{{{}}}", tag.name)));
    // The first key was changed by the check above.
    assert_eq!(arrived[1..], expected[1..]);
}

#[test]
#[serial]
fn slots_that_move_under_traffic_lose_nothing() {
    let cluster = Cluster::start(3, true);
    slots_move_under_traffic(&cluster, |slot, from, to| cluster.move_slot(slot, from, to));
}

#[test]
#[serial]
fn a_primary_that_is_killed_while_slots_move_loses_only_unsent_effects() {
    const MOVING: [usize; 2] = [0, 1];
    const KILLED: usize = 2;
    let cluster = Cluster::with_node_timeout(Duration::from_secs(10), 3, true);
    let successor = KILLED + cluster.primaries;
    let mut client = cluster.nodes[0].connect();
    let [moving, killed] = [MOVING[0], KILLED].map(|node| tags(&mut client, node, cluster.primaries, 6));
    let (moving_keys, killed_keys) = (Keys::new(&moving), Keys::new(&killed));
    let mut before_the_crash = 0;
    let broken = hammer(&cluster, &[&moving_keys, &killed_keys], || {
        eventually("requests are served", || killed_keys.all_admitted() > 2_000);
        let (over, moves) = (AtomicBool::new(false), AtomicI64::new(0));
        thread::scope(|scope| {
            let (over, moves, cluster, moving) = (&over, &moves, &cluster, &moving);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    for (from, to) in [(MOVING[0], MOVING[1]), (MOVING[1], MOVING[0])] {
                        for tag in moving {
                            cluster.move_slot(tag.slot, from, to);
                            moves.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
            let _end = EndOf(over);
            let go_on = |more| {
                let before = moves.load(Ordering::SeqCst);
                eventually("slots move", || moves.load(Ordering::SeqCst) >= before + more);
            };
            go_on(3);
            cluster.nodes[KILLED].kill();
            before_the_crash = killed_keys.all_admitted();
            go_on(3);
            let before = moving_keys.all_admitted();
            eventually("keys of the other nodes are served", || moving_keys.all_admitted() > before + 500);
            let mut replica = cluster.nodes[successor].connect();
            eventually("the replica takes over", || replica.info("role") == "master");
            eventually("its keys are served again", || killed_keys.all_admitted() > before_the_crash + 2_000);
            go_on(3);
        });
        // Slots of the new primary move too.
        for tag in &killed {
            cluster.move_slot(tag.slot, successor, MOVING[0]);
        }
        for tag in &killed {
            cluster.move_slot(tag.slot, MOVING[0], successor);
        }
        let before = killed_keys.all_admitted();
        eventually("requests are still served", || killed_keys.all_admitted() > before + 1_000);
    });
    assert!(broken, "connections to the killed node break");
    assert_eq!(moving_keys.excess(&cluster), vec![0; moving_keys.requests.len()]);
    // Replication is asynchronous, but a primary sends effects and replies in the same turn of its event loop. So at
    // most one reply of each connection is forgotten, and at most one request of each is taken without a reply.
    let excess = killed_keys.excess(&cluster);
    let forgotten: i64 = excess.iter().filter(|excess| **excess > 0).sum();
    let unanswered: i64 = -excess.iter().filter(|excess| **excess < 0).sum::<i64>();
    println!("{before_the_crash} answered before the crash, {forgotten} of them forgotten; {unanswered} unanswered");
    let most = i64::try_from(CONNECTIONS / 2).expect("a few");
    assert!(forgotten <= most && unanswered <= most, "{forgotten}, {unanswered}: {excess:?}");
}
