//! Requests of every kind, the same ones every time.

use super::{Client, Server};

/// Sends `count` requests of all commands to a few keys, with costs, forced ones and changing parameters, while time
/// passes if the test holds the clock.
pub fn send(server: &mut Server, client: &mut Client, count: u64) {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for _ in 0..count {
        let (name, pace) = match random(5) {
            0 => ("TOKENBUCKET", ["1/m", "7/3m"]),
            1 => ("LEAKYBUCKET", ["1/m", "0.02"]),
            2 => ("FIXEDWINDOW", ["1h", "2h"]),
            3 => ("SLIDINGLOG", ["1h", "30m"]),
            _ => ("SLIDINGCOUNTER", ["1h", "2h"]),
        };
        let (limit, pace) = if random(10) == 0 { (40, pace[1]) } else { (50, pace[0]) };
        let cost = if random(4) == 0 { 1 + random(9) } else { 1 };
        let force = if random(8) == 0 { "FORCE" } else { "" };
        client.limit(&format!("RL.{name} {}{} {limit} {pace} COST {cost} {force}", name.to_lowercase(), random(4)));
        if let Some(clock) = server.held_clock() {
            clock.advance_us(random(900_000));
        }
    }
}

/// A key, with what it holds and when it expires.
pub type Digest = (String, (Vec<String>, i64));

/// All keys.
pub fn all_digests(client: &mut Client) -> Vec<Digest> {
    let mut keys: Vec<String> = client.get("KEYS *");
    keys.sort();
    keys.into_iter().map(|key| (key.clone(), client.digest(&key))).collect()
}
