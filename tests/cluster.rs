//! A cluster finds the keys of the commands: requests are routed by slot, and slots can be handed over.

mod common;

use std::net::TcpListener;

use common::{eventually, Client, Server};

const FIVE: [&str; 5] = ["RL.TOKENBUCKET", "RL.LEAKYBUCKET", "RL.FIXEDWINDOW", "RL.SLIDINGLOG", "RL.SLIDINGCOUNTER"];

/// A node of a cluster; its bus listens on a port of its own, since the usual distance may lead beyond the last port.
fn node() -> Server {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    Server::start(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &free.to_string(),
        "--cluster-require-full-coverage",
        "no",
    ])
}

fn slot(client: &mut Client, key: &str) -> i64 {
    client.get(&format!("CLUSTER KEYSLOT {key}"))
}

#[test]
fn a_slot_is_handed_over_with_its_limiters() {
    let (from, to) = (node(), node());
    let (mut source, mut target) = (from.connect(), to.connect());
    let bus: Vec<String> = target.get::<String>("CLUSTER NODES").split(['@', ',', ' ']).map(str::to_owned).collect();
    source.get::<()>(&format!("CLUSTER MEET 127.0.0.1 {} {}", to.port, bus[2]));
    source.get::<()>("CLUSTER ADDSLOTSRANGE 0 8191");
    target.get::<()>("CLUSTER ADDSLOTSRANGE 8192 16383");
    eventually("both know each other's slots", || {
        [&mut source, &mut target].iter_mut().all(|client| {
            let state: String = client.get("CLUSTER INFO");
            state.contains("cluster_state:ok") && state.contains("cluster_slots_assigned:16384")
        })
    });

    // A key of each half of the slots, by a hash tag.
    let near = (0..1_000).map(|i| format!("{{{i}}}")).find(|key| slot(&mut source, key) < 8_192).expect("a key");
    let far = (0..1_000).map(|i| format!("{{{i}}}")).find(|key| slot(&mut source, key) >= 8_192).expect("a key");
    for command in FIVE {
        let pace = if command.ends_with("BUCKET") { "1/h" } else { "10w" };
        let request = |tag: &str| format!("{command} {command}{tag} 10 {pace} COST 4");
        assert_eq!(source.limit(&request(&near))[2], 6);
        let slot = slot(&mut source, &far);
        assert_eq!(source.error(&request(&far)), format!("MOVED {slot} 127.0.0.1:{}", to.port));
        assert_eq!(target.limit(&request(&far))[2], 6);
    }

    // The slot of the near keys moves to the other node, and they go on there from where they were.
    let moving = slot(&mut source, &near);
    let (source_id, target_id): (String, String) = (source.get("CLUSTER MYID"), target.get("CLUSTER MYID"));
    target.get::<()>(&format!("CLUSTER SETSLOT {moving} IMPORTING {source_id}"));
    source.get::<()>(&format!("CLUSTER SETSLOT {moving} MIGRATING {target_id}"));
    let before: Vec<_> = FIVE.iter().map(|command| source.digest(&format!("{command}{near}"))).collect();
    for command in FIVE {
        source.get::<()>(&format!("MIGRATE 127.0.0.1 {} {command}{near} 0 5000", to.port));
    }
    for client in [&mut target, &mut source] {
        client.get::<()>(&format!("CLUSTER SETSLOT {moving} NODE {target_id}"));
    }
    let held: Vec<_> = FIVE.iter().map(|command| target.digest(&format!("{command}{near}")).0).collect();
    assert_eq!(held, before.into_iter().map(|(value, _)| value).collect::<Vec<_>>());
    for command in FIVE {
        let pace = if command.ends_with("BUCKET") { "1/h" } else { "10w" };
        assert_eq!(target.limit(&format!("{command} {command}{near} 10 {pace} COST 6"))[..3], [1, 10, 0]);
        assert_eq!(target.limit(&format!("{command} {command}{near} 10 {pace}"))[0], 0);
    }
}
