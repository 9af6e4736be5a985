//! The reply of `RL.STATS`.

use std::collections::BTreeMap;

use redis::{FromRedisValue, Value};

use super::{eventually, Client};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub version: String,
    pub since_millis: i64,
    pub keys: i64,
    pub log_bytes: i64,
    pub algorithms: BTreeMap<String, Row>,
    pub policies: BTreeMap<String, Row>,
}

/// The counters of an algorithm or a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    pub allowed: i64,
    pub denied: i64,
    pub forced: i64,
    pub refunded: i64,
    pub keys: i64,
}

pub type Map = BTreeMap<String, Value>;

/// Removes a field from a map, so that the rest can be checked to be empty.
pub fn take<T: FromRedisValue>(map: &mut Map, field: &str) -> T {
    let value = map.remove(field).unwrap_or_else(|| panic!("{field} in {map:?}"));
    redis::from_redis_value(value).unwrap_or_else(|error| panic!("{field}: {error}"))
}

impl Row {
    /// The counters of requests: allowed, denied, forced and refunded.
    pub fn requests(&self) -> [i64; 4] {
        [self.allowed, self.denied, self.forced, self.refunded]
    }

    /// From the fields of a map, of which all are checked.
    pub fn of(mut map: Map) -> Self {
        let [allowed, denied, forced, refunded, keys] =
            ["allowed", "denied", "forced", "refunded", "keys"].map(|field| take(&mut map, field));
        assert!(map.is_empty(), "{map:?}");
        Self { allowed, denied, forced, refunded, keys }
    }
}

impl Counted {
    /// From the reply of `RL.STATS`, in either protocol.
    pub fn of(reply: Value) -> Self {
        let mut map: Map = redis::from_redis_value(reply).expect("a map");
        let mut rows = |field| {
            let rows: BTreeMap<String, Map> = take(&mut map, field);
            rows.into_iter().map(|(name, row)| (name, Row::of(row))).collect()
        };
        let (algorithms, policies) = (rows("algorithms"), rows("policies"));
        let [since_millis, keys, log_bytes] = ["counted_since_ms", "keys", "log_bytes"].map(|it| take(&mut map, it));
        let counted = Self { version: take(&mut map, "version"), since_millis, keys, log_bytes, algorithms, policies };
        assert!(map.is_empty(), "{map:?}");
        counted
    }

    /// The row of an algorithm or of a policy.
    pub fn row(&self, name: &str) -> Row {
        let row = self.algorithms.get(name).or_else(|| self.policies.get(name));
        *row.unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    /// The counters of requests by name, without those that are all zero.
    pub fn requests(&self) -> BTreeMap<&str, [i64; 4]> {
        let rows = self.algorithms.iter().chain(&self.policies).map(|(name, row)| (name.as_str(), row.requests()));
        rows.filter(|(_, counts)| *counts != [0; 4]).collect()
    }
}

/// The reply of `RL.STATS` once nothing is left to be freed in the background, as such keys still count.
pub fn counted(client: &mut Client) -> Counted {
    eventually("all keys are freed", || client.number("lazyfree_pending_objects") == 0);
    Counted::of(client.get("RL.STATS"))
}
