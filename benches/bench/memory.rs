//! The memory of a key.

use crate::cases::{Expected, Per, Request, ALGORITHMS};
use crate::common::Server;
use crate::load::{per_request, send};
use crate::progress::Progress;
use crate::report::Memory;

const KEYS: usize = 100_000;
/// A little less than the window of a minute, so that all entries count.
const SPAN: u64 = 59_000_000;

/// The memory of a plain key, of the limiters and scripts, and of logs of several lengths.
pub fn measure(progress: &Progress) -> Vec<Memory> {
    let mut server = Server::with_clock(&[]);
    let mut found = Vec::new();
    let mut add = |name: &str, script: Option<f64>, bytes: f64| {
        found.push(Memory { name: name.to_owned(), bytes, script });
    };
    let set = crate::cases::set_ex();
    progress.show("memory: SET EX");
    add(&set.name, None, bytes_a_key(&mut server, &set.request, KEYS, 1));
    for algorithm in &ALGORITHMS {
        progress.show(&format!("memory: {}", algorithm.name));
        let sha: String = load_script(&server, algorithm.script);
        let lengths: &[usize] = if algorithm.name == "SLIDINGLOG" { &[3, 100, 1_000] } else { &[3] };
        for &length in lengths {
            // Fewer keys for long logs, as filling them takes long.
            let keys = (KEYS * 10 / length).min(KEYS);
            let limit = length.max(100) as u64;
            let script = bytes_a_key(&mut server, &algorithm.script_call(&sha, limit, Per::Minute), keys, length);
            let native = bytes_a_key(&mut server, &algorithm.command(limit, Per::Minute), keys, length);
            let name = match lengths.len() {
                1 => format!("RL.{}", algorithm.name),
                _ => format!("RL.{} of {length} entries", algorithm.name),
            };
            add(&name, Some(script), native);
        }
    }
    found
}

pub fn load_script(server: &Server, script: &str) -> String {
    let reply = server.connect().call_bytes(&[b"SCRIPT", b"LOAD", script.as_bytes()]).expect("a script");
    redis::from_redis_value(reply).expect("a digest")
}

/// The memory of a key after this many requests, evenly spread over a minute.
fn bytes_a_key(server: &mut Server, request: &Request, keys: usize, requests: usize) -> f64 {
    let mut client = server.connect();
    client.get::<()>("FLUSHALL");
    let before: f64 = client.info("used_memory").parse().expect("a number");
    for _ in 0..requests {
        send(&mut client, request, keys, keys, Expected::Anything);
        server.clock().advance_us(SPAN / requests as u64);
    }
    let after: f64 = client.info("used_memory").parse().expect("a number");
    per_request(after - before, keys)
}
