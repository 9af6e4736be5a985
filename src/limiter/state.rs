//! The five algorithms behind one set of methods.

use super::decision::Decision;
use super::fixed_window::FixedWindow;
use super::leaky_bucket::LeakyBucket;
use super::meter::{Meter, Metered};
use super::quota::{Algorithm, Micros, Quota};
use super::sliding_counter::SlidingCounter;
use super::sliding_log::{Entries, SlidingLog};
use super::token_bucket::TokenBucket;

/// The state of a limiter of any algorithm, with its quota.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, private_interfaces)] // the variants are the algorithms; what they hold is theirs
pub enum State {
    TokenBucket(Metered<TokenBucket>),
    LeakyBucket(Metered<LeakyBucket>),
    FixedWindow(Metered<FixedWindow>),
    SlidingLog(Metered<SlidingLog>),
    SlidingCounter(Metered<SlidingCounter>),
}

/// A quota was used on a limiter of another algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherAlgorithm {
    /// What the limiter is.
    pub held: Algorithm,
    /// What the quota is for.
    pub asked: Algorithm,
}

impl State {
    /// A limiter that nothing has been taken from.
    pub fn new(quota: &Quota) -> Self {
        match *quota {
            Quota::TokenBucket(quota) => Self::TokenBucket(Metered::new(quota)),
            Quota::LeakyBucket(quota) => Self::LeakyBucket(Metered::new(quota)),
            Quota::FixedWindow(quota) => Self::FixedWindow(Metered::new(quota)),
            Quota::SlidingLog(quota) => Self::SlidingLog(Metered::new(quota)),
            Quota::SlidingCounter(quota) => Self::SlidingCounter(Metered::new(quota)),
        }
    }

    /// Decides on a request that costs `cost`, and takes that if it is allowed, or in any case with `force`. If
    /// nothing was taken, nothing has changed.
    ///
    /// # Errors
    /// When the quota is for another algorithm; nothing has changed then.
    pub fn request(&mut self, quota: &Quota, cost: u64, force: bool, now: Micros) -> Result<Decision, OtherAlgorithm> {
        Ok(match (&mut *self, quota) {
            (Self::TokenBucket(it), Quota::TokenBucket(quota)) => it.request(quota, cost, force, now),
            (Self::LeakyBucket(it), Quota::LeakyBucket(quota)) => it.request(quota, cost, force, now),
            (Self::FixedWindow(it), Quota::FixedWindow(quota)) => it.request(quota, cost, force, now),
            (Self::SlidingLog(it), Quota::SlidingLog(quota)) => it.request(quota, cost, force, now),
            (Self::SlidingCounter(it), Quota::SlidingCounter(quota)) => it.request(quota, cost, force, now),
            _ => return Err(self.other(quota)),
        })
    }

    /// Takes `cost` without deciding anything: what [`Self::request`] did when it took it at that time.
    ///
    /// # Errors
    /// When the quota is for another algorithm; nothing has changed then.
    pub fn take(&mut self, quota: &Quota, cost: u64, at: Micros) -> Result<(), OtherAlgorithm> {
        match (&mut *self, quota) {
            (Self::TokenBucket(it), Quota::TokenBucket(quota)) => it.take(quota, cost, at),
            (Self::LeakyBucket(it), Quota::LeakyBucket(quota)) => it.take(quota, cost, at),
            (Self::FixedWindow(it), Quota::FixedWindow(quota)) => it.take(quota, cost, at),
            (Self::SlidingLog(it), Quota::SlidingLog(quota)) => it.take(quota, cost, at),
            (Self::SlidingCounter(it), Quota::SlidingCounter(quota)) => it.take(quota, cost, at),
            _ => return Err(self.other(quota)),
        }
        Ok(())
    }

    /// What a request that costs `cost` would be told now, except that nothing is taken: what remains, and until when,
    /// is as it stands.
    ///
    /// # Errors
    /// When the quota is for another algorithm.
    pub fn peek(&self, quota: &Quota, cost: u64, now: Micros) -> Result<Decision, OtherAlgorithm> {
        Ok(match (self, quota) {
            (Self::TokenBucket(it), Quota::TokenBucket(quota)) => it.peek(quota, cost, now),
            (Self::LeakyBucket(it), Quota::LeakyBucket(quota)) => it.peek(quota, cost, now),
            (Self::FixedWindow(it), Quota::FixedWindow(quota)) => it.peek(quota, cost, now),
            (Self::SlidingLog(it), Quota::SlidingLog(quota)) => it.peek(quota, cost, now),
            (Self::SlidingCounter(it), Quota::SlidingCounter(quota)) => it.peek(quota, cost, now),
            _ => return Err(self.other(quota)),
        })
    }

    /// As [`Self::peek`], with the quota in force.
    pub fn peek_as_it_is(&self, cost: u64, now: Micros) -> Decision {
        match self {
            Self::TokenBucket(it) => it.peek(&it.quota, cost, now),
            Self::LeakyBucket(it) => it.peek(&it.quota, cost, now),
            Self::FixedWindow(it) => it.peek(&it.quota, cost, now),
            Self::SlidingLog(it) => it.peek(&it.quota, cost, now),
            Self::SlidingCounter(it) => it.peek(&it.quota, cost, now),
        }
    }

    /// Gives back `amount`, or as much of it as is used; returns whether there was anything to give back.
    pub fn refund(&mut self, amount: u64, now: Micros) -> bool {
        match self {
            Self::TokenBucket(it) => it.refund(amount, now),
            Self::LeakyBucket(it) => it.refund(amount, now),
            Self::FixedWindow(it) => it.refund(amount, now),
            Self::SlidingLog(it) => it.refund(amount, now),
            Self::SlidingCounter(it) => it.refund(amount, now),
        }
    }

    /// How much is used, rounded up.
    pub fn used(&self, now: Micros) -> u64 {
        match self {
            Self::TokenBucket(it) => it.used(now),
            Self::LeakyBucket(it) => it.used(now),
            Self::FixedWindow(it) => it.used(now),
            Self::SlidingLog(it) => it.used(now),
            Self::SlidingCounter(it) => it.used(now),
        }
    }

    /// When something was last taken or given back, or 0; a log knows only of its newest entry.
    pub fn last_changed(&self) -> Micros {
        match self {
            Self::TokenBucket(it) => it.meter.last_taken(),
            Self::LeakyBucket(it) => it.meter.last_taken(),
            Self::FixedWindow(it) => it.meter.last_taken(),
            Self::SlidingLog(it) => it.meter.last_taken(),
            Self::SlidingCounter(it) => it.meter.last_taken(),
        }
    }

    /// From when on the limiter is as good as a new one, as it stands now.
    pub fn idle_at(&self, now: Micros) -> Micros {
        match self {
            Self::TokenBucket(it) => it.idle_at(now),
            Self::LeakyBucket(it) => it.idle_at(now),
            Self::FixedWindow(it) => it.idle_at(now),
            Self::SlidingLog(it) => it.idle_at(now),
            Self::SlidingCounter(it) => it.idle_at(now),
        }
    }

    /// The quota it was last used with.
    pub const fn quota(&self) -> Quota {
        match self {
            Self::TokenBucket(it) => Quota::TokenBucket(it.quota),
            Self::LeakyBucket(it) => Quota::LeakyBucket(it.quota),
            Self::FixedWindow(it) => Quota::FixedWindow(it.quota),
            Self::SlidingLog(it) => Quota::SlidingLog(it.quota),
            Self::SlidingCounter(it) => Quota::SlidingCounter(it.quota),
        }
    }

    /// The entries of a log; the other algorithms have a state of constant size.
    pub const fn entries(&self) -> Option<&Entries> {
        match self {
            Self::SlidingLog(log) => Some(&log.meter.entries),
            _ => None,
        }
    }

    /// As [`Self::entries`], to move them or to add to them.
    pub const fn entries_mut(&mut self) -> Option<&mut Entries> {
        match self {
            Self::SlidingLog(log) => Some(&mut log.meter.entries),
            _ => None,
        }
    }

    fn other(&self, quota: &Quota) -> OtherAlgorithm {
        OtherAlgorithm { held: self.quota().algorithm(), asked: quota.algorithm() }
    }
}
