//! The rules that all algorithms share. An algorithm only tells how much is used; everything else follows from that.
//!
//! - A request is allowed if what is used plus its cost is within the limit.
//! - The remaining quota is the limit less what is used.
//! - The wait is the time until little enough is used; the limit resets when nothing is.
//!
//! **The clock steps back.** After a step of up to one window or fill time, time stands still for the limiter until the
//! clock catches up: what was used stays used, and every wait is longer by the step. Small steps in a row gain nothing,
//! as the time of the last taking only goes back where a refund removes the newest entries of a log. After a longer step
//! the limiter is reset, because it would block for longer than the quota ever does.

use std::borrow::Cow;
use std::fmt::Debug;

use super::Listed;
use crate::varint::{Reader, Sink};
use crate::{Decision, Entries, Micros, Parameters, Quota, Request, Retry, WrongAlgorithm};

/// The state of one algorithm, and its arithmetic. The quota is passed to each call, since the same state is looked at
/// under the quota in force and under a new one.
pub trait State: Listed + Clone + Debug + Default + PartialEq {
    /// What the state amounts to at a time, under a quota.
    type Reading: Copy;

    /// When something was last taken.
    fn last_taken(&self) -> Micros;

    /// A window, or the time in which an empty bucket fills.
    fn span(quota: &Self::Quota) -> Micros;

    /// What the state amounts to at a time that is not before the last taking.
    fn read(&self, quota: &Self::Quota, now: Micros) -> Self::Reading;

    /// How much is used, rounded up.
    fn used(&self, reading: Self::Reading, quota: &Self::Quota) -> u64;

    /// How long until no more than `amount` is used.
    fn wait_until_used(&self, amount: u64, reading: Self::Reading, quota: &Self::Quota) -> Micros;

    /// Makes what was read at `now` the state, without what no longer counts.
    fn settle(&mut self, reading: Self::Reading, quota: &Self::Quota, now: Micros);

    /// Takes `cost`, on top of what was read at `now`. Usage never exceeds twice the limit by this alone.
    fn take(&mut self, cost: u64, reading: Self::Reading, quota: &Self::Quota, now: Micros);

    /// Gives back up to `amount` of what was read at `now`, what was taken last first.
    fn give_back(&mut self, amount: u64, reading: Self::Reading, quota: &Self::Quota, now: Micros);

    /// The state under another quota, as of the last taking. An amount that wears off is cut to the new limit; a record
    /// of what was taken when stays as it is, and ends with time.
    fn carried_over(&self, from: &Self::Quota, to: &Self::Quota) -> Cow<'_, Self>;

    /// How long to delay a request that is allowed now, for an algorithm that spaces requests evenly.
    fn delay(&self, _reading: Self::Reading, _quota: &Self::Quota) -> Option<Micros> {
        None
    }

    /// The entries of a log; the other algorithms have a state of constant size.
    fn entries(&self) -> Option<&Entries> {
        None
    }

    /// The entries of a log, to move them or to append to them.
    fn entries_mut(&mut self) -> Option<&mut Entries> {
        None
    }

    /// Writes the state, but not the entries of a log.
    fn encode(&self, out: &mut impl Sink);

    /// Reads what [`Self::encode`] wrote; `None` for anything that no limiter with this quota has.
    fn decode(reader: &mut Reader<'_>, quota: &Self::Quota) -> Option<Self>;
}

/// A state and the quota it was last used with.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracker<S: State> {
    pub(crate) quota: S::Quota,
    pub(crate) state: S,
}

impl<S: State> Tracker<S> {
    pub(crate) fn new(quota: S::Quota) -> Self {
        Self { quota, state: S::default() }
    }

    /// The parameters of a quota that is for this algorithm.
    #[allow(clippy::unused_self)] // its type tells the algorithm
    #[inline(always)]
    pub(crate) fn own_quota<'a>(&self, quota: &'a Quota) -> Result<&'a S::Quota, WrongAlgorithm> {
        S::quota(quota).ok_or_else(|| WrongAlgorithm { held: S::ALGORITHM, requested: quota.algorithm() })
    }

    /// Decides on a request, and takes its cost if it is allowed or forced. A denied request changes nothing, not even
    /// the quota.
    #[inline(always)]
    pub(crate) fn request(&mut self, quota: &S::Quota, request: Request) -> Decision {
        let Request { cost, now, .. } = request;
        // One branch for both, and one way out of it: another would keep the decision from being made in registers.
        if now < self.state.last_taken() || *quota != self.quota {
            if let Some(decision) = self.request_uncommon(quota, request) {
                return decision;
            }
        }
        let limit = quota.limit();
        let mut view = View::new(&self.state, quota, now);
        let mut used = view.used();
        let allowed = used + cost <= limit;
        let taken = allowed || request.is_forced();
        let delay = view.delay_if(allowed);
        if taken {
            let reading = view.reading;
            self.state.take(cost, reading, quota, now);
            view = View::new(&self.state, quota, now);
            used = view.used();
        }
        decision(Outcome { allowed, taken, delay }, limit, cost, used, &view)
    }

    /// The decision on a request that takes nothing: `remaining` and `reset_after` are as they are now.
    pub(crate) fn peek(&self, quota: &S::Quota, cost: u64, now: Micros) -> Decision {
        if now < self.state.last_taken() {
            return self.peek_after_step_back(quota, cost, now);
        }
        if *quota != self.quota {
            return self.peek_under(quota, cost, now);
        }
        let (limit, view) = (quota.limit(), View::new(&self.state, quota, now));
        let used = view.used();
        let allowed = used + cost <= limit;
        let outcome = Outcome { allowed, taken: false, delay: view.delay_if(allowed) };
        decision(outcome, limit, cost, used, &view)
    }

    /// Gives back up to `amount`; returns whether anything was used.
    pub(crate) fn refund(&mut self, amount: u64, now: Micros) -> bool {
        let Some(now) = self.effective_time(&self.quota, now) else { return false };
        let view = View::new(&self.state, &self.quota, now);
        let reading = view.reading;
        if view.wait_until_used(0) == 0 {
            return false;
        }
        self.state.give_back(amount, reading, &self.quota, now);
        true
    }

    /// How much is used.
    pub(crate) fn used(&self, now: Micros) -> u64 {
        self.effective_time(&self.quota, now).map_or(0, |now| View::new(&self.state, &self.quota, now).used())
    }

    /// When nothing will be used any more; 0 if nothing is used now.
    pub(crate) fn resets_at(&self, now: Micros) -> Micros {
        if self.effective_time(&self.quota, now).is_none() {
            return 0;
        }
        let last = self.state.last_taken();
        match View::new(&self.state, &self.quota, last).wait_until_used(0) {
            // Nothing is used, even if the last taking is in the future of a clock that stepped back.
            0 => 0,
            wait => last + wait,
        }
    }

    /// The time that counts under a quota: now, or the time of the last taking if the clock has stepped back since;
    /// `None` if it has stepped back so far that the limiter is reset.
    fn effective_time(&self, quota: &S::Quota, now: Micros) -> Option<Micros> {
        let last = self.state.last_taken();
        // The usual case, without the division that a span may cost.
        if now >= last {
            return Some(now);
        }
        (last - now <= S::span(quota)).then_some(last)
    }

    /// Handles a request after a step back of the clock, or under another quota than the one in force. Returns the
    /// decision; or `None` if the request takes its cost under a new quota, which is then in force.
    #[cold]
    fn request_uncommon(&mut self, quota: &S::Quota, request: Request) -> Option<Decision> {
        if request.now < self.state.last_taken() {
            return Some(self.request_after_step_back(quota, request));
        }
        let seen = self.peek_under(quota, request.cost, request.now);
        if !seen.allowed && !request.is_forced() {
            return Some(seen);
        }
        self.adopt(quota, request.cost, request.now);
        None
    }

    fn request_after_step_back(&mut self, quota: &S::Quota, request: Request) -> Decision {
        if let Some(time) = self.effective_time(quota, request.now) {
            return self.request(quota, request.at(time)).with_longer_waits(time - request.now);
        }
        let mut fresh = Self::new(*quota);
        let decision = fresh.request(quota, request);
        if decision.taken {
            *self = fresh;
        }
        decision
    }

    fn peek_after_step_back(&self, quota: &S::Quota, cost: u64, now: Micros) -> Decision {
        match self.effective_time(quota, now) {
            Some(time) => self.peek(quota, cost, time).with_longer_waits(time - now),
            None => Self::new(*quota).peek(quota, cost, now),
        }
    }

    /// As [`Self::peek`], under another quota than the one in force, without the delay.
    ///
    /// What is used under the old quota is carried over. A denied client would then wait as long as the old quota says,
    /// however generous the new one is, because a denial stores nothing. So what would be used if the new quota had been
    /// in force since the last taking counts too, and the lesser of the two decides.
    #[cold]
    fn peek_under(&self, quota: &S::Quota, cost: u64, now: Micros) -> Decision {
        let carried_over = self.state.carried_over(&self.quota, quota);
        let (old, new) = (View::new(&self.state, &self.quota, now), View::new(&*carried_over, quota, now));
        let (limit, used) = (quota.limit(), old.used().min(new.used()));
        let outcome = Outcome { allowed: used + cost <= limit, taken: false, delay: new.delay_if(false) };
        decision(outcome, limit, cost, used, &Sooner(old, new))
    }

    /// Puts `quota` in force, because `cost` is about to be taken under it. What is used under the old quota is kept if
    /// the cost fits beside it; otherwise the lesser of the two amounts of [`Self::peek_under`].
    fn adopt(&mut self, quota: &S::Quota, cost: u64, now: Micros) {
        let old = View::new(&self.state, &self.quota, now);
        let reading = old.reading;
        let under_old = old.used();
        let under_new = View::new(&*self.state.carried_over(&self.quota, quota), quota, now).used();
        if under_old + cost <= quota.limit() || under_old <= under_new {
            self.state.settle(reading, &self.quota, now);
        }
        if let Cow::Owned(state) = self.state.carried_over(&self.quota, quota) {
            self.state = state;
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

/// The decision: the outcome, and what follows from how much is used from now on.
#[inline(always)]
fn decision(outcome: Outcome, limit: u64, cost: u64, used: u64, waits: &impl Waits) -> Decision {
    let Outcome { allowed, taken, delay } = outcome;
    Decision {
        allowed,
        taken,
        limit,
        remaining: limit.saturating_sub(used),
        retry: match limit.checked_sub(cost) {
            _ if allowed => Retry::Now,
            None => Retry::Never,
            Some(room) => Retry::After(waits.wait_until_used(room)),
        },
        reset_after: waits.wait_until_used(0),
        delay,
    }
}

/// How long until no more than an amount is used. A trait, because a closure cannot be inlined by force.
trait Waits {
    fn wait_until_used(&self, amount: u64) -> Micros;
}

/// The sooner of what two views tell.
struct Sooner<'a, S: State>(View<'a, S>, View<'a, S>);

impl<S: State> Waits for Sooner<'_, S> {
    fn wait_until_used(&self, amount: u64) -> Micros {
        self.0.wait_until_used(amount).min(self.1.wait_until_used(amount))
    }
}

/// A state as it reads at a time, under a quota.
struct View<'a, S: State> {
    state: &'a S,
    quota: &'a S::Quota,
    reading: S::Reading,
}

impl<'a, S: State> View<'a, S> {
    #[inline(always)]
    fn new(state: &'a S, quota: &'a S::Quota, now: Micros) -> Self {
        Self { state, quota, reading: state.read(quota, now) }
    }

    #[inline(always)]
    fn used(&self) -> u64 {
        self.state.used(self.reading, self.quota)
    }

    /// The delay of a request; one that is denied has none.
    #[inline(always)]
    fn delay_if(&self, allowed: bool) -> Option<Micros> {
        self.state.delay(self.reading, self.quota).map(|delay| if allowed { delay } else { 0 })
    }
}

impl<S: State> Waits for View<'_, S> {
    #[inline(always)]
    fn wait_until_used(&self, amount: u64) -> Micros {
        self.state.wait_until_used(amount, self.reading, self.quota)
    }
}
