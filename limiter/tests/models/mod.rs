//! The limiters once more, deliberately naive: fractions in place of parts, lists in place of chunks, searching in
//! place of calculating. What they say is compared with what the real ones say.

#![allow(dead_code)] // every test program uses some of it

mod bucket;
pub mod cell;
mod counter;
mod fraction;
mod list;
mod log;
pub mod steps;
mod window;

use limiter::{Decision, Quota, Retry};

pub use bucket::Bucket;
pub use counter::Counter;
pub use log::Log;
pub use window::Window;

/// A naive state. It knows nothing of waits or of remainders, nor of clocks that are turned back.
pub trait Naive: Clone + Default {
    /// When something was last taken or given back.
    fn last(&self) -> u64;
    /// What is used, in whole units, rounded up.
    fn used(&self, quota: &Quota, now: u64) -> u64;
    /// The same state after a cost was taken, allowed or not.
    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self;
    /// The same state after so much of what was taken last, or all of it, was given back.
    fn given_back(&self, quota: &Quota, amount: u64, now: u64) -> Self;
    /// What is used at this moment in terms of another quota: no more than that one allows, as a change makes no debt.
    fn changed(&self, from: &Quota, to: &Quota, now: u64) -> Self;
}

/// A naive limiter of any algorithm.
#[derive(Clone)]
pub enum AnyModel {
    Bucket(Model<Bucket>),
    Window(Model<Window>),
    Log(Model<Log>),
    Counter(Model<Counter>),
}

/// Calls the same on whatever model it is.
macro_rules! of_any {
    ($any:expr, $model:ident => $call:expr) => {
        match $any {
            AnyModel::Bucket($model) => $call,
            AnyModel::Window($model) => $call,
            AnyModel::Log($model) => $call,
            AnyModel::Counter($model) => $call,
        }
    };
}

impl AnyModel {
    pub fn new(quota: Quota) -> Self {
        match quota {
            Quota::TokenBucket(_) | Quota::LeakyBucket(_) => Self::Bucket(Model::new(quota)),
            Quota::FixedWindow(_) => Self::Window(Model::new(quota)),
            Quota::SlidingLog(_) => Self::Log(Model::new(quota)),
            Quota::SlidingCounter(_) => Self::Counter(Model::new(quota)),
        }
    }

    pub fn quota(&self) -> Quota {
        of_any!(self, model => model.quota())
    }

    pub fn request(&mut self, quota: Quota, cost: u64, force: bool, now: u64) -> Told {
        of_any!(self, model => model.request(quota, cost, force, now))
    }

    pub fn peek(&self, quota: Quota, cost: u64, now: u64) -> Told {
        of_any!(self, model => model.peek(quota, cost, now))
    }

    pub fn refund(&mut self, amount: u64, now: u64) -> bool {
        of_any!(self, model => model.refund(amount, now))
    }
}

/// What a request is told, in the units of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub allowed: bool,
    pub remaining: u64,
    pub retry_ms: i64,
    pub reset_ms: i64,
    pub delay_ms: Option<i64>,
}

impl From<Decision> for Told {
    fn from(decision: Decision) -> Self {
        let reply = decision.to_reply();
        Self {
            allowed: decision.allowed,
            remaining: decision.remaining,
            retry_ms: reply.five[3],
            reset_ms: reply.five[4],
            delay_ms: reply.delay,
        }
    }
}

/// A naive limiter: a state, the quota it was last taken from with, and the rules of the contract spelt out.
#[derive(Clone)]
pub struct Model<N> {
    quota: Quota,
    state: N,
}

impl<N: Naive> Model<N> {
    pub fn new(quota: Quota) -> Self {
        Self { quota, state: N::default() }
    }

    /// The quota it was last taken from with.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    pub fn request(&mut self, quota: Quota, cost: u64, force: bool, now: u64) -> Told {
        let allowed = self.used(&quota, now) + cost <= limit(&quota);
        let mut delay = 0;
        if allowed || force {
            let (known, time) = self.at(&quota, now);
            let found = known.found(&quota, cost, time);
            delay = found.millis_until(&quota, 0, time);
            *self = Self { quota, state: found.state.taken(&quota, cost, time) };
        }
        self.told(quota, cost, allowed, delay, now)
    }

    /// What a request would be told, except that it takes nothing.
    pub fn peek(&self, quota: Quota, cost: u64, now: u64) -> Told {
        let allowed = self.used(&quota, now) + cost <= limit(&quota);
        let (model, time) = self.at(&quota, now);
        self.told(quota, cost, allowed, model.millis_until(&quota, 0, time), now)
    }

    /// Gives back so much, and says whether there was anything to give back.
    pub fn refund(&mut self, amount: u64, now: u64) -> bool {
        let used = self.used(&self.quota, now) > 0;
        if used {
            let (model, time) = self.at(&self.quota, now);
            self.state = model.state.given_back(&self.quota, amount, time);
        }
        used
    }

    /// "A step back of up to one window, or one fill time, forgives nothing", since time stands still; "only a longer step
    /// forgets".
    fn at(&self, quota: &Quota, now: u64) -> (Self, u64) {
        let last = self.state.last();
        if last.saturating_sub(now) > span(quota) {
            (Self::new(*quota), now)
        } else {
            (self.clone(), now.max(last))
        }
    }

    /// What is told of where it stands, to a request that was allowed or not.
    fn told(&self, quota: Quota, cost: u64, allowed: bool, delay_ms: i64, now: u64) -> Told {
        Told {
            allowed,
            remaining: limit(&quota).saturating_sub(self.used(&quota, now)),
            retry_ms: match limit(&quota).checked_sub(cost) {
                _ if allowed => 0,
                None => -1,
                Some(room) => self.millis_until(&quota, room, now),
            },
            reset_ms: self.millis_until(&quota, 0, now),
            delay_ms: matches!(quota, Quota::LeakyBucket(_)).then_some(if allowed { delay_ms } else { 0 }),
        }
    }

    /// What was used "wears off by the old parameters or by the new ones, whichever is sooner": the new ones as if they had
    /// come with the last change of the state.
    fn used(&self, quota: &Quota, now: u64) -> u64 {
        let (known, time) = self.at(quota, now);
        let earlier = known.changed(quota, known.state.last());
        known.state.used(&known.quota, time).min(earlier.state.used(quota, time))
    }

    /// The same under a quota that comes into force at this moment.
    fn changed(&self, quota: &Quota, now: u64) -> Self {
        if *quota == self.quota {
            return self.clone();
        }
        Self { quota: *quota, state: self.state.changed(&self.quota, quota, now) }
    }

    /// What a request that takes something adds its cost to. What is used by the old quota at this moment carries over if
    /// that leaves room for the cost, even where the new quota would have let go of more. If it leaves none, what is less
    /// in whole units counts: this, or what is left if the new quota had come with the last change of the state.
    fn found(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let (old, earlier) = (self.state.used(&self.quota, now), self.changed(quota, self.state.last()));
        if old + cost <= limit(quota) || old <= earlier.state.used(quota, now) {
            self.changed(quota, now)
        } else {
            earlier
        }
    }

    /// The first millisecond from now on at which no more than `amount` is used.
    fn millis_until(&self, quota: &Quota, amount: u64, now: u64) -> i64 {
        let enough = |millis: u64| self.used(quota, now + millis * 1_000) <= amount;
        let (mut too_short, mut long_enough) = (0, 1 << 40);
        if enough(0) {
            return 0;
        }
        while long_enough - too_short > 1 {
            let middle = too_short + (long_enough - too_short) / 2;
            if enough(middle) {
                long_enough = middle;
            } else {
                too_short = middle;
            }
        }
        i64::try_from(long_enough).expect("fits")
    }
}

pub fn limit(quota: &Quota) -> u64 {
    match quota {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => quota.capacity(),
        Quota::FixedWindow(quota) | Quota::SlidingLog(quota) | Quota::SlidingCounter(quota) => quota.limit(),
    }
}

pub fn window(quota: &Quota) -> u64 {
    match quota {
        Quota::TokenBucket(_) | Quota::LeakyBucket(_) => panic!("a bucket has no window"),
        Quota::FixedWindow(quota) | Quota::SlidingLog(quota) | Quota::SlidingCounter(quota) => quota.window(),
    }
}

/// A window, or the time in which an empty bucket fills, rounded down.
pub fn span(quota: &Quota) -> u64 {
    match quota {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => {
            let fill = u128::from(quota.capacity()) * u128::from(quota.rate().period());
            u64::try_from(fill / u128::from(quota.rate().count())).expect("a hundred years at most")
        }
        _ => window(quota),
    }
}

pub fn retry_ms(retry: Retry) -> i64 {
    match retry {
        Retry::Now => 0,
        Retry::After(micros) => i64::try_from(micros.div_ceil(1_000)).expect("fits"),
        Retry::Never => -1,
    }
}
