//! What the algorithms have in common: each meters how much is used, and all else follows from that.
//!
//! A request is allowed if what is used plus its cost stays within the limit; what remains is the rest; the wait is
//! the time until little enough is used; and a limiter of which nothing is used is as good as new. So the rules that
//! hold for every algorithm stand here once, and an algorithm is only its [`Meter`].
//!
//! So does the rule for a clock that was turned back since something was last taken. After a step of up to one window, or
//! one fill time, time stands still until the clock is where it was: what was used stays used, and every wait is longer by
//! the step. The time of the last taking goes back only where a log gives back its newest entries, so many small steps gain
//! nothing either. After a longer step the limiter counts as unused, because it would block for longer than the quota ever
//! does.

use std::borrow::Cow;
use std::fmt::Debug;

use super::decision::{Decision, Retry};
use super::quota::Micros;

/// The state of one algorithm. It knows when something was last taken, so that time does the rest; the quota is given
/// with each call, because the same state can be looked at under the quota in force and under a new one.
pub trait Meter: Clone + Debug + Default + PartialEq {
    /// The parameters of the algorithm.
    type Quota: Copy + Debug + PartialEq;

    /// What the state has come to at a moment, under a quota.
    type Reading: Copy;

    /// The limit of a quota.
    fn limit(quota: &Self::Quota) -> u64;

    /// When something was last taken.
    fn last_taken(&self) -> Micros;

    /// A window, or the time in which an empty bucket fills.
    fn span(quota: &Self::Quota) -> Micros;

    /// What the state has come to, which is never asked for a time before the last taking.
    fn read(&self, quota: &Self::Quota, now: Micros) -> Self::Reading;

    /// How much is used, rounded up.
    fn used(&self, reading: Self::Reading, quota: &Self::Quota) -> u64;

    /// How long until no more than `amount` is used.
    fn wait_until_used(&self, amount: u64, reading: Self::Reading, quota: &Self::Quota) -> Micros;

    /// Makes what was read at `now` the state: forgets what no longer counts.
    fn settle(&mut self, reading: Self::Reading, quota: &Self::Quota, now: Micros);

    /// Takes `cost` from what was read at `now`, allowed or not; that alone never brings what is used above twice the
    /// limit.
    fn take(&mut self, cost: u64, reading: Self::Reading, quota: &Self::Quota, now: Micros);

    /// Takes back `amount`, or as much of it as there is, from what was read at `now`: what was taken last goes first.
    fn give_back(&mut self, amount: u64, reading: Self::Reading, quota: &Self::Quota, now: Micros);

    /// The state under another quota, as of the last taking. Where the state is an amount that time wears off, it is
    /// no more than the new limit; where it is what was taken when, that stands, and time alone ends it.
    fn carried_over(&self, from: &Self::Quota, to: &Self::Quota) -> Cow<'_, Self>;

    /// How long a request that takes something now is to be held, for an algorithm that spaces them.
    fn delay(&self, _reading: Self::Reading, _quota: &Self::Quota) -> Option<Micros> {
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
    #[inline(always)]
    pub(super) fn request(&mut self, quota: &M::Quota, cost: u64, force: bool, now: Micros) -> Decision {
        // One branch for both, and one way out of it: another would keep the decision from being made in registers.
        if now < self.meter.last_taken() || *quota != self.quota {
            if let Some(decision) = self.meet(quota, cost, force, now) {
                return decision;
            }
        }
        let limit = M::limit(quota);
        let mut view = View::new(&self.meter, quota, now);
        let mut used = view.used();
        let allowed = used + cost <= limit;
        let taken = allowed || force;
        let delay = view.delay_if(allowed);
        if taken {
            let reading = view.reading;
            self.meter.take(cost, reading, quota, now);
            view = View::new(&self.meter, quota, now);
            used = view.used();
        }
        decision(Outcome { allowed, taken, delay }, limit, cost, used, |amount| view.wait_until_used(amount))
    }

    /// What a request would be told now, except that nothing is taken: what remains, and until when, is as it stands.
    pub(super) fn peek(&self, quota: &M::Quota, cost: u64, now: Micros) -> Decision {
        if now < self.meter.last_taken() {
            return self.peek_turned_back(quota, cost, now);
        }
        if *quota != self.quota {
            return self.peek_under(quota, cost, now);
        }
        let (limit, view) = (M::limit(quota), View::new(&self.meter, quota, now));
        let used = view.used();
        let allowed = used + cost <= limit;
        let outcome = Outcome { allowed, taken: false, delay: view.delay_if(allowed) };
        decision(outcome, limit, cost, used, |amount| view.wait_until_used(amount))
    }

    /// Gives back `amount`, or as much of it as is used; returns whether there was anything to give back.
    pub(super) fn refund(&mut self, amount: u64, now: Micros) -> bool {
        let Some(now) = self.time(&self.quota, now) else { return false };
        let view = View::new(&self.meter, &self.quota, now);
        let reading = view.reading;
        if view.wait_until_used(0) == 0 {
            return false;
        }
        self.meter.give_back(amount, reading, &self.quota, now);
        true
    }

    /// Takes what was decided elsewhere.
    pub(super) fn take(&mut self, quota: &M::Quota, cost: u64, now: Micros) {
        let now = self.time(quota, now).unwrap_or_else(|| {
            *self = Self::new(*quota);
            now
        });
        if *quota != self.quota {
            self.adopt(quota, cost, now);
        }
        self.meter.take(cost, self.meter.read(quota, now), quota, now);
    }

    /// How much is used.
    pub(super) fn used(&self, now: Micros) -> u64 {
        self.time(&self.quota, now).map_or(0, |now| View::new(&self.meter, &self.quota, now).used())
    }

    /// From when on nothing is used any more; 0 if nothing is, or what was is forgotten now.
    pub(super) fn idle_at(&self, now: Micros) -> Micros {
        if self.time(&self.quota, now).is_none() {
            return 0;
        }
        let then = self.meter.last_taken();
        match View::new(&self.meter, &self.quota, then).wait_until_used(0) {
            // Whatever the time of the last taking says, which lies in the future of a clock that was turned back.
            0 => 0,
            wait => then + wait,
        }
    }

    /// The time that counts under a quota: now, or that of the last taking if the clock was turned back since; `None` if
    /// by so much that what was taken is forgotten.
    fn time(&self, quota: &M::Quota, now: Micros) -> Option<Micros> {
        let last = self.meter.last_taken();
        // Nearly always, and without the division that a span may cost.
        if now >= last {
            return Some(now);
        }
        (last - now <= M::span(quota)).then_some(last)
    }

    fn request_turned_back(&mut self, quota: &M::Quota, cost: u64, force: bool, now: Micros) -> Decision {
        if let Some(time) = self.time(quota, now) {
            return self.request(quota, cost, force, time).waiting_longer_by(time - now);
        }
        let mut fresh = Self::new(*quota);
        let decision = fresh.request(quota, cost, force, now);
        if decision.taken {
            *self = fresh;
        }
        decision
    }

    fn peek_turned_back(&self, quota: &M::Quota, cost: u64, now: Micros) -> Decision {
        match self.time(quota, now) {
            Some(time) => self.peek(quota, cost, time).waiting_longer_by(time - now),
            None => Self::new(*quota).peek(quota, cost, now),
        }
    }

    /// Meets a request after the clock was turned back, or under another quota than the one in force. Returns the decision,
    /// or `None` if the request is allowed or forced under a new quota, which is then the one in force.
    #[cold]
    fn meet(&mut self, quota: &M::Quota, cost: u64, force: bool, now: Micros) -> Option<Decision> {
        if now < self.meter.last_taken() {
            return Some(self.request_turned_back(quota, cost, force, now));
        }
        let seen = self.peek_under(quota, cost, now);
        if !seen.allowed && !force {
            return Some(seen);
        }
        self.adopt(quota, cost, now);
        None
    }

    /// As [`Self::peek`], under another quota than the one in force; how long a request would be held is not told.
    ///
    /// A new quota carries over what is used under the old one. That alone would make a denied client wait as the old
    /// quota says, however generous the new one is, since a denial stores nothing. So what would be used had the new
    /// quota been in force since the last taking counts as well, and the lesser of the two decides.
    #[cold]
    fn peek_under(&self, quota: &M::Quota, cost: u64, now: Micros) -> Decision {
        let carried_over = self.meter.carried_over(&self.quota, quota);
        let (old, new) = (View::new(&self.meter, &self.quota, now), View::new(&*carried_over, quota, now));
        let (limit, used) = (M::limit(quota), old.used().min(new.used()));
        let wait = |amount| old.wait_until_used(amount).min(new.wait_until_used(amount));
        let outcome = Outcome { allowed: used + cost <= limit, taken: false, delay: new.delay_if(false) };
        decision(outcome, limit, cost, used, wait)
    }

    /// Makes `quota` the one in force, because `cost` is about to be taken under it. What is used under the old quota
    /// is kept if the cost fits beside it; otherwise the lesser of the two that [`Self::peek_under`] speaks of.
    fn adopt(&mut self, quota: &M::Quota, cost: u64, now: Micros) {
        let old = View::new(&self.meter, &self.quota, now);
        let reading = old.reading;
        let under_old = old.used();
        let under_new = View::new(&*self.meter.carried_over(&self.quota, quota), quota, now).used();
        if under_old + cost <= M::limit(quota) || under_old <= under_new {
            self.meter.settle(reading, &self.quota, now);
        }
        if let Cow::Owned(meter) = self.meter.carried_over(&self.quota, quota) {
            self.meter = meter;
        }
        self.quota = *quota;
    }
}

/// What became of a request.
#[derive(Clone, Copy)]
struct Outcome {
    allowed: bool,
    taken: bool,
    delay: Option<Micros>,
}

/// What a request is told: its outcome, and what follows from how much is `used` by now and for how long.
#[inline(always)]
fn decision(outcome: Outcome, limit: u64, cost: u64, used: u64, wait_until_used: impl Fn(u64) -> Micros) -> Decision {
    let Outcome { allowed, taken, delay } = outcome;
    Decision {
        allowed,
        taken,
        limit,
        remaining: limit.saturating_sub(used),
        retry: match limit.checked_sub(cost) {
            _ if allowed => Retry::Now,
            None => Retry::Never,
            Some(room) => Retry::After(wait_until_used(room)),
        },
        reset_after: wait_until_used(0),
        delay,
    }
}

/// A meter with what it reads at a moment, under a quota.
struct View<'a, M: Meter> {
    meter: &'a M,
    quota: &'a M::Quota,
    reading: M::Reading,
}

impl<'a, M: Meter> View<'a, M> {
    #[inline(always)]
    fn new(meter: &'a M, quota: &'a M::Quota, now: Micros) -> Self {
        Self { meter, quota, reading: meter.read(quota, now) }
    }

    #[inline(always)]
    fn used(&self) -> u64 {
        self.meter.used(self.reading, self.quota)
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64) -> Micros {
        self.meter.wait_until_used(amount, self.reading, self.quota)
    }

    /// How long to hold a request that is allowed, for an algorithm that spaces them; one that is not need not be held.
    #[inline(always)]
    fn delay_if(&self, allowed: bool) -> Option<Micros> {
        self.meter.delay(self.reading, self.quota).map(|delay| if allowed { delay } else { 0 })
    }
}
