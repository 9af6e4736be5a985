//! The gaps between requests, like those of real traffic, deterministic by seed.

use fastrand::Rng;

use super::account::Account;
use super::Reply;

pub struct Gaps {
    random: Rng,
    /// The gap at which the limit is just used, in microseconds.
    even: u64,
    limit: u64,
    /// Requests that are still to come in this microsecond.
    burst: u64,
}

impl Gaps {
    pub fn new(seed: u64, even: u64, limit: u64) -> Self {
        Self { random: Rng::with_seed(seed), even, limit, burst: 0 }
    }

    /// Microseconds until the next request, after the replies to this one.
    pub fn next(&mut self, script: &Reply, command: &Reply, account: &Account, now: u64) -> u64 {
        if self.burst > 0 {
            self.burst -= 1;
            return 0;
        }
        let denied = !script.allowed && !command.allowed;
        let Self { random, even, limit, .. } = self;
        match random.u8(..12) {
            0 => {
                self.burst = random.u64(..(*limit).clamp(2, 10));
                0
            }
            1..=3 => random.u64(1..=1_000),
            4 => random.u64(1..=*even),
            5 => random.u64(1..=even.div_ceil(1_000)) * 1_000,
            // At the start of a millisecond.
            6 => random.u64(1..=even.div_ceil(1_000)) * 1_000 - now % 1_000,
            // After the wait of a reply.
            7 | 8 if denied => command.wait_ms() * 1_000,
            9 if denied => script.wait_ms() * 1_000,
            // When it is due, or a microsecond before or after.
            10 if denied => (account.due(now) + random.u64(..3)).saturating_sub(now + 1),
            11 if random.u8(..5) == 0 => random.u64(1..=2 * *even * *limit),
            _ => random.u64(1..=*even / 4),
        }
    }
}
