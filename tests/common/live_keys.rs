//! The number of keys: by `RL.STATS`, and by a scan of all keys.

use std::collections::BTreeMap;

use redis::Value;

use super::stats::{counted, take, Map};
use super::Client;

/// How many databases are scanned.
const DATABASES: u8 = 3;

/// The keys of each algorithm and of each policy, and the memory of logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    pub keys: BTreeMap<String, i64>,
    pub log_bytes: i64,
}

impl Live {
    pub fn total(&self) -> i64 {
        self.keys.values().sum()
    }

    fn add(&mut self, kind: &str, name: &str, keys: i64) {
        if keys != 0 {
            *self.keys.entry(format!("{kind} {name}")).or_default() += keys;
        }
    }

    fn add_bytes(&mut self, limiter: &mut Map) {
        if limiter.contains_key("entries") {
            self.log_bytes += take::<i64>(limiter, "bytes");
        }
    }
}

/// By the server's counters.
pub fn reported(client: &mut Client) -> Live {
    let counted = counted(client);
    let mut live = Live { log_bytes: counted.log_bytes, ..Live::default() };
    for (kind, rows) in [("algorithm", &counted.algorithms), ("policy", &counted.policies)] {
        for (name, row) in rows {
            live.add(kind, name, row.keys);
        }
    }
    assert_eq!(counted.keys, live.total(), "the sum");
    live
}

/// By a scan of all databases.
pub fn found(client: &mut Client) -> Live {
    let mut live = Live::default();
    for database in 0..DATABASES {
        client.get::<()>(&format!("SELECT {database}"));
        for key in all_keys(client) {
            add_key(client, &key, &mut live);
        }
    }
    client.get::<()>("SELECT 0");
    live
}

fn all_keys(client: &mut Client) -> Vec<Vec<u8>> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let (next, found): (String, Vec<Vec<u8>>) = client.get(&format!("SCAN {cursor} COUNT 1000 TYPE ratelimit"));
        keys.extend(found);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    // A scan may return a key twice while the table grows.
    keys.sort();
    keys.dedup();
    keys
}

fn add_key(client: &mut Client, key: &[u8], live: &mut Live) {
    let info = client.call_bytes(&[b"RL.INFO", key]).expect("a limiter");
    if info == Value::Nil {
        return; // it has just expired
    }
    let mut info: Map = redis::from_redis_value(info).expect("a map");
    if info.contains_key("policy") {
        live.add("policy", &take::<String>(&mut info, "policy"), 1);
        for mut limiter in take::<Vec<Map>>(&mut info, "limits") {
            live.add_bytes(&mut limiter);
        }
    } else {
        live.add("algorithm", &take::<String>(&mut info, "algorithm"), 1);
        live.add_bytes(&mut info);
    }
}

/// Checks the server's counters by a scan, once nothing is left to be freed in the background.
pub fn assert_exact(client: &mut Client, after: &str) -> Live {
    let found = found(client);
    assert_eq!(reported(client), found, "after {after}");
    found
}
