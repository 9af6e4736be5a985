//! What `RL.STATS` tells.

use std::collections::BTreeMap;

use redis::{FromRedisValue, Value};

use super::{eventually, Client};

/// All that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub version: String,
    pub since_millis: i64,
    pub keys: i64,
    pub log_bytes: i64,
    pub algorithms: BTreeMap<String, Row>,
    pub policies: BTreeMap<String, Row>,
}

/// What is counted of an algorithm or a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    pub allowed: i64,
    pub denied: i64,
    pub forced: i64,
    pub refunded: i64,
    pub keys: i64,
}

pub type Map = BTreeMap<String, Value>;

/// A field of a map, which must be there; each is taken out, so that none is left over in the end.
pub fn take<T: FromRedisValue>(map: &mut Map, field: &str) -> T {
    let value = map.remove(field).unwrap_or_else(|| panic!("{field} in {map:?}"));
    redis::from_redis_value(value).unwrap_or_else(|error| panic!("{field}: {error}"))
}

impl Row {
    /// What was counted of requests: allowed, denied, forced and refunded.
    pub fn requests(&self) -> [i64; 4] {
        [self.allowed, self.denied, self.forced, self.refunded]
    }

    /// Of the fields of `map`, which are all that there are.
    pub fn of(mut map: Map) -> Self {
        let [allowed, denied, forced, refunded, keys] =
            ["allowed", "denied", "forced", "refunded", "keys"].map(|field| take(&mut map, field));
        assert!(map.is_empty(), "{map:?}");
        Self { allowed, denied, forced, refunded, keys }
    }
}

impl Counted {
    /// Of the reply of `RL.STATS`, in either protocol.
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

    /// What was counted of requests under each name, where that is anything.
    pub fn requests(&self) -> BTreeMap<&str, [i64; 4]> {
        let rows = self.algorithms.iter().chain(&self.policies).map(|(name, row)| (name.as_str(), row.requests()));
        rows.filter(|(_, counts)| *counts != [0; 4]).collect()
    }
}

/// What the server tells, once nothing waits for another thread to free it: until then it counts.
pub fn counted(client: &mut Client) -> Counted {
    eventually("all is freed", || client.number("lazyfree_pending_objects") == 0);
    Counted::of(client.get("RL.STATS"))
}
