//! What a key holds: one limiter, or those of a policy.

use super::decision::Decision;
use super::encoding::Damaged;
use super::policy_name::PolicyName;
use super::quota::{Micros, Quota};
use super::sliding_log::{Entries, Piece};
use super::together::{peek_all, request_all, Limits, PerLimit, Verdict};
use super::Limiter;

/// The value of a key. Like a limiter it is one allocation of 32 bytes for most keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    /// A limiter of its own.
    Limiter(Limiter),
    /// The limits of a policy.
    Policy(PolicyLimits),
}

const _: () = assert!(size_of::<Held>() == size_of::<Limiter>());

/// What a key says when it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A limiter's.
    One(Decision),
    /// That of a policy's limits, and what each of them says.
    All(Verdict, Vec<Decision>),
}

/// The limits of a policy on one key, each in its place. What they are comes with each request, so a policy may change,
/// and a key may come under another; which one it was last is known for those who count or look.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyLimits {
    limiters: Box<[Limiter]>,
    policy: PolicyName,
}

impl Held {
    /// The limiters that there are.
    pub fn limiters(&self) -> &[Limiter] {
        match self {
            Self::Limiter(limiter) => std::slice::from_ref(limiter),
            Self::Policy(limits) => &limits.limiters,
        }
    }

    /// As [`Self::limiters`], to change or move them.
    pub fn limiters_mut(&mut self) -> &mut [Limiter] {
        match self {
            Self::Limiter(limiter) => std::slice::from_mut(limiter),
            Self::Policy(limits) => &mut limits.limiters,
        }
    }

    /// The policy under which it was last used.
    pub const fn policy(&self) -> Option<&PolicyName> {
        match self {
            Self::Limiter(_) => None,
            Self::Policy(limits) => Some(&limits.policy),
        }
    }

    /// The names of their algorithms.
    pub fn algorithms(&self) -> Vec<&'static str> {
        self.limiters().iter().map(|limiter| limiter.algorithm().name()).collect()
    }

    /// What a request that costs `cost` would be told now with the quotas in force, except that nothing is taken.
    pub fn peek(&self, cost: u64, now: Micros) -> Answer {
        match self {
            Self::Limiter(limiter) => Answer::One(limiter.peek_as_it_is(cost, now)),
            Self::Policy(limits) => {
                let (verdict, decisions) = peek_all(&limits.limiters, cost, now);
                Answer::All(verdict, decisions)
            }
        }
    }

    /// Gives back `amount` to every limit, or as much of it as is used; returns whether there was anything to give back.
    pub fn refund(&mut self, amount: u64, now: Micros) -> bool {
        self.limiters_mut().iter_mut().fold(false, |refunded, limiter| limiter.refund(amount, now) | refunded)
    }

    /// From when on everything is as good as new, as it stands now.
    pub fn idle_at(&self, now: Micros) -> Micros {
        self.limiters().iter().map(|limiter| limiter.idle_at(now)).max().unwrap_or(0)
    }

    /// The bytes it takes in all.
    pub fn bytes(&self) -> usize {
        let here = match self {
            Self::Limiter(_) => 0,
            Self::Policy(_) => size_of::<Self>(),
        };
        here + self.limiters().iter().map(Limiter::bytes).sum::<usize>()
    }

    /// The bytes that logs take.
    #[inline(always)]
    pub fn log_bytes(&self) -> usize {
        match self {
            Self::Limiter(limiter) => limiter.log_bytes(),
            // A loop, because it is on the way of every request, and an iterator's sum is not compiled into it.
            Self::Policy(limits) => {
                let mut bytes = 0;
                for limiter in &limits.limiters {
                    bytes += limiter.log_bytes();
                }
                bytes
            }
        }
    }

    /// How many allocations there are to free, roughly: those of which there may be many.
    pub fn allocations(&self) -> usize {
        1 + self.limiters().iter().filter_map(Limiter::entries).map(Entries::piece_count).sum::<usize>()
    }

    /// Whether saved entries continue the log in this place.
    pub fn is_continued_by(&self, place: usize, piece: Piece<'_>) -> bool {
        self.limiters().get(place).is_some_and(|limiter| limiter.is_continued_by(piece))
    }

    /// Adds saved entries to the log in this place.
    ///
    /// # Errors
    /// When there is no log, or the entries do not continue it; nothing has changed then.
    pub fn append(&mut self, place: usize, piece: Piece<'_>) -> Result<(), Damaged> {
        self.limiters_mut().get_mut(place).ok_or(Damaged)?.append(piece)
    }
}

/// Limiters and their quotas, as many of the one as of the other.
impl Limits for (&mut [Limiter], &[Quota]) {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn limit(&mut self, index: usize) -> (&mut Limiter, &Quota) {
        (&mut self.0[index], &self.1[index])
    }
}

impl PolicyLimits {
    /// Limits that nothing has been taken from.
    pub fn new(policy: PolicyName, quotas: &[Quota]) -> Self {
        Self { limiters: quotas.iter().map(Limiter::new).collect(), policy }
    }

    /// Limits that were there before.
    pub(super) fn of(policy: PolicyName, limiters: Vec<Limiter>) -> Self {
        Self { limiters: limiters.into(), policy }
    }

    /// The policy under which they were last used.
    pub const fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// Says under which policy they are used from now on.
    pub fn put_under(&mut self, policy: PolicyName) {
        self.policy = policy;
    }

    /// Decides on a request under a policy with these quotas. Takes the cost from all limits if all allow it, or in any
    /// case with `force`; otherwise nothing has changed. What each limit says is put into `decisions`, in their order.
    pub fn request(
        &mut self,
        quotas: &[Quota],
        cost: u64,
        force: bool,
        now: Micros,
        decisions: &mut PerLimit<Decision>,
    ) -> Verdict {
        if self.limiters.len() == quotas.len() {
            // The limiters that there are may be of other algorithms.
            if let Ok(verdict) = request_all(&mut (&mut *self.limiters, quotas), cost, force, now, decisions) {
                return verdict;
            }
        }
        self.request_reshaped(quotas, cost, force, now, decisions)
    }

    #[cold]
    fn request_reshaped(
        &mut self,
        quotas: &[Quota],
        cost: u64,
        force: bool,
        now: Micros,
        decisions: &mut PerLimit<Decision>,
    ) -> Verdict {
        let mut reshaped = Self::new(self.policy.clone(), quotas);
        self.exchange(&mut reshaped);
        let verdict = reshaped.request(quotas, cost, force, now, decisions);
        if verdict.taken {
            *self = reshaped;
        } else {
            self.exchange(&mut reshaped);
        }
        verdict
    }

    /// Takes `cost` from all limits without deciding anything: what [`Self::request`] did when it took it at that time.
    pub fn take(&mut self, quotas: &[Quota], cost: u64, at: Micros) {
        if !self.fit(quotas) {
            let mut reshaped = Self::new(self.policy.clone(), quotas);
            self.exchange(&mut reshaped);
            *self = reshaped;
        }
        for (limiter, quota) in self.limiters.iter_mut().zip(quotas) {
            // All are of their quota's algorithm now.
            let _ = limiter.take(quota, cost, at);
        }
    }

    /// Whether there is a limiter of its algorithm in the place of each quota, and no other.
    fn fit(&self, quotas: &[Quota]) -> bool {
        let are_alike = |(it, quota): (&Limiter, &Quota)| it.algorithm() == quota.algorithm();
        self.limiters.len() == quotas.len() && self.limiters.iter().zip(quotas).all(are_alike)
    }

    /// Exchanges each limiter with the other's in the same place, if both are of the same algorithm.
    fn exchange(&mut self, other: &mut Self) {
        for (here, there) in self.limiters.iter_mut().zip(&mut other.limiters) {
            if here.algorithm() == there.algorithm() {
                std::mem::swap(here, there);
            }
        }
    }

    /// The box of the limiters, for whoever wants to move it to a better place.
    pub fn box_mut(&mut self) -> &mut Box<[Limiter]> {
        &mut self.limiters
    }
}
