//! A sample of a server's statistics.

use std::collections::HashMap;
use std::time::Instant;

use redis::{FromRedisValue, Value};

#[derive(Debug, Clone)]
pub struct Sample {
    /// When the server replied.
    pub taken: Instant,
    pub stats: Stats,
    /// The ranking, or the server's error.
    pub denied: Result<Ranking, String>,
    /// The server's used memory in bytes, or its error.
    pub memory: Result<u64, String>,
}

/// The reply of `RL.STATS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    pub version: String,
    /// Since when requests are counted, by the server's clock.
    pub since_millis: u64,
    pub keys: u64,
    pub log_bytes: u64,
    pub algorithms: Vec<Counts>,
    pub policies: Vec<Counts>,
}

/// The counters of an algorithm or a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub name: String,
    pub allowed: u64,
    pub denied: u64,
    pub keys: u64,
}

/// The keys that were denied most often in the last minute, from the reply of `RL.TOP`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// All denials, also of keys that are not listed.
    pub denials: u64,
    /// The error of the counts.
    pub error: u64,
    /// The keys with their names, counts and databases.
    pub keys: Vec<(Vec<u8>, u64, u32)>,
}

type Fields = HashMap<String, Value>;

impl Stats {
    /// Parses a reply of `RL.STATS`.
    pub fn read(reply: Value) -> Result<Self, String> {
        let mut fields = read("RL.STATS", reply)?;
        Ok(Self {
            version: take(&mut fields, "version")?,
            since_millis: take(&mut fields, "counted_since_ms")?,
            keys: take(&mut fields, "keys")?,
            log_bytes: take(&mut fields, "log_bytes")?,
            algorithms: Counts::read_all(take(&mut fields, "algorithms")?)?,
            policies: Counts::read_all(take(&mut fields, "policies")?)?,
        })
    }
}

impl Counts {
    /// Parses a map of maps, in its order.
    fn read_all(reply: Value) -> Result<Vec<Self>, String> {
        let rows = reply.into_map_iter().map_err(|reply| format!("a map was expected, not {reply:?}"))?;
        rows.map(|(name, fields)| {
            let mut fields: Fields = read("a count", fields)?;
            Ok(Self {
                name: read("a name", name)?,
                allowed: take(&mut fields, "allowed")?,
                denied: take(&mut fields, "denied")?,
                keys: take(&mut fields, "keys")?,
            })
        })
        .collect()
    }
}

impl Ranking {
    /// Parses a reply of `RL.TOP`.
    pub fn read(reply: Value) -> Result<Self, String> {
        let mut fields = read("RL.TOP", reply)?;
        let mut fields: Fields = take(&mut fields, "last_minute")?;
        Ok(Self {
            denials: take(&mut fields, "denials")?,
            error: take(&mut fields, "error")?,
            keys: take(&mut fields, "keys")?,
        })
    }
}

/// Parses the used memory from a reply of `INFO memory`.
pub fn used_memory(info: &str) -> Result<u64, String> {
    let value = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| "INFO has no used_memory".to_owned())
}

fn take<T: FromRedisValue>(fields: &mut Fields, name: &str) -> Result<T, String> {
    read(name, fields.remove(name).ok_or_else(|| format!("{name} is missing"))?)
}

fn read<T: FromRedisValue>(what: &str, reply: Value) -> Result<T, String> {
    redis::from_redis_value(reply).map_err(|error| format!("{what} is not understood: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// A map as RESP2 and as RESP3 deliver it.
    fn maps<const N: usize>(fields: [(&str, Value); N]) -> [Value; 2] {
        let flat = fields.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect();
        [Value::Array(flat), Value::Map(fields.map(|(name, value)| (text(name), value)).into())]
    }

    fn counts(allowed: i64, denied: i64, keys: i64) -> [Value; 2] {
        let [forced, refunded] = [("forced", Value::Int(1)), ("refunded", Value::Int(2))];
        let [allowed, denied] = [("allowed", Value::Int(allowed)), ("denied", Value::Int(denied))];
        maps([allowed, denied, forced, refunded, ("keys", Value::Int(keys))])
    }

    #[test]
    fn both_protocols_are_parsed_and_rows_keep_their_order() {
        for protocol in [0, 1] {
            let row = |allowed, denied, keys| counts(allowed, denied, keys)[protocol].clone();
            let [algorithms, policies] =
                [maps([("TOKENBUCKET", row(1, 2, 3)), ("LEAKYBUCKET", row(4, 5, 6))]), maps([("login", row(7, 8, 9))])]
                    .map(|both| both[protocol].clone());
            let reply = maps([
                ("version", text("1.2.3")),
                ("counted_since_ms", Value::Int(1_790_000_000_000)),
                ("keys", Value::Int(18)),
                ("log_bytes", Value::Int(100)),
                ("algorithms", algorithms),
                ("policies", policies),
                ("something new", Value::Nil),
            ]);
            let counts = |name: &str, allowed, denied, keys| Counts { name: name.to_owned(), allowed, denied, keys };
            let expected = Stats {
                version: "1.2.3".to_owned(),
                since_millis: 1_790_000_000_000,
                keys: 18,
                log_bytes: 100,
                algorithms: vec![counts("TOKENBUCKET", 1, 2, 3), counts("LEAKYBUCKET", 4, 5, 6)],
                policies: vec![counts("login", 7, 8, 9)],
            };
            assert_eq!(Stats::read(reply[protocol].clone()), Ok(expected));
        }
    }

    #[test]
    fn the_ranking_is_of_the_last_minute_and_keys_may_be_any_bytes() {
        for protocol in [0, 1] {
            let ranking = |denials, key: &[u8]| {
                let key = vec![Value::BulkString(key.to_vec()), Value::Int(denials), Value::Int(1)];
                let keys = ("keys", Value::Array(vec![Value::Array(key)]));
                maps([("denials", Value::Int(denials)), ("error", Value::Int(1)), keys])[protocol].clone()
            };
            let reply = maps([("last_minute", ranking(3, b"\xff\x1b")), ("since_start", ranking(9, b"old"))]);
            let expected = Ranking { denials: 3, error: 1, keys: vec![(b"\xff\x1b".to_vec(), 3, 1)] };
            assert_eq!(Ranking::read(reply[protocol].clone()), Ok(expected));
        }
    }

    #[test]
    fn a_reply_that_cannot_be_parsed_is_an_error_that_names_the_field() {
        assert_eq!(Stats::read(maps([])[0].clone()), Err("version is missing".to_owned()));
        let negative = maps([("version", text("1")), ("counted_since_ms", text("x"))])[0].clone();
        let error = Stats::read(negative).expect_err("an error");
        assert!(error.starts_with("counted_since_ms is not understood"), "{error}");
        assert!(Stats::read(Value::Okay).is_err());
        assert!(Ranking::read(Value::Int(1)).is_err());
    }

    #[test]
    fn the_used_memory_is_found_among_other_fields() {
        let info = "# Memory\r\nused_memory_human:1.00M\r\nused_memory:1048576\r\nused_memory_rss:9\r\n";
        assert_eq!(used_memory(info), Ok(1_048_576));
        assert!(used_memory("# Memory\r\n").is_err());
    }
}
