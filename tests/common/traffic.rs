//! Requests of every kind.

use fastrand::Rng;

use super::{Client, Server};

/// An endless sequence of requests of all commands, with costs, forced ones and changing parameters; the same ones for
/// the same seed.
pub struct Requests {
    random: Rng,
    /// How many keys each command uses.
    keys: u8,
    /// The limit, and another one that is sometimes used.
    limits: [u32; 2],
    /// The same of each command's rate or window.
    paces: [(&'static str, [&'static str; 2]); 5],
}

impl Requests {
    /// To a few keys, at rates and with windows at which things change within minutes.
    pub fn new(seed: u64) -> Self {
        let paces = [
            ("TOKENBUCKET", ["1/m", "7/3m"]),
            ("LEAKYBUCKET", ["1/m", "0.02"]),
            ("FIXEDWINDOW", ["1h", "2h"]),
            ("SLIDINGLOG", ["1h", "30m"]),
            ("SLIDINGCOUNTER", ["1h", "2h"]),
        ];
        Self { random: Rng::with_seed(seed), keys: 4, limits: [50, 40], paces }
    }

    /// To many keys, none of which expires within an hour of its first request.
    pub fn lasting(seed: u64) -> Self {
        let paces = [
            ("TOKENBUCKET", ["10/d", "7/2d"]),
            ("LEAKYBUCKET", ["10/d", "7/2d"]),
            ("FIXEDWINDOW", ["100w", "200w"]),
            ("SLIDINGLOG", ["1d", "2d"]),
            ("SLIDINGCOUNTER", ["100w", "200w"]),
        ];
        Self { random: Rng::with_seed(seed), keys: 40, limits: [1_000, 900], paces }
    }
}

impl Iterator for Requests {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let Self { random, keys, limits, paces } = self;
        let (name, pace) = paces[random.usize(..paces.len())];
        let other = usize::from(random.u8(..10) == 0);
        let cost = if random.u8(..4) == 0 { random.u8(1..10) } else { 1 };
        let force = if random.u8(..8) == 0 { "FORCE" } else { "" };
        let key = random.u8(..*keys);
        Some(format!("RL.{name} {}{key} {} {} COST {cost} {force}", name.to_lowercase(), limits[other], pace[other]))
    }
}

/// Sends `count` requests, the same ones every time, while time passes if the test holds the clock. Returns the
/// replies.
pub fn send(server: &mut Server, client: &mut Client, count: usize) -> Vec<Vec<i64>> {
    let mut time = Rng::with_seed(1);
    let requests = Requests::new(2).take(count);
    let replies = requests.map(|request| {
        let told = client.limit(&request);
        if let Some(clock) = server.held_clock() {
            clock.advance_us(time.u64(..900_000));
        }
        told
    });
    replies.collect()
}

/// A key, with what it holds and when it expires.
pub type Digest = (String, (Vec<String>, i64));

/// All keys.
pub fn all_digests(client: &mut Client) -> Vec<Digest> {
    let mut keys: Vec<String> = client.get("KEYS *");
    keys.sort();
    keys.into_iter().map(|key| (key.clone(), client.digest(&key))).collect()
}

/// The keys of ours that would be there forever: there must never be any, unless somebody took their expiry away.
pub fn keys_without_expiry(client: &mut Client) -> Vec<String> {
    let keys: Vec<String> = client.get("KEYS *");
    let is_ours = |client: &mut Client, key: &str| client.get::<String>(&format!("TYPE {key}")) == "ratelimit";
    keys.into_iter().filter(|key| is_ours(client, key) && client.get::<i64>(&format!("PTTL {key}")) == -1).collect()
}
