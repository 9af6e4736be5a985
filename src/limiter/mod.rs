//! The rate limiters themselves: values with time passed in. Nothing here knows Redis, a clock, or anything global.

mod arithmetic;
mod decision;
mod encoding;
mod fixed_window;
mod held;
mod leaky_bucket;
mod meter;
mod policy_name;
mod quota;
mod saved;
mod sliding_counter;
mod sliding_log;
mod small;
mod state;
mod together;
mod token_bucket;
pub mod varint;
mod written;

pub use decision::{Decision, Reply, Retry};
pub use encoding::{
    decode_name, decode_piece, decode_quota, decode_quotas, encode_name, encode_piece, encode_quota, encode_quotas,
    Damaged, FORMAT_VERSION,
};
pub use held::{Answer, Held, PolicyLimits};
pub use policy_name::PolicyName;
pub use quota::{
    parse_amount, Algorithm, BadArgument, BucketQuota, Micros, Quota, Quoted, Rate, WindowQuota, AMOUNT_FORM,
    MAX_AMOUNT, MAX_TIME,
};
pub use saved::{Save, Saved};
pub use sliding_log::{Entries, Entry, Piece, Queue};
pub use state::{OtherAlgorithm, State};
pub use together::{request_all, Limits, Mismatch, PerLimit, Verdict, MAX_LIMITS};
pub use written::{write_duration, write_rate};

use fixed_window::FixedWindow;
use leaky_bucket::LeakyBucket;
use sliding_counter::SlidingCounter;
use small::Small;
use token_bucket::TokenBucket;

/// A limiter of any algorithm, with its quota and its state, as a key holds it.
///
/// Most keys hold small numbers, so most limiters are small: 32 bytes, in one allocation. Logs, and the others when
/// their numbers are huge, are whole, in an allocation of their own.
#[derive(Debug, Clone)]
pub struct Limiter(Form);

#[derive(Debug, Clone)]
enum Form {
    TokenBucket(Small<TokenBucket>),
    LeakyBucket(Small<LeakyBucket>),
    FixedWindow(Small<FixedWindow>),
    SlidingCounter(Small<SlidingCounter>),
    Whole(Box<State>),
}

const _: () = assert!(size_of::<Limiter>() == 32);

impl Limiter {
    /// A limiter that nothing has been taken from.
    pub fn new(quota: &Quota) -> Self {
        State::new(quota).into()
    }

    /// A token bucket that will be full at this time; `None` if the quota is for another algorithm.
    pub fn of_bucket_full_at(quota: &Quota, full_at: Micros, now: Micros) -> Option<Self> {
        let Quota::TokenBucket(quota) = quota else { return None };
        let meter = TokenBucket::full_at(quota, full_at, now);
        Some(State::TokenBucket(meter::Metered { quota: *quota, meter }).into())
    }

    /// Decides on a request that costs `cost`, and takes that if it is allowed, or in any case with `force`. If
    /// nothing was taken, nothing has changed.
    ///
    /// # Errors
    /// When the quota is for another algorithm; nothing has changed then.
    // Inlined where the algorithm is known, all of this is the code of one algorithm.
    #[inline(always)]
    pub fn request(&mut self, quota: &Quota, cost: u64, force: bool, now: Micros) -> Result<Decision, OtherAlgorithm> {
        let (decision, state) = match (&mut self.0, quota) {
            (Form::TokenBucket(it), Quota::TokenBucket(quota)) => it.request(quota, cost, force, now),
            (Form::LeakyBucket(it), Quota::LeakyBucket(quota)) => it.request(quota, cost, force, now),
            (Form::FixedWindow(it), Quota::FixedWindow(quota)) => it.request(quota, cost, force, now),
            (Form::SlidingCounter(it), Quota::SlidingCounter(quota)) => it.request(quota, cost, force, now),
            (Form::Whole(state), quota) => {
                // Logs are always whole, the others hardly ever.
                if let (State::SlidingLog(it), Quota::SlidingLog(quota)) = (&mut **state, quota) {
                    return Ok(it.request(quota, cost, force, now));
                }
                return state.request(quota, cost, force, now);
            }
            _ => return Err(self.other(quota)),
        };
        if let Some(state) = state {
            self.0 = Form::Whole(state);
        }
        Ok(decision)
    }

    /// Takes `cost` without deciding anything: what [`Self::request`] did when it took it at that time.
    ///
    /// # Errors
    /// When the quota is for another algorithm; nothing has changed then.
    pub fn take(&mut self, quota: &Quota, cost: u64, at: Micros) -> Result<(), OtherAlgorithm> {
        let state = match (&mut self.0, quota) {
            (Form::TokenBucket(it), Quota::TokenBucket(quota)) => it.take(quota, cost, at),
            (Form::LeakyBucket(it), Quota::LeakyBucket(quota)) => it.take(quota, cost, at),
            (Form::FixedWindow(it), Quota::FixedWindow(quota)) => it.take(quota, cost, at),
            (Form::SlidingCounter(it), Quota::SlidingCounter(quota)) => it.take(quota, cost, at),
            (Form::Whole(state), quota) => return state.take(quota, cost, at),
            _ => return Err(self.other(quota)),
        };
        if let Some(state) = state {
            self.0 = Form::Whole(state);
        }
        Ok(())
    }

    /// What a request that costs `cost` would be told now, except that nothing is taken: what remains, and until when,
    /// is as it stands.
    ///
    /// # Errors
    /// When the quota is for another algorithm.
    pub fn peek(&self, quota: &Quota, cost: u64, now: Micros) -> Result<Decision, OtherAlgorithm> {
        self.with_state(|state| state.peek(quota, cost, now))
    }

    /// As [`Self::peek`], with the quota in force.
    pub fn peek_as_it_is(&self, cost: u64, now: Micros) -> Decision {
        self.with_state(|state| state.peek_as_it_is(cost, now))
    }

    /// Gives back `amount`, or as much of it as is used; returns whether there was anything to give back.
    pub fn refund(&mut self, amount: u64, now: Micros) -> bool {
        if let Form::Whole(state) = &mut self.0 {
            return state.refund(amount, now);
        }
        let mut state = self.with_state(State::clone);
        let refunded = state.refund(amount, now);
        if refunded {
            *self = state.into();
        }
        refunded
    }

    /// How much is used, rounded up.
    pub fn used(&self, now: Micros) -> u64 {
        self.with_state(|state| state.used(now))
    }

    /// When something was last taken or given back; a log knows only of its newest entry, if there is one.
    pub fn last_changed(&self) -> Option<Micros> {
        let changed = self.with_state(State::last_changed);
        (changed > 0).then_some(changed)
    }

    /// From when on the limiter is as good as a new one, as it stands now.
    pub fn idle_at(&self, now: Micros) -> Micros {
        self.with_state(|state| state.idle_at(now))
    }

    /// The quota it was last used with.
    pub fn quota(&self) -> Quota {
        self.with_state(State::quota)
    }

    /// What kind of limiter it is.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Form::TokenBucket(_) => Algorithm::TokenBucket,
            Form::LeakyBucket(_) => Algorithm::LeakyBucket,
            Form::FixedWindow(_) => Algorithm::FixedWindow,
            Form::SlidingCounter(_) => Algorithm::SlidingCounter,
            Form::Whole(state) => state.quota().algorithm(),
        }
    }

    /// The entries of a log; the other algorithms have a state of constant size.
    pub fn entries(&self) -> Option<&Entries> {
        match &self.0 {
            Form::Whole(state) => state.entries(),
            _ => None,
        }
    }

    /// The state, where it has an allocation of its own, for whoever wants to add to it or to move it.
    pub fn whole_mut(&mut self) -> Option<&mut Box<State>> {
        match &mut self.0 {
            Form::Whole(state) => Some(state),
            _ => None,
        }
    }

    /// The bytes it takes in all.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Whole(state) if state.entries().is_none() => size_of::<Self>() + size_of::<State>(),
            Form::Whole(_) => self.log_bytes(),
            _ => size_of::<Self>(),
        }
    }

    /// The bytes it takes in all if it is a log.
    #[inline(always)]
    pub fn log_bytes(&self) -> usize {
        let Form::Whole(state) = &self.0 else { return 0 };
        let of_log = |entries: &Entries| size_of::<Self>() + size_of::<State>() + entries.heap_bytes();
        state.entries().map_or(0, of_log)
    }

    /// Shows the state to `look`.
    fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        match &self.0 {
            Form::TokenBucket(it) => look(&it.state()),
            Form::LeakyBucket(it) => look(&it.state()),
            Form::FixedWindow(it) => look(&it.state()),
            Form::SlidingCounter(it) => look(&it.state()),
            Form::Whole(state) => look(state),
        }
    }

    #[cold]
    fn other(&self, quota: &Quota) -> OtherAlgorithm {
        OtherAlgorithm { held: self.algorithm(), asked: quota.algorithm() }
    }
}

impl From<State> for Limiter {
    fn from(state: State) -> Self {
        let small = match &state {
            State::TokenBucket(it) => Small::new(it).map(Form::TokenBucket),
            State::LeakyBucket(it) => Small::new(it).map(Form::LeakyBucket),
            State::FixedWindow(it) => Small::new(it).map(Form::FixedWindow),
            State::SlidingCounter(it) => Small::new(it).map(Form::SlidingCounter),
            State::SlidingLog(_) => None,
        };
        Self(small.unwrap_or_else(|| Form::Whole(Box::new(state))))
    }
}

/// Equal states make equal limiters, whatever form they have.
impl PartialEq for Limiter {
    fn eq(&self, other: &Self) -> bool {
        self.with_state(|state| other.with_state(|other| state == other))
    }
}
