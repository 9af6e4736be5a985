//! The usual Lua scripts, which the benchmark measures too, and limits for them and the commands.

use limiter::{Algorithm, Quota};

use crate::common::Client;

/// A script that a command replaces.
pub struct Script {
    pub algorithm: Algorithm,
    pub text: &'static str,
    /// The suffixes of its keys.
    keys: &'static [&'static str],
}

pub const TOKEN_BUCKET: Script = Script {
    algorithm: Algorithm::TokenBucket,
    text: include_str!("../../../benches/bench/lua/token_bucket.lua"),
    keys: &[":tokens", ":time"],
};
pub const LEAKY_BUCKET: Script = Script {
    algorithm: Algorithm::LeakyBucket,
    text: include_str!("../../../benches/bench/lua/leaky_bucket.lua"),
    keys: &[":level", ":time"],
};
pub const FIXED_WINDOW: Script = Script {
    algorithm: Algorithm::FixedWindow,
    text: include_str!("../../../benches/bench/lua/fixed_window.lua"),
    keys: &[""],
};
pub const SLIDING_LOG: Script = Script {
    algorithm: Algorithm::SlidingLog,
    text: include_str!("../../../benches/bench/lua/sliding_log.lua"),
    keys: &[""],
};
pub const SLIDING_COUNTER: Script = Script {
    algorithm: Algorithm::SlidingCounter,
    text: include_str!("../../../benches/bench/lua/sliding_counter.lua"),
    keys: &[""],
};
pub const SCRIPTS: [&Script; 5] = [&TOKEN_BUCKET, &LEAKY_BUCKET, &FIXED_WINDOW, &SLIDING_LOG, &SLIDING_COUNTER];

impl Script {
    /// Its name on the page.
    pub fn title(&self) -> &'static str {
        match self.algorithm {
            Algorithm::TokenBucket => "token bucket",
            Algorithm::LeakyBucket => "leaky bucket",
            Algorithm::FixedWindow => "fixed window",
            Algorithm::SlidingLog => "sliding log",
            Algorithm::SlidingCounter => "sliding counter",
        }
    }

    pub fn is_bucket(&self) -> bool {
        matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }

    /// Loads it into the server, and returns its digest.
    pub fn load(&self, client: &mut Client) -> String {
        let loaded = client.call_bytes(&[b"SCRIPT", b"LOAD", self.text.as_bytes()]).expect("a script");
        redis::from_redis_value(loaded).expect("a digest")
    }

    /// The call of the script.
    pub fn call(&self, sha: &str, user: &str, limit: &Limit) -> String {
        let keys: Vec<String> = self.keys.iter().map(|end| format!("{user}{end}")).collect();
        format!("EVALSHA {sha} {} {} {} {}", keys.len(), keys.join(" "), limit.most, limit.number)
    }

    /// The command that replaces it.
    pub fn command(&self, user: &str, limit: &Limit) -> String {
        format!("RL.{} {user} {} {}", self.algorithm.name(), limit.most, limit.pace)
    }
}

/// A limit as arguments of a script and of its command.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The capacity or limit.
    pub most: u64,
    /// The command's rate or window.
    pub pace: &'static str,
    /// The script's: tokens per second, or seconds.
    number: &'static str,
}

/// A limit whose rate or window is the same text for both.
pub const fn alike(most: u64, pace: &'static str) -> Limit {
    Limit { most, pace, number: pace }
}

/// A limit whose rate is exact for the command, and the nearest float for the script.
pub const fn exactly(most: u64, pace: &'static str, number: &'static str) -> Limit {
    Limit { most, pace, number }
}

impl Limit {
    pub fn quota(&self, script: &Script) -> Quota {
        let most = self.most.to_string();
        Quota::parse(script.algorithm, most.as_bytes(), self.pace.as_bytes()).expect("a valid quota")
    }
}
