//! Random requests.

use fastrand::Rng;

use super::{Client, Server};

/// An endless sequence of requests of all commands, with costs, force and changing parameters, deterministic by seed.
pub struct Requests {
    random: Rng,
    /// The number of keys of each command.
    keys: u8,
    /// The usual limit, and another one.
    limits: [u32; 2],
    /// The usual rate or window of each command, and another one.
    paces: [(&'static str, [&'static str; 2]); 5],
}

impl Requests {
    /// To a few keys, with rates and windows of minutes.
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

/// Sends `count` deterministic requests and returns the replies. On a test clock, time passes in between.
pub fn send(server: &mut Server, client: &mut Client, count: usize) -> Vec<Vec<i64>> {
    let mut time = Rng::with_seed(1);
    let requests = Requests::new(2).take(count);
    let replies = requests.map(|request| {
        let reply = client.limit(&request);
        if let Some(clock) = server.test_clock() {
            clock.advance_us(time.u64(..900_000));
        }
        reply
    });
    replies.collect()
}

/// A key with the digest of its value and its expiry.
pub type Digest = (String, (Vec<String>, i64));

/// The digests of all keys.
pub fn all_digests(client: &mut Client) -> Vec<Digest> {
    let mut keys: Vec<String> = client.get("KEYS *");
    keys.sort();
    keys.into_iter().map(|key| (key.clone(), client.digest(&key))).collect()
}

/// The limiters without expiry. There must be none, unless a test removes an expiry.
pub fn keys_without_expiry(client: &mut Client) -> Vec<String> {
    let keys: Vec<String> = client.get("KEYS *");
    let is_limiter = |client: &mut Client, key: &str| client.get::<String>(&format!("TYPE {key}")) == "ratelimit";
    keys.into_iter().filter(|key| is_limiter(client, key) && client.get::<i64>(&format!("PTTL {key}")) == -1).collect()
}
