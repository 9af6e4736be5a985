//! Requests to several limits.

use fastrand::Rng;
use redis::Value;

use super::{Client, Server};

/// The algorithms, with rates and windows at which nothing refills while a test runs.
pub const SLOW: [(&str, &str); 5] = [
    ("TOKENBUCKET", "1/d"),
    ("LEAKYBUCKET", "1/d"),
    ("FIXEDWINDOW", "3650d"),
    ("SLIDINGLOG", "1d"),
    ("SLIDINGCOUNTER", "3650d"),
];

/// The reply to a request: allowed, the wait, and the reply of each limit.
pub type Reply = (i64, i64, Vec<Vec<i64>>);

pub fn ask(client: &mut Client, command: &str) -> Reply {
    let mut reply = client.get::<Vec<Value>>(command).into_iter();
    let mut integer = || redis::from_redis_value(reply.next().expect("an element")).expect("an integer");
    let (allowed, wait) = (integer(), integer());
    (allowed, wait, reply.map(|each| redis::from_redis_value(each).expect("integers")).collect())
}

/// A reply from text: `allowed wait; reply of a limit; …`.
pub fn reply(text: &str) -> Reply {
    let integers = |part: &str| part.split_whitespace().map(|word| word.parse().expect("an integer")).collect();
    let mut parts = text.split(';').map(integers);
    let verdict: Vec<i64> = parts.next().expect("the verdict");
    (verdict[0], verdict[1], parts.collect())
}

/// The remaining quota of each limit.
pub fn remaining(reply: &Reply) -> Vec<i64> {
    reply.2.iter().map(|reply| reply[2]).collect()
}

/// Sets a policy.
pub fn set(client: &mut Client, name: &str, limits: &str) {
    client.get::<()>(&format!("RL.POLICY SET {name} {limits}"));
}

/// A limit in a request.
#[derive(Clone)]
pub struct Limit {
    pub algorithm: &'static str,
    pub key: String,
    pub quota: String,
}

impl Limit {
    pub fn slow((algorithm, pace): (&'static str, &str), limit: u32) -> Self {
        Self { algorithm, key: algorithm.to_lowercase(), quota: format!("{limit} {pace}") }
    }

    /// The request to this limit only.
    pub fn plain(&self, cost: u64) -> String {
        format!("RL.{} {} {} COST {cost}", self.algorithm, self.key, self.quota)
    }
}

/// The request to all limits.
pub fn all(limits: &[Limit], cost: u64) -> String {
    let each = limits.iter().map(|Limit { algorithm, key, quota }| format!("{algorithm} {key} {quota} "));
    format!("RL.ALL {} {}COST {cost}", limits.len(), each.collect::<String>())
}

/// Deterministic requests to limits of different algorithms in random order, on two keys of each algorithm, with one of
/// two quotas. At intervals of two seconds on average, many are allowed and many denied.
pub fn requests(count: usize) -> impl Iterator<Item = (Vec<Limit>, u64)> {
    let quotas = [
        ("TOKENBUCKET", ["20 20/m", "15 30/m"]),
        ("LEAKYBUCKET", ["20 20/m", "15 10/m"]),
        ("FIXEDWINDOW", ["20 1m", "15 2m"]),
        ("SLIDINGLOG", ["20 1m", "15 30s"]),
        ("SLIDINGCOUNTER", ["20 1m", "25 2m"]),
    ];
    let mut random = Rng::with_seed(3);
    std::iter::repeat_with(move || {
        let mut limits: Vec<Limit> = Vec::new();
        for (algorithm, quotas) in quotas {
            let (key, quota) = (random.u8(..2), quotas[usize::from(random.u8(..8) == 0)]);
            limits.push(Limit { algorithm, key: format!("{algorithm}{key}"), quota: quota.to_owned() });
        }
        random.shuffle(&mut limits);
        limits.truncate(random.usize(1..=5));
        (limits, random.u64(1..4))
    })
    .take(count)
}

/// Sends these requests while time passes; returns how many were allowed.
pub fn send(server: &mut Server, client: &mut Client, count: usize) -> i64 {
    let mut time = Rng::with_seed(4);
    let allowed = requests(count).map(|(limits, cost)| {
        server.clock().advance_us(time.u64(..4_000_000));
        ask(client, &all(&limits, cost)).0
    });
    allowed.sum()
}
