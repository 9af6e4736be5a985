//! Several limits on one request: all or nothing.

use smallvec::SmallVec;

use super::decision::{Decision, Retry};
use super::quota::{Micros, Quota};
use super::{Limiter, OtherAlgorithm};

/// The most limits that one request can meet.
pub const MAX_LIMITS: usize = 128;

/// A thing for each limit of a request: in place, for as many as most requests meet.
pub type PerLimit<T> = SmallVec<[T; 4]>;

/// What a request is told that meets several limits; what each of them says stands apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may go ahead: all limits allow it.
    pub allowed: bool,
    /// Whether its cost was taken, from every limit.
    pub taken: bool,
    /// When the same request is worth another try: when the last of the limits will allow it.
    pub retry: Retry,
    /// Until all limits are as good as new.
    pub reset_after: Micros,
}

/// A limiter is not of the algorithm that its quota is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Which of the limiters.
    pub index: usize,
    /// What it is, and what was asked for.
    pub algorithms: OtherAlgorithm,
}

/// The limits that a request meets, each with the limiter that keeps it.
pub trait Limits {
    /// How many there are.
    fn count(&self) -> usize;
    /// The limiter and the quota of one of them, from 0 on.
    fn limit(&mut self, index: usize) -> (&mut Limiter, &Quota);
}

/// Decides on a request that costs `cost`. Takes that from all limits if all allow it, or in any case with `force`;
/// otherwise nothing has changed. What each of them says is put into `decisions`, in their order.
///
/// # Errors
/// When a limiter is of another algorithm than its quota; nothing has changed then.
pub fn request_all(
    limits: &mut impl Limits,
    cost: u64,
    force: bool,
    now: Micros,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, Mismatch> {
    decisions.clear();
    let last = limits.count().saturating_sub(1);
    // All but the last are asked, and the last, if they agree, takes at once: so a single limit is looked at once.
    let mut allowed = true;
    for index in 0..limits.count() {
        let (limiter, quota) = limits.limit(index);
        let takes = index == last && (allowed || force);
        let decided = if takes { request(limiter, quota, cost, force, now) } else { limiter.peek(quota, cost, now) };
        match decided {
            Ok(decision) => {
                allowed &= decision.allowed;
                decisions.push(decision);
            }
            Err(algorithms) => return Err(Mismatch { index, algorithms }),
        }
    }
    if allowed || force {
        for (index, decision) in decisions.iter_mut().enumerate().take(last) {
            // It is of this algorithm and agreed, or is forced as the last was.
            let (limiter, quota) = limits.limit(index);
            *decision = request(limiter, quota, cost, true, now).unwrap_or(*decision);
        }
    }
    let mut verdict = Verdict::of(decisions);
    if verdict.taken && !verdict.allowed {
        verdict.retry = retry_after_force(limits, cost, now);
    }
    Ok(verdict)
}

/// When the same request is worth another try after a denied one has taken its cost all the same. That may also have used
/// up limits that allowed it.
#[cold]
fn retry_after_force(limits: &mut impl Limits, cost: u64, now: Micros) -> Retry {
    let mut longest = Retry::Now;
    for index in 0..limits.count() {
        let (limiter, quota) = limits.limit(index);
        // It is of this algorithm, as it has just taken something.
        if let Ok(decision) = limiter.peek(quota, cost, now) {
            longest = longest.max(decision.retry);
        }
    }
    longest
}

/// What [`request_all`] would say to limiters that are used with the quotas they have, except that nothing is taken.
pub fn peek_all(limiters: &[Limiter], cost: u64, now: Micros) -> (Verdict, Vec<Decision>) {
    let mut decisions: Vec<_> = limiters.iter().map(|limiter| limiter.peek_as_it_is(cost, now)).collect();
    (Verdict::of(&mut decisions), decisions)
}

/// As [`Limiter::request`], for an algorithm that is known only now.
#[inline(never)]
fn request(
    limiter: &mut Limiter,
    quota: &Quota,
    cost: u64,
    force: bool,
    now: Micros,
) -> Result<Decision, OtherAlgorithm> {
    limiter.request(quota, cost, force, now)
}

impl Verdict {
    /// What follows from what each limit says.
    fn of(decisions: &mut [Decision]) -> Self {
        let mut verdict = Self { allowed: true, taken: false, retry: Retry::Now, reset_after: 0 };
        for decision in &*decisions {
            verdict.allowed &= decision.allowed;
            verdict.taken |= decision.taken;
            verdict.retry = verdict.retry.max(decision.retry);
            verdict.reset_after = verdict.reset_after.max(decision.reset_after);
        }
        if !verdict.allowed {
            // Nobody has to hold a request that does not go ahead.
            for delay in decisions.iter_mut().filter_map(|decision| decision.delay.as_mut()) {
                *delay = 0;
            }
        }
        verdict
    }
}
