//! Naive models of the limiters, to compare their decisions with: fractions instead of integers, plain lists instead of
//! chunks, searches instead of formulas.

#![allow(dead_code)] // every test program uses a part of it

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

/// A naive state. It knows no waits, no remaining quota and no steps back of the clock.
pub trait Naive: Clone + Default {
    /// When the state last changed.
    fn last(&self) -> u64;
    /// What is used, rounded up.
    fn used(&self, quota: &Quota, now: u64) -> u64;
    /// The state after a cost is taken, even beyond the limit.
    fn taken(&self, quota: &Quota, cost: u64, now: u64) -> Self;
    /// The state after a refund of the newest costs, up to `amount`.
    fn refunded(&self, quota: &Quota, amount: u64, now: u64) -> Self;
    /// The state after a change of the quota: what is used is cut to the new limit, as a change creates no debt.
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

macro_rules! dispatch {
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
        dispatch!(self, model => model.quota())
    }

    pub fn request(&mut self, quota: Quota, cost: u64, force: bool, now: u64) -> Reply {
        dispatch!(self, model => model.request(quota, cost, force, now))
    }

    pub fn peek(&self, quota: Quota, cost: u64, now: u64) -> Reply {
        dispatch!(self, model => model.peek(quota, cost, now))
    }

    pub fn refund(&mut self, amount: u64, now: u64) -> bool {
        dispatch!(self, model => model.refund(amount, now))
    }
}

/// A decision in the units of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub allowed: bool,
    pub remaining: u64,
    pub retry_ms: i64,
    pub reset_ms: i64,
    pub delay_ms: Option<i64>,
}

impl From<Decision> for Reply {
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

/// A naive limiter: a state, its quota, and the rules of the contract.
#[derive(Clone)]
pub struct Model<N> {
    quota: Quota,
    state: N,
}

impl<N: Naive> Model<N> {
    pub fn new(quota: Quota) -> Self {
        Self { quota, state: N::default() }
    }

    /// The quota of the last request that was taken.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    pub fn request(&mut self, quota: Quota, cost: u64, force: bool, now: u64) -> Reply {
        let allowed = self.used(&quota, now) + cost <= limit(&quota);
        let mut delay = 0;
        if allowed || force {
            let (current, time) = self.at(&quota, now);
            let base = current.base(&quota, cost, time);
            delay = base.millis_until(&quota, 0, time);
            *self = Self { quota, state: base.state.taken(&quota, cost, time) };
        }
        self.reply(quota, cost, allowed, delay, now)
    }

    /// The reply to a request, without taking anything.
    pub fn peek(&self, quota: Quota, cost: u64, now: u64) -> Reply {
        let allowed = self.used(&quota, now) + cost <= limit(&quota);
        let (model, time) = self.at(&quota, now);
        self.reply(quota, cost, allowed, model.millis_until(&quota, 0, time), now)
    }

    /// Refunds up to `amount`; returns whether anything was used.
    pub fn refund(&mut self, amount: u64, now: u64) -> bool {
        let used = self.used(&self.quota, now) > 0;
        if used {
            let (model, time) = self.at(&self.quota, now);
            self.state = model.state.refunded(&self.quota, amount, time);
        }
        used
    }

    /// The limiter and the time after a possible step back of the clock: within one span time stands still, after a
    /// longer step the limiter is reset.
    fn at(&self, quota: &Quota, now: u64) -> (Self, u64) {
        let last = self.state.last();
        if last.saturating_sub(now) > span(quota) {
            (Self::new(*quota), now)
        } else {
            (self.clone(), now.max(last))
        }
    }

    /// The reply, from the state after the request.
    fn reply(&self, quota: Quota, cost: u64, allowed: bool, delay_ms: i64, now: u64) -> Reply {
        Reply {
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

    /// What is used by the old quota or by the new one, whichever is less. The new quota counts as if it were set when
    /// the state last changed.
    fn used(&self, quota: &Quota, now: u64) -> u64 {
        let (current, time) = self.at(quota, now);
        let earlier = current.changed(quota, current.state.last());
        current.state.used(&current.quota, time).min(earlier.state.used(quota, time))
    }

    /// The limiter after a change of its quota at this time.
    fn changed(&self, quota: &Quota, now: u64) -> Self {
        if *quota == self.quota {
            return self.clone();
        }
        Self { quota: *quota, state: self.state.changed(&self.quota, quota, now) }
    }

    /// The limiter to which a request adds its cost. What is used by the old quota carries over if it leaves room for
    /// the cost. Otherwise the lesser one counts: this, or what is used if the new quota were set when the state last
    /// changed.
    fn base(&self, quota: &Quota, cost: u64, now: u64) -> Self {
        let (old, earlier) = (self.state.used(&self.quota, now), self.changed(quota, self.state.last()));
        if old + cost <= limit(quota) || old <= earlier.state.used(quota, now) {
            self.changed(quota, now)
        } else {
            earlier
        }
    }

    /// Milliseconds until no more than `amount` is used.
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

/// The window, or the time in which an empty bucket fills, rounded down.
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
