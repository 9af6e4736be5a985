//! Logs of a million entries, without a million requests.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use limiter::{Algorithm, Limiter, Quota, Request, Value};
use redis_ratelimit::replication::effect::recreate;

use super::Client;

/// The effects that make a log of a million entries in the last quarter of an hour.
fn million_entries() -> &'static [Vec<u8>] {
    static EFFECTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    EFFECTS.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after the epoch").as_micros();
        let start = u64::try_from(now).expect("a time of these days") - 1_000_000_000;
        let quota = Quota::parse(Algorithm::SlidingLog, b"2000000", b"1d").expect("a quota");
        let mut limiter = Limiter::new(&quota);
        for entry in 0..1_000_000 {
            limiter.request(&quota, Request::new(1, start + entry * 1_000)).expect("a log");
        }
        recreate(&Value::Limiter(limiter)).collect()
    })
}

/// Sets each of the keys to that log, and adds an entry. Their allocations alternate in memory.
pub fn make_million(client: &mut Client, keys: &[&str]) {
    for effects in million_entries().chunks(500) {
        let mut pipeline = redis::pipe();
        for (effect, key) in effects.iter().flat_map(|effect| keys.iter().map(move |key| (effect, key))) {
            pipeline.cmd("RL.APPLY").arg(key).arg(effect);
        }
        let replies = client.pipeline(&pipeline.get_packed_pipeline(), pipeline.len());
        assert!(replies.iter().all(|reply| *reply == redis::Value::Okay), "{replies:?}");
    }
    for key in keys {
        assert_eq!(client.limit(&format!("RL.SLIDINGLOG {key} 2000000 1d"))[..3], [1, 2_000_000, 999_999]);
    }
}
