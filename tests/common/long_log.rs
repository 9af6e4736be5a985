//! Logs of a million entries, without a million requests.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::Value;
use redis_ratelimit::limiter::{Algorithm, Held, Limiter, Quota};
use redis_ratelimit::replication::state_facts;

use super::Client;

/// The facts that make a log of a million entries of the last quarter of an hour.
fn million_entries() -> &'static [Vec<u8>] {
    static FACTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FACTS.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after the epoch").as_micros();
        let start = u64::try_from(now).expect("a time of these days") - 1_000_000_000;
        let quota = Quota::parse(Algorithm::SlidingLog, b"2000000", b"1d").expect("a quota");
        let mut limiter = Limiter::new(&quota);
        for entry in 0..1_000_000 {
            limiter.request(&quota, 1, false, start + entry * 1_000).expect("a log");
        }
        state_facts(&Held::Limiter(limiter)).collect()
    })
}

/// Makes each of the keys hold that log, one more entry included; what they take comes to lie side by side.
pub fn make_million(client: &mut Client, keys: &[&str]) {
    for facts in million_entries().chunks(500) {
        let mut pipeline = redis::pipe();
        for (fact, key) in facts.iter().flat_map(|fact| keys.iter().map(move |key| (fact, key))) {
            pipeline.cmd("RL.APPLY").arg(key).arg(fact);
        }
        let replies = client.pipeline(&pipeline.get_packed_pipeline(), pipeline.len());
        assert!(replies.iter().all(|reply| *reply == Value::Okay), "{replies:?}");
    }
    for key in keys {
        assert_eq!(client.limit(&format!("RL.SLIDINGLOG {key} 2000000 1d"))[..3], [1, 2_000_000, 999_999]);
    }
}
