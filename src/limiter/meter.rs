//! What the algorithms have in common: each meters how much is used, and all else follows from that.
//!
//! A request is allowed if what is used plus its cost stays within the limit; what remains is the rest; the wait is
//! the time until little enough is used; and a limiter of which nothing is used is as good as new. So the rules that
//! hold for every algorithm stand here once, and an algorithm is only its [`Meter`].

use std::borrow::Cow;
use std::fmt::Debug;

use super::decision::{Decision, Retry};
use super::quota::Micros;

/// The state of one algorithm. It knows when something was last taken, so that time does the rest; the quota is given
/// with each call, because the same state can be looked at under the quota in force and under a new one.
pub trait Meter: Clone + Debug + Default + PartialEq {
    /// The parameters of the algorithm.
    type Quota: Copy + Debug + PartialEq;

    /// The limit of a quota.
    fn limit(quota: &Self::Quota) -> u64;

    /// When something was last taken.
    fn last_taken(&self) -> Micros;

    /// How much is used, rounded up.
    ///
    /// What was taken in the future (the clock has been turned back since) does not count wherever it would block
    /// longer than the quota ever does.
    fn used(&self, quota: &Self::Quota, now: Micros) -> u64;

    /// How long until no more than `amount` is used.
    fn wait_until_used(&self, amount: u64, quota: &Self::Quota, now: Micros) -> Micros;

    /// Forgets what no longer counts, so that the state is the one of `now`.
    fn settle(&mut self, quota: &Self::Quota, now: Micros);

    /// Takes `cost`, allowed or not; that alone never brings what is used above twice the limit.
    fn take(&mut self, cost: u64, quota: &Self::Quota, now: Micros);

    /// The state under another quota, as of the last taking. Where the state is an amount that time wears off, it is
    /// no more than the new limit; where it is what was taken when, that stands, and time alone ends it.
    fn carried_over(&self, from: &Self::Quota, to: &Self::Quota) -> Cow<'_, Self>;

    /// How long a request that takes something now is to be held, for an algorithm that spaces them.
    fn delay(&self, _quota: &Self::Quota, _now: Micros) -> Option<Micros> {
        None
    }
}

/// A meter and the quota it was last used with.
#[derive(Debug, Clone, PartialEq)]
pub struct Metered<M: Meter> {
    pub(super) quota: M::Quota,
    pub(super) meter: M,
}

impl<M: Meter> Metered<M> {
    pub(super) fn new(quota: M::Quota) -> Self {
        Self { quota, meter: M::default() }
    }

    /// Decides on a request and takes its cost if it is allowed or forced. A denied one changes nothing, not even the
    /// quota.
    pub(super) fn request(&mut self, quota: &M::Quota, cost: u64, force: bool, now: Micros) -> Decision {
        let limit = M::limit(quota);
        let allowed = self.used(quota, now) + cost <= limit;
        let taken = allowed || force;
        if taken {
            self.adopt(quota, cost, now);
        }
        let delay = self.meter.delay(quota, now).map(|delay| if allowed { delay } else { 0 });
        if taken {
            self.meter.take(cost, quota, now);
        }
        Decision {
            allowed,
            taken,
            limit,
            remaining: limit.saturating_sub(self.used(quota, now)),
            retry: match limit.checked_sub(cost) {
                _ if allowed => Retry::Now,
                None => Retry::Never,
                Some(room) => Retry::After(self.wait_until_used(room, quota, now)),
            },
            reset_after: self.wait_until_used(0, quota, now),
            delay,
        }
    }

    /// Takes what was decided elsewhere.
    pub(super) fn take(&mut self, quota: &M::Quota, cost: u64, now: Micros) {
        self.adopt(quota, cost, now);
        self.meter.take(cost, quota, now);
    }

    /// From when on nothing is used any more.
    pub(super) fn idle_at(&self) -> Micros {
        let then = self.meter.last_taken();
        then + self.meter.wait_until_used(0, &self.quota, then)
    }

    /// How much is used under `quota`.
    ///
    /// A new quota carries over what is used under the old one. That alone would make a denied client wait as the old
    /// quota says, however generous the new one is, since a denial stores nothing. So what would be used had the new
    /// quota been in force since the last taking counts as well, and the lesser of the two decides.
    fn used(&self, quota: &M::Quota, now: Micros) -> u64 {
        let used = self.meter.used(&self.quota, now);
        if *quota == self.quota {
            return used;
        }
        used.min(self.meter.carried_over(&self.quota, quota).used(quota, now))
    }

    fn wait_until_used(&self, amount: u64, quota: &M::Quota, now: Micros) -> Micros {
        let wait = self.meter.wait_until_used(amount, &self.quota, now);
        if *quota == self.quota {
            return wait;
        }
        wait.min(self.meter.carried_over(&self.quota, quota).wait_until_used(amount, quota, now))
    }

    /// Makes `quota` the one in force, because `cost` is about to be taken under it. What is used under the old quota
    /// is kept if the cost fits beside it; otherwise the lesser of the two that [`Self::used`] speaks of.
    fn adopt(&mut self, quota: &M::Quota, cost: u64, now: Micros) {
        if *quota == self.quota {
            return;
        }
        let under_old = self.meter.used(&self.quota, now);
        let under_new = self.meter.carried_over(&self.quota, quota).used(quota, now);
        if under_old + cost <= M::limit(quota) || under_old <= under_new {
            self.meter.settle(&self.quota, now);
        }
        if let Cow::Owned(meter) = self.meter.carried_over(&self.quota, quota) {
            self.meter = meter;
        }
        self.quota = *quota;
    }
}
