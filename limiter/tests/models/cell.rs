//! redis-cell, modelled from its documentation. A key is the theoretical arrival time of the next request; a request
//! that comes too long before it is limited.

/// A key of redis-cell. Its times are in units of 1/`count` nanoseconds: a token refills in a whole number of them, so
/// nothing is rounded, also if `count` does not divide the period.
#[derive(Debug, Clone)]
pub struct Cell {
    limit: u64,
    count: u64,
    period_ns: u64,
    /// When the limit fully resets.
    arrival: i128,
}

impl Cell {
    /// The key of the first request with these arguments.
    pub fn new(max_burst: u64, count: u64, period: u64) -> Self {
        Self { limit: max_burst + 1, count, period_ns: period * 1_000_000_000, arrival: 0 }
    }

    /// The reply to a request at a time in microseconds. A request that is limited, or takes nothing, stores nothing.
    pub fn throttle(&mut self, quantity: u64, now: u64) -> [i64; 5] {
        let (limit, token, now) = (i128::from(self.limit), i128::from(self.period_ns), self.parts(now));
        let (arrival, quantity) = (self.arrival.max(now), i128::from(quantity));
        let next = arrival + token * quantity;
        let too_early = next - token * limit - now;
        let limited = too_early > 0;
        if !limited && quantity > 0 {
            self.arrival = next;
        }
        let full_in = if limited { arrival } else { next } - now;
        let remaining = (token * limit - full_in).div_euclid(token);
        let retry = if limited && quantity <= limit { self.seconds(too_early) } else { -1 };
        [i64::from(limited), whole(limit), whole(remaining), retry, self.seconds(full_in)]
    }

    /// The value that redis-cell stores: when the limit fully resets, in nanoseconds. Exact if `count` divides the
    /// period.
    pub fn stored(&self) -> u64 {
        u64::try_from(self.arrival / i128::from(self.count)).expect("a time")
    }

    /// Microseconds until the limit fully resets.
    pub fn full_in(&self, now: u64) -> u64 {
        u64::try_from(self.micros((self.arrival - self.parts(now)).max(0))).expect("a time")
    }

    fn parts(&self, micros: u64) -> i128 {
        i128::from(micros) * 1_000 * i128::from(self.count)
    }

    /// Rounded up to microseconds, as the module does. This is the only difference to redis-cell.
    fn micros(&self, parts: i128) -> i128 {
        -(-parts).div_euclid(self.parts(1))
    }

    /// Whole milliseconds, rounded up to seconds.
    fn seconds(&self, parts: i128) -> i64 {
        let millis = self.micros(parts) / 1_000;
        whole(millis / 1_000 + i128::from(millis % 1_000 > 0))
    }
}

fn whole(number: i128) -> i64 {
    i64::try_from(number).expect("a small number")
}
