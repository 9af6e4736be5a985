//! A limiter of any algorithm, as a key holds it.

use crate::algorithms::packed::Pack;
use crate::algorithms::{FixedWindow, LeakyBucket, SlidingCounter, TokenBucket, Tracker, Unpacked};
use crate::{Algorithm, Decision, Entries, Micros, Quota, Request, WrongAlgorithm};

/// A limiter of any algorithm: its quota and its state.
///
/// Most limiters are packed into 32 bytes. Logs, and limiters with huge numbers, are unpacked, in an allocation of their
/// own.
#[derive(Debug, Clone)]
pub struct Limiter(Form);

#[derive(Debug, Clone)]
enum Form {
    TokenBucket(Packed<TokenBucket>),
    LeakyBucket(Packed<LeakyBucket>),
    FixedWindow(Packed<FixedWindow>),
    SlidingCounter(Packed<SlidingCounter>),
    Unpacked(Box<Unpacked>),
}

const _: () = assert!(size_of::<Limiter>() == 32);

/// A packed limiter of one algorithm.
#[derive(Debug, Clone, Copy)]
struct Packed<S: Pack>(S::Packed);

impl<S: Pack> Packed<S> {
    fn new(tracker: &Tracker<S>) -> Option<Self> {
        S::pack(tracker).map(Self)
    }

    /// As [`Unpacked::request`]. If the new state does not fit any more, it is returned unpacked, to be stored instead.
    #[inline(always)]
    fn request(
        &mut self,
        quota: &Quota,
        request: Request,
    ) -> Result<(Decision, Option<Box<Unpacked>>), WrongAlgorithm> {
        let mut tracker = S::unpack(&self.0);
        let quota = tracker.own_quota(quota)?;
        let decision = tracker.request(quota, request);
        let overflow = if decision.taken { self.set(tracker) } else { None };
        Ok((decision, overflow))
    }

    fn unpack(&self) -> Unpacked {
        S::unpacked(S::unpack(&self.0))
    }

    #[inline(always)]
    fn set(&mut self, tracker: Tracker<S>) -> Option<Box<Unpacked>> {
        match S::pack(&tracker) {
            Some(packed) => {
                self.0 = packed;
                None
            }
            None => Some(Box::new(S::unpacked(tracker))),
        }
    }
}

/// Evaluates one expression for any packed form, and another for the unpacked one.
macro_rules! match_form {
    ($form:expr, $packed:ident => $on_packed:expr, unpacked $unpacked:ident => $on_unpacked:expr) => {
        match $form {
            Form::TokenBucket($packed) => $on_packed,
            Form::LeakyBucket($packed) => $on_packed,
            Form::FixedWindow($packed) => $on_packed,
            Form::SlidingCounter($packed) => $on_packed,
            Form::Unpacked($unpacked) => $on_unpacked,
        }
    };
}

impl Limiter {
    /// A limiter of which nothing is used.
    pub fn new(quota: &Quota) -> Self {
        Unpacked::new(quota).into()
    }

    /// A token bucket that is full at `full_at`; `None` if the quota is for another algorithm.
    pub fn token_bucket_full_at(quota: &Quota, full_at: Micros, now: Micros) -> Option<Self> {
        let Quota::TokenBucket(quota) = *quota else { return None };
        Some(Unpacked::TokenBucket(Tracker::<TokenBucket>::full_at(quota, full_at, now)).into())
    }

    /// Decides on a request, and takes its cost if it is allowed or forced. A request that takes nothing changes nothing.
    ///
    /// A forced request at the time of an earlier one, on an equal limiter, leaves it in the same state as the earlier one
    /// did when it took its cost. This is how replicas follow.
    ///
    /// # Errors
    /// When the quota is for another algorithm; nothing has changed then.
    // Inlined where the algorithm is known, this is the code of one algorithm.
    #[inline(always)]
    pub fn request(&mut self, quota: &Quota, request: Request) -> Result<Decision, WrongAlgorithm> {
        let (decision, overflow) = match_form!(&mut self.0,
            packed => packed.request(quota, request)?,
            unpacked it => return it.request(quota, request));
        if let Some(unpacked) = overflow {
            self.0 = Form::Unpacked(unpacked);
        }
        Ok(decision)
    }

    /// The decision on a request that takes nothing: `remaining` and `reset_after` are as they are now.
    ///
    /// # Errors
    /// When the quota is for another algorithm.
    pub fn peek(&self, quota: &Quota, cost: u64, now: Micros) -> Result<Decision, WrongAlgorithm> {
        self.with_unpacked(|it| it.peek(quota, cost, now))
    }

    /// As [`Self::peek`], with the quota in force.
    pub fn peek_current(&self, cost: u64, now: Micros) -> Decision {
        self.with_unpacked(|it| it.peek_current(cost, now))
    }

    /// Gives back up to `amount` of what is used; returns whether anything was used.
    ///
    /// ```
    /// # use limiter::{Algorithm, Limiter, Quota, Request};
    /// let quota = Quota::parse(Algorithm::SlidingLog, b"10", b"1h")?;
    /// let (mut limiter, now) = (Limiter::new(&quota), 1_790_000_000_000_000);
    /// limiter.request(&quota, Request::new(8, now))?;
    /// assert!(limiter.refund(3, now));
    /// assert_eq!(limiter.peek_current(1, now).remaining, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&mut self, amount: u64, now: Micros) -> bool {
        if let Form::Unpacked(unpacked) = &mut self.0 {
            return unpacked.refund(amount, now);
        }
        let mut unpacked = self.with_unpacked(Unpacked::clone);
        let refunded = unpacked.refund(amount, now);
        if refunded {
            *self = unpacked.into();
        }
        refunded
    }

    /// How much is used, rounded up.
    pub fn used(&self, now: Micros) -> u64 {
        self.with_unpacked(|it| it.used(now))
    }

    /// When something was last taken or given back. A log knows only its newest entry, if it has one.
    pub fn last_changed(&self) -> Option<Micros> {
        let changed = self.with_unpacked(Unpacked::last_changed);
        (changed > 0).then_some(changed)
    }

    /// When the limit fully resets; in the past if nothing is used now.
    pub fn resets_at(&self, now: Micros) -> Micros {
        self.with_unpacked(|it| it.resets_at(now))
    }

    /// The quota it was last used with.
    pub fn quota(&self) -> Quota {
        self.with_unpacked(Unpacked::quota)
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Form::TokenBucket(_) => Algorithm::TokenBucket,
            Form::LeakyBucket(_) => Algorithm::LeakyBucket,
            Form::FixedWindow(_) => Algorithm::FixedWindow,
            Form::SlidingCounter(_) => Algorithm::SlidingCounter,
            Form::Unpacked(it) => it.quota().algorithm(),
        }
    }

    /// The entries of a log; the other algorithms have a state of constant size.
    pub fn entries(&self) -> Option<&Entries> {
        match &self.0 {
            Form::Unpacked(it) => it.entries(),
            _ => None,
        }
    }

    /// The unpacked form, to move it in memory or to append to its log; `None` if the limiter is packed.
    pub fn unpacked_mut(&mut self) -> Option<&mut Box<Unpacked>> {
        match &mut self.0 {
            Form::Unpacked(it) => Some(it),
            _ => None,
        }
    }

    /// The bytes of memory it takes, including itself.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Unpacked(it) if it.entries().is_none() => size_of::<Self>() + size_of::<Unpacked>(),
            Form::Unpacked(_) => self.log_bytes(),
            _ => size_of::<Self>(),
        }
    }

    /// The bytes of memory it takes if it is a log, else 0.
    #[inline(always)]
    pub fn log_bytes(&self) -> usize {
        let Form::Unpacked(it) = &self.0 else { return 0 };
        let of_log = |entries: &Entries| size_of::<Self>() + size_of::<Unpacked>() + entries.heap_bytes();
        it.entries().map_or(0, of_log)
    }

    pub(crate) fn with_unpacked<T>(&self, read: impl FnOnce(&Unpacked) -> T) -> T {
        match_form!(&self.0, packed => read(&packed.unpack()), unpacked it => read(it))
    }
}

impl From<Unpacked> for Limiter {
    fn from(unpacked: Unpacked) -> Self {
        let packed = match &unpacked {
            Unpacked::TokenBucket(it) => Packed::new(it).map(Form::TokenBucket),
            Unpacked::LeakyBucket(it) => Packed::new(it).map(Form::LeakyBucket),
            Unpacked::FixedWindow(it) => Packed::new(it).map(Form::FixedWindow),
            Unpacked::SlidingCounter(it) => Packed::new(it).map(Form::SlidingCounter),
            Unpacked::SlidingLog(_) => None,
        };
        Self(packed.unwrap_or_else(|| Form::Unpacked(Box::new(unpacked))))
    }
}

/// Limiters are equal if their quotas and states are, in whatever form.
impl PartialEq for Limiter {
    fn eq(&self, other: &Self) -> bool {
        self.with_unpacked(|it| other.with_unpacked(|other| it == other))
    }
}
