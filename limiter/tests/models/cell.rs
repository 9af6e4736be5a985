//! redis-cell as its documentation describes it: a key is the time at which the next request would arrive if requests
//! came evenly, and one that comes too long before that is limited.

/// A key of redis-cell. Its times are in parts of a nanosecond, `count` of which make one: counted in these a token takes
/// `period` to come back, and nothing is ever rounded, whether `count` divides the period or not.
#[derive(Debug, Clone)]
pub struct Cell {
    limit: u64,
    count: u64,
    period_ns: u64,
    /// When the key is as good as new.
    arrival: i128,
}

impl Cell {
    /// The key of the first request with these arguments.
    pub fn new(max_burst: u64, count: u64, period: u64) -> Self {
        Self { limit: max_burst + 1, count, period_ns: period * 1_000_000_000, arrival: 0 }
    }

    /// The five integers that a request is told at this time, in microseconds. Nothing is stored for one that is limited
    /// or takes nothing.
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

    /// When the key is as good as new, in nanoseconds: what redis-cell stores. Exact if `count` divides the period.
    pub fn stored(&self) -> u64 {
        u64::try_from(self.arrival / i128::from(self.count)).expect("a time")
    }

    /// How many microseconds from now on it is until the key is as good as new.
    pub fn full_in(&self, now: u64) -> u64 {
        u64::try_from(self.micros((self.arrival - self.parts(now)).max(0))).expect("a time")
    }

    fn parts(&self, micros: u64) -> i128 {
        i128::from(micros) * 1_000 * i128::from(self.count)
    }

    /// Rounded up, as the module does where a wait is not whole microseconds: the one thing that redis-cell does not.
    fn micros(&self, parts: i128) -> i128 {
        -(-parts).div_euclid(self.parts(1))
    }

    /// Whole seconds, and one more if there are milliseconds left; parts of a millisecond do not count.
    fn seconds(&self, parts: i128) -> i64 {
        let millis = self.micros(parts) / 1_000;
        whole(millis / 1_000 + i128::from(millis % 1_000 > 0))
    }
}

fn whole(number: i128) -> i64 {
    i64::try_from(number).expect("a small number")
}
