//! The keys that there are: as `RL.STATS` tells it, and as one finds it by looking at all of them.

use std::collections::BTreeMap;

use redis::Value;

use super::stats::{counted, take, Map};
use super::Client;

/// How many of a server's databases are looked at.
const DATABASES: u8 = 3;

/// How many keys there are of each algorithm and under each policy, and the bytes that logs take.
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

/// As the server counts them.
pub fn told(client: &mut Client) -> Live {
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

/// As they are found, in all databases.
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
    // While the table of keys grows, one may be seen twice.
    keys.sort();
    keys.dedup();
    keys
}

fn add_key(client: &mut Client, key: &[u8], live: &mut Live) {
    let info = client.call_bytes(&[b"RL.INFO", key]).expect("a key of ours");
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

/// Sees to it that the server counts what is there, once it has freed what it frees in the background.
pub fn assert_exact(client: &mut Client, after: &str) -> Live {
    let found = found(client);
    assert_eq!(told(client), found, "after {after}");
    found
}
