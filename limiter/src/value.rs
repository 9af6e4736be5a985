//! The value of a key: one limiter, or the limits of a policy.

use crate::multi::peek_all;
use crate::{
    request_all, Decision, DecodeError, Entries, Limiter, Limits, Micros, PerLimit, PolicyName, Quota, Request,
    Segment, Verdict,
};

/// The value of a key. Most values are one allocation of 32 bytes.
///
/// ```
/// use limiter::{Algorithm, Limiter, Quota, Request, Value};
///
/// let quota = Quota::parse(Algorithm::SlidingCounter, b"100", b"1m")?;
/// let mut limiter = Limiter::new(&quota);
/// limiter.request(&quota, Request::new(30, 1_790_000_000_000_000))?;
///
/// let value = Value::Limiter(limiter);
/// let mut bytes = Vec::new();
/// value.encode(&mut bytes);
/// assert_eq!(Value::decode(&bytes)?, value);
/// assert!(Value::decode(&bytes[1..]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A single limiter.
    Limiter(Limiter),
    /// The limits of a policy.
    Policy(PolicyLimits),
}

const _: () = assert!(size_of::<Value>() == size_of::<Limiter>());

/// The decision on a request to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueDecision {
    /// That of a single limiter.
    One(Decision),
    /// That of the limits of a policy, and of each of them.
    All(Verdict, Vec<Decision>),
}

/// The limits of a policy on one key. The quotas come with each request, so the policy may change, and the key may be used
/// under another policy. The name of the last one is kept for statistics and `RL.INFO`.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyLimits {
    limiters: Box<[Limiter]>,
    policy: PolicyName,
}

impl Value {
    /// Its limiters.
    pub fn limiters(&self) -> &[Limiter] {
        match self {
            Self::Limiter(limiter) => std::slice::from_ref(limiter),
            Self::Policy(limits) => &limits.limiters,
        }
    }

    /// Its limiters, to change or to move them.
    pub fn limiters_mut(&mut self) -> &mut [Limiter] {
        match self {
            Self::Limiter(limiter) => std::slice::from_mut(limiter),
            Self::Policy(limits) => &mut limits.limiters,
        }
    }

    /// The policy it was last used under.
    pub const fn policy(&self) -> Option<&PolicyName> {
        match self {
            Self::Limiter(_) => None,
            Self::Policy(limits) => Some(&limits.policy),
        }
    }

    /// The names of its algorithms.
    pub fn algorithms(&self) -> Vec<&'static str> {
        self.limiters().iter().map(|limiter| limiter.algorithm().name()).collect()
    }

    /// The decision on a request with the quotas in force, which takes nothing.
    pub fn peek(&self, cost: u64, now: Micros) -> ValueDecision {
        match self {
            Self::Limiter(limiter) => ValueDecision::One(limiter.peek_current(cost, now)),
            Self::Policy(limits) => {
                let (verdict, decisions) = peek_all(&limits.limiters, cost, now);
                ValueDecision::All(verdict, decisions)
            }
        }
    }

    /// Gives back up to `amount` to every limit; returns whether anything was used.
    pub fn refund(&mut self, amount: u64, now: Micros) -> bool {
        self.limiters_mut().iter_mut().fold(false, |refunded, limiter| limiter.refund(amount, now) | refunded)
    }

    /// When all limits fully reset; in the past if nothing is used now.
    pub fn resets_at(&self, now: Micros) -> Micros {
        self.limiters().iter().map(|limiter| limiter.resets_at(now)).max().unwrap_or(0)
    }

    /// The bytes of memory it takes, including itself.
    pub fn bytes(&self) -> usize {
        let own = match self {
            Self::Limiter(_) => 0,
            Self::Policy(_) => size_of::<Self>(),
        };
        own + self.limiters().iter().map(Limiter::bytes).sum::<usize>()
    }

    /// The bytes of memory that its logs take.
    #[inline(always)]
    pub fn log_bytes(&self) -> usize {
        match self {
            Self::Limiter(limiter) => limiter.log_bytes(),
            // A loop: every request passes here, and the sum of an iterator is not inlined.
            Self::Policy(limits) => {
                let mut bytes = 0;
                for limiter in &limits.limiters {
                    bytes += limiter.log_bytes();
                }
                bytes
            }
        }
    }

    /// Roughly the number of allocations, where there may be many.
    pub fn allocations(&self) -> usize {
        1 + self.limiters().iter().filter_map(Limiter::entries).map(Entries::segment_count).sum::<usize>()
    }

    /// Whether a segment continues the log of the limiter at this index.
    pub fn is_continued_by(&self, index: usize, segment: Segment<'_>) -> bool {
        self.limiters().get(index).is_some_and(|limiter| limiter.is_continued_by(segment))
    }

    /// Appends a segment to the log of the limiter at this index.
    ///
    /// # Errors
    /// When it is no log, or the segment does not continue it; nothing has changed then.
    pub fn append(&mut self, index: usize, segment: Segment<'_>) -> Result<(), DecodeError> {
        self.limiters_mut().get_mut(index).ok_or(DecodeError::Corrupt)?.append(segment)
    }
}

/// As many limiters as quotas.
impl Limits for (&mut [Limiter], &[Quota]) {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn limit(&mut self, index: usize) -> (&mut Limiter, &Quota) {
        (&mut self.0[index], &self.1[index])
    }
}

impl PolicyLimits {
    /// Limits of which nothing is used.
    pub fn new(policy: PolicyName, quotas: &[Quota]) -> Self {
        Self { limiters: quotas.iter().map(Limiter::new).collect(), policy }
    }

    pub(crate) fn with_limiters(policy: PolicyName, limiters: Vec<Limiter>) -> Self {
        Self { limiters: limiters.into(), policy }
    }

    /// The policy they were last used under.
    pub const fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// Sets the policy they are used under.
    pub fn set_policy(&mut self, policy: PolicyName) {
        self.policy = policy;
    }

    /// Decides on a request under a policy with these quotas. Takes its cost from all limits if all allow it or it is
    /// forced; otherwise nothing has changed. The decision of each limit goes to `decisions`, in their order.
    ///
    /// A limit whose algorithm is in the same place as before keeps what was used; the others start at zero.
    pub fn request(&mut self, quotas: &[Quota], request: Request, decisions: &mut PerLimit<Decision>) -> Verdict {
        if self.limiters.len() == quotas.len() {
            if let Ok(verdict) = request_all(&mut (&mut *self.limiters, quotas), request, decisions) {
                return verdict;
            }
        }
        self.request_with_other_algorithms(quotas, request, decisions)
    }

    #[cold]
    fn request_with_other_algorithms(
        &mut self,
        quotas: &[Quota],
        request: Request,
        decisions: &mut PerLimit<Decision>,
    ) -> Verdict {
        let mut new = Self::new(self.policy.clone(), quotas);
        self.swap_common(&mut new);
        let verdict = new.request(quotas, request, decisions);
        if verdict.taken {
            *self = new;
        } else {
            self.swap_common(&mut new);
        }
        verdict
    }

    /// Swaps each limiter with the other's in the same place if both have the same algorithm.
    fn swap_common(&mut self, other: &mut Self) {
        for (here, there) in self.limiters.iter_mut().zip(&mut other.limiters) {
            if here.algorithm() == there.algorithm() {
                std::mem::swap(here, there);
            }
        }
    }

    /// The allocation of the limiters, to move it in memory.
    pub fn box_mut(&mut self) -> &mut Box<[Limiter]> {
        &mut self.limiters
    }
}
