//! The latency of replies for many clients, without pipelining.

use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{Case, Expected};
use crate::common::Server;
use crate::load::{send, send_batch};
use crate::report::Latency;

const CONNECTIONS: usize = 50;
const REQUESTS: usize = 2_000;
const KEYS: usize = 100_000;

pub fn measure(server: &Server, case: &Case) -> Latency {
    let mut client = server.connect();
    client.get::<()>("FLUSHALL");
    send(&mut client, &case.prime, KEYS, KEYS, Expected::Anything);
    let mut waits: Vec<Duration> = thread::scope(|scope| {
        let ask = |connection: usize| {
            let mut client = server.connect();
            let ask_once = |number: usize| {
                let asked = Instant::now();
                let key = connection * REQUESTS + number;
                send_batch(&mut client, &case.request, std::iter::once(key % KEYS), case.expected);
                asked.elapsed()
            };
            (0..REQUESTS).map(ask_once).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..CONNECTIONS).map(|connection| scope.spawn(move || ask(connection))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    waits.sort_unstable();
    let part = |thousandth: usize| waits[(waits.len() - 1) * thousandth / 1_000].as_secs_f64() * 1e6;
    Latency { name: case.name.clone(), p50: part(500), p99: part(990), p99_9: part(999) }
}
