//! Clusters of real servers, and a cluster client.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use redis::cluster::ClusterConnection;
use redis::{ConnectionLike, ErrorKind, Value};

use super::{eventually, Client, Server, FREE_PORT, PATIENCE};

pub const SLOTS: usize = 16_384;

/// Primaries that share the slots evenly, and after them, in the same order, their replicas, if any.
pub struct Cluster {
    pub nodes: Vec<Server>,
    pub primaries: usize,
}

impl Cluster {
    /// A cluster with a long node timeout, so that a busy machine causes no failover.
    pub fn start(primaries: usize, with_replicas: bool) -> Self {
        Self::with_settings(&[], primaries, with_replicas)
    }

    /// As [`Self::start`], with arguments for the nodes.
    pub fn with_settings(settings: &[&str], primaries: usize, with_replicas: bool) -> Self {
        Self::launch(Duration::from_secs(30), settings, primaries, with_replicas)
    }

    /// A cluster with this node timeout.
    pub fn with_node_timeout(timeout: Duration, primaries: usize, with_replicas: bool) -> Self {
        Self::launch(timeout, &[], primaries, with_replicas)
    }

    fn launch(timeout: Duration, settings: &[&str], primaries: usize, with_replicas: bool) -> Self {
        let count = if with_replicas { 2 * primaries } else { primaries };
        let cluster = Self { nodes: (0..count).map(|_| node(timeout, settings)).collect(), primaries };
        let mut clients = cluster.connect();
        let buses: Vec<String> = clients.iter_mut().map(bus_port).collect();
        eventually("all nodes know each other", || {
            // Repeatedly, because a node that replies too late is forgotten.
            for (node, bus) in cluster.nodes.iter().zip(&buses).skip(1) {
                let port = node.port.to_string();
                if !clients[0].get::<String>("CLUSTER NODES").contains(&format!(":{port}@")) {
                    clients[0].get::<()>(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
                }
            }
            let mut views = clients.iter_mut().map(|it| it.get::<String>("CLUSTER NODES"));
            views.all(|nodes| nodes.lines().count() == count && !nodes.contains("handshake"))
        });
        for (index, client) in clients.iter_mut().enumerate().take(primaries) {
            let (first, next) = (index * SLOTS / primaries, (index + 1) * SLOTS / primaries);
            client.get::<()>(&format!("CLUSTER ADDSLOTSRANGE {first} {}", next - 1));
        }
        for (primary, replica) in clients[primaries..].iter_mut().enumerate() {
            replica.get::<()>(&format!("CLUSTER REPLICATE {}", cluster.id(primary)));
        }
        eventually("all nodes know the owners of all slots", || {
            clients.iter_mut().all(|client| {
                let (info, nodes): (String, String) = (client.get("CLUSTER INFO"), client.get("CLUSTER NODES"));
                ["cluster_state:ok", "cluster_slots_assigned:16384"].iter().all(|field| info.contains(field))
                    && nodes.matches("slave").count() == count - primaries
            })
        });
        eventually("the replicas are attached", || {
            clients[primaries..].iter_mut().all(|replica| replica.info("master_link_status") == "up")
        });
        cluster
    }

    pub fn connect(&self) -> Vec<Client> {
        self.nodes.iter().map(Server::connect).collect()
    }

    /// Connections to the nodes that have not been killed.
    fn alive(&self) -> Vec<Client> {
        self.nodes.iter().filter_map(|node| Client::to(node.port)).collect()
    }

    pub fn id(&self, node: usize) -> String {
        self.nodes[node].connect().get("CLUSTER MYID")
    }

    /// Moves a slot from one node to another, key by key, as `redis-cli --cluster reshard` does it.
    pub fn move_slot(&self, slot: usize, from: usize, to: usize) {
        let (from_id, to_id) = (self.id(from), self.id(to));
        let (mut source, mut target) = (self.nodes[from].connect(), self.nodes[to].connect());
        set_slot(&mut target, &format!("{slot} IMPORTING {from_id}"));
        set_slot(&mut source, &format!("{slot} MIGRATING {to_id}"));
        loop {
            let keys: Vec<String> = source.get(&format!("CLUSTER GETKEYSINSLOT {slot} 2"));
            if keys.is_empty() {
                break;
            }
            let (port, keys) = (self.nodes[to].port.to_string(), keys.iter().map(String::as_bytes));
            let mut words = vec![b"MIGRATE".as_slice(), b"127.0.0.1", port.as_bytes(), b"", b"0", b"60000", b"KEYS"];
            words.extend(keys);
            source.call_bytes(&words).expect("keys are moved");
        }
        set_slot(&mut target, &format!("{slot} NODE {to_id}"));
        // Otherwise Redis 7.0 may remember that the new owner does not claim the slot, and take it away later.
        drain(&mut self.alive());
        set_slot(&mut source, &format!("{slot} NODE {to_id}"));
        self.settle(slot, &to_id);
    }

    /// Waits until all nodes agree on the slot's owner. If a slot moves again before that, an old message or a running
    /// election can restore its old owner on some nodes, and keys are lost, with or without modules.
    fn settle(&self, slot: usize, owner: &str) {
        eventually("all nodes agree on the owner of the slot", || {
            let mut alive = self.alive();
            drain(&mut alive);
            let views: Vec<_> = alive.iter_mut().filter_map(|client| View::of(client, slot)).collect();
            views.iter().all(|view| view.owner == owner && view.is_calm() && *view == views[0])
        });
    }

    /// Moves a slot as a stream, on Valkey 9 and later.
    pub fn stream_slot(&self, slot: usize, from: usize, to: usize) {
        let (mut source, to_id) = (self.nodes[from].connect(), self.id(to));
        let failures = |source: &mut Client| {
            let migrations = source.get::<Vec<Value>>("CLUSTER GETSLOTMIGRATIONS");
            let texts = migrations.iter().map(|migration| format!("{migration:?}"));
            texts.filter(|text| text.contains("failed") || text.contains("cancelled")).count()
        };
        // Valkey cancels a migration whose last step takes too long, which may happen on a busy machine.
        let mut is_moved = false;
        for _ in 0..3 {
            let before = failures(&mut source);
            source.get::<()>(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {to_id}"));
            eventually("the migration ends", || {
                is_moved = View::of(&mut source, slot).is_some_and(|view| view.owner == to_id);
                is_moved || failures(&mut source) > before
            });
            if is_moved {
                break;
            }
        }
        assert!(is_moved, "{:?}", source.get::<Value>("CLUSTER GETSLOTMIGRATIONS"));
        self.settle(slot, &to_id);
    }

    /// A client of the cluster.
    pub fn client(&self) -> ClusterClient {
        let nodes = self.nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port));
        let client = redis::cluster::ClusterClientBuilder::new(nodes)
            // A retry after a timeout could be served twice.
            .response_timeout(PATIENCE)
            .connection_timeout(PATIENCE)
            .build()
            .expect("addresses");
        let connection = client.get_connection().expect("a connection");
        ClusterClient { client, connection, was_cut_off: false }
    }
}

/// Sets the state of a slot. In Valkey replicas must confirm it, and may be late on a busy machine.
fn set_slot(client: &mut Client, words: &str) {
    eventually("the slot is set", || match client.call(&format!("CLUSTER SETSLOT {words}")) {
        Ok(_) => true,
        Err(error) if error.code() == Some("NOREPLICAS") => false,
        Err(error) => panic!("CLUSTER SETSLOT {words}: {error}"),
    });
}

/// Waits until the nodes have received all messages so far: after the first reply of all nodes they are sent, and after
/// the second they are read.
fn drain(nodes: &mut [Client]) {
    for _ in 0..2 {
        for node in &mut *nodes {
            let _ = node.call("PING");
        }
    }
}

/// The cluster as a node sees it.
#[derive(PartialEq, Eq)]
struct View {
    /// The owner of the slot.
    owner: String,
    /// The config epoch of each primary. Of two claims on a slot the one with the larger epoch wins.
    epochs: BTreeMap<String, u64>,
    /// Whether a primary has failed and has no successor yet.
    is_headless: bool,
}

impl View {
    /// `None` if the node does not reply.
    fn of(client: &mut Client, slot: usize) -> Option<Self> {
        let covers = |range: &&str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<usize>(), last.parse::<usize>());
            first.is_ok_and(|first| first <= slot) && last.is_ok_and(|last| slot <= last)
        };
        let nodes: String = client.call("CLUSTER NODES").and_then(|nodes| Ok(redis::from_redis_value(nodes)?)).ok()?;
        let mut view = Self { owner: String::new(), epochs: BTreeMap::new(), is_headless: false };
        for line in nodes.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [id, _, flags, _, _, _, epoch, _, slots @ ..] = &fields[..] else { panic!("what is {line}?") };
            let has = |flag| flags.split(',').any(|it| it == flag);
            if slots.iter().any(covers) {
                (*id).clone_into(&mut view.owner);
            }
            if has("master") {
                view.epochs.insert((*id).to_owned(), epoch.parse().expect("a number"));
            }
            view.is_headless |= has("fail") && !slots.is_empty();
        }
        Some(view)
    }

    /// Whether no election is pending or has ended in a draw.
    fn is_calm(&self) -> bool {
        let distinct: BTreeSet<_> = self.epochs.values().collect();
        !self.is_headless && distinct.len() == self.epochs.len()
    }
}

/// A node of a cluster. Its bus has a free port, as the usual offset may exceed the largest port.
fn node(timeout: Duration, settings: &[&str]) -> Server {
    let timeout = timeout.as_millis().to_string();
    let of_cluster = [
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        FREE_PORT,
        "--cluster-require-full-coverage",
        "no",
        "--cluster-node-timeout",
        &timeout,
        "--repl-diskless-sync-delay",
        "0",
    ];
    Server::start(&[&of_cluster, settings].concat())
}

fn bus_port(client: &mut Client) -> String {
    let nodes: String = client.get("CLUSTER NODES");
    nodes.split(['@', ',', ' ']).nth(2).expect("an address").to_owned()
}

/// A client that follows redirections and reconnects after broken connections. Other errors panic.
pub struct ClusterClient {
    client: redis::cluster::ClusterClient,
    connection: ClusterConnection,
    /// Whether a connection broke. A request at that time may have been served without a reply.
    pub was_cut_off: bool,
}

impl ClusterClient {
    pub fn limit(&mut self, command: &str) -> Vec<i64> {
        let mut request = redis::Cmd::new();
        for word in command.split_whitespace() {
            request.arg(word);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.connection.req_command(&request).and_then(Value::extract_error) {
                Ok(reply) => return redis::from_redis_value(reply).expect("integers"),
                Err(error) if error.is_io_error() || error.kind() == ErrorKind::ClusterConnectionNotFound => {
                    assert!(Instant::now() < deadline, "{command}: {error}");
                    self.was_cut_off = true;
                    thread::sleep(Duration::from_millis(50));
                    if let Ok(connection) = self.client.get_connection() {
                        self.connection = connection;
                    }
                }
                Err(error) => panic!("{command}: {error}"),
            }
        }
    }
}
