//! Several limits on one request: all or nothing.

use smallvec::SmallVec;

use crate::{Decision, Limiter, Micros, Mode, Quota, Request, Retry, WrongAlgorithm};

/// The most limits of one request.
pub const MAX_LIMITS: usize = 128;

/// One item for each limit of a request; in place for up to four limits.
pub type PerLimit<T> = SmallVec<[T; 4]>;

/// The decision on a request to several limits. The decision of each limit stands apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may proceed: all limits allow it.
    pub allowed: bool,
    /// Whether its cost was taken, from every limit.
    pub taken: bool,
    /// When the same request would be allowed by all limits.
    pub retry: Retry,
    /// The time until all limits fully reset.
    pub reset_after: Micros,
}

/// A quota was used on a limiter of another algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongAlgorithmAt {
    /// The index of the limit.
    pub index: usize,
    /// The two algorithms.
    pub algorithms: WrongAlgorithm,
}

/// The limits of a request, and their limiters.
pub trait Limits {
    /// How many there are.
    fn count(&self) -> usize;
    /// The limiter and the quota at an index below [`Self::count`].
    fn limit(&mut self, index: usize) -> (&mut Limiter, &Quota);
}

/// Decides on a request. Takes its cost from all limits if all allow it or it is forced; otherwise nothing has changed.
/// The decision of each limit goes to `decisions`, in their order.
///
/// ```
/// use limiter::{request_all, Algorithm, Limiter, PerLimit, Quota, Request};
///
/// let quotas = [
///     Quota::parse(Algorithm::TokenBucket, b"10", b"1/s")?,
///     Quota::parse(Algorithm::FixedWindow, b"2", b"1d")?,
/// ];
/// let mut limiters = quotas.each_ref().map(Limiter::new);
/// let (mut decisions, now) = (PerLimit::new(), 1_790_000_000_000_000);
/// let mut request = |cost| {
///     request_all(&mut (&mut limiters[..], &quotas[..]), Request::new(cost, now), &mut decisions)
/// };
/// assert!(request(2).unwrap().allowed);
/// // The window is used up: nothing is taken from the bucket either.
/// assert!(!request(1).unwrap().allowed);
/// assert_eq!(limiters[0].used(now), 2);
/// # Ok::<(), limiter::ArgumentError>(())
/// ```
///
/// # Errors
/// When a limiter and its quota have different algorithms; nothing has changed then.
pub fn request_all(
    limits: &mut impl Limits,
    request: Request,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, WrongAlgorithmAt> {
    decisions.clear();
    let last = limits.count().saturating_sub(1);
    // All but the last are peeked at, and the last takes at once if they agree: so a single limit is read once.
    let mut allowed = true;
    for index in 0..limits.count() {
        let (limiter, quota) = limits.limit(index);
        let decided = if index == last && (allowed || request.is_forced()) {
            request_one(limiter, quota, &request)
        } else {
            limiter.peek(quota, request.cost, request.now)
        };
        match decided {
            Ok(decision) => {
                allowed &= decision.allowed;
                decisions.push(decision);
            }
            Err(algorithms) => return Err(WrongAlgorithmAt { index, algorithms }),
        }
    }
    if allowed || request.is_forced() {
        let forced = Request { mode: Mode::Force, ..request };
        for (index, decision) in decisions.iter_mut().enumerate().take(last) {
            // Its algorithm is right, and it allowed the request or is forced as the last was.
            let (limiter, quota) = limits.limit(index);
            *decision = request_one(limiter, quota, &forced).unwrap_or(*decision);
        }
    }
    let mut verdict = Verdict::of(decisions);
    if verdict.taken && !verdict.allowed {
        verdict.retry = retry_after_force(limits, request);
    }
    Ok(verdict)
}

/// When the same request would be allowed after a denied one has taken its cost. That may have used up limits that
/// allowed it.
#[cold]
fn retry_after_force(limits: &mut impl Limits, request: Request) -> Retry {
    let mut longest = Retry::Now;
    for index in 0..limits.count() {
        let (limiter, quota) = limits.limit(index);
        // Its algorithm is right: it has just taken something.
        if let Ok(decision) = limiter.peek(quota, request.cost, request.now) {
            longest = longest.max(decision.retry);
        }
    }
    longest
}

/// As [`request_all`] with the quotas in force, but takes nothing.
pub fn peek_all(limiters: &[Limiter], cost: u64, now: Micros) -> (Verdict, Vec<Decision>) {
    let mut decisions: Vec<_> = limiters.iter().map(|limiter| limiter.peek_current(cost, now)).collect();
    (Verdict::of(&mut decisions), decisions)
}

/// As [`Limiter::request`], for an algorithm that is only known at run time.
#[inline(never)]
fn request_one(limiter: &mut Limiter, quota: &Quota, request: &Request) -> Result<Decision, WrongAlgorithm> {
    limiter.request(quota, *request)
}

impl Verdict {
    /// What follows from the decisions of the limits.
    #[inline(always)]
    fn of(decisions: &mut [Decision]) -> Self {
        let mut verdict = Self { allowed: true, taken: false, retry: Retry::Now, reset_after: 0 };
        for decision in &*decisions {
            verdict.allowed &= decision.allowed;
            verdict.taken |= decision.taken;
            verdict.retry = verdict.retry.max(decision.retry);
            verdict.reset_after = verdict.reset_after.max(decision.reset_after);
        }
        if !verdict.allowed {
            // A denied request has no delay.
            for delay in decisions.iter_mut().filter_map(|decision| decision.delay.as_mut()) {
                *delay = 0;
            }
        }
        verdict
    }
}
