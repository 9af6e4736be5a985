//! How a key changes. Requests and effects use the same functions: what a request takes on a primary, an effect takes on a
//! replica as a forced request at the primary's time. Value and expiry follow from the key and the effect alone, so equal
//! keys stay equal bit for bit, whatever the clocks say.

use limiter::{
    request_all, Decision, Limiter, Limits, Micros, PerLimit, PolicyLimits, PolicyName, Quota, Request, Value, Verdict,
    WrongAlgorithm,
};

use super::Effect;
use crate::error::Error;

/// A key that is open for writing.
pub trait OpenKey {
    /// The value of the key, if it exists.
    fn value(&mut self) -> Option<&mut Value>;
    /// Replaces the value.
    fn set(&mut self, value: Value);
    /// Sets the policy that the limits of the key are used under.
    fn set_policy(&mut self, policy: &PolicyName);
    /// Makes the key expire at this time or a little later.
    fn set_expire_at(&mut self, time: Micros);
}

/// Decides on a request, and takes its cost if it is allowed or forced; otherwise nothing has changed.
///
/// # Errors
/// When the key holds something else; nothing has changed then.
// Inlined, so that each command is compiled as the code of its algorithm alone.
#[inline(always)]
pub fn take(key: &mut impl OpenKey, quota: &Quota, request: Request) -> Result<Decision, Error> {
    let decision = match key.value() {
        Some(Value::Limiter(limiter)) => limiter.request(quota, request)?,
        Some(value @ Value::Policy(_)) => return Err(Error::holds_policy(value, quota.algorithm())),
        None => {
            let (limiter, decision) = request_first(quota, request)?;
            if decision.taken {
                key.set(Value::Limiter(limiter));
            }
            decision
        }
    };
    if decision.taken {
        key.set_expire_at(request.now + decision.reset_after);
    }
    Ok(decision)
}

/// Decides on the first request to a key.
#[inline(never)]
fn request_first(quota: &Quota, request: Request) -> Result<(Limiter, Decision), WrongAlgorithm> {
    let mut limiter = Limiter::new(quota);
    let decision = limiter.request(quota, request)?;
    Ok((limiter, decision))
}

/// As [`take`], from all limits of a policy.
///
/// # Errors
/// When the key holds something else; nothing has changed then.
#[inline(always)]
pub fn take_policy(
    key: &mut impl OpenKey,
    policy: &PolicyName,
    quotas: &[Quota],
    request: Request,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, Error> {
    let verdict = match key.value() {
        Some(Value::Policy(limits)) => limits.request(quotas, request, decisions),
        Some(Value::Limiter(limiter)) => return Err(Error::HoldsLimiter(limiter.algorithm())),
        None => {
            let mut limits = PolicyLimits::new(policy.clone(), quotas);
            let verdict = limits.request(quotas, request, decisions);
            if verdict.taken {
                key.set(Value::Policy(limits));
            }
            verdict
        }
    };
    if verdict.taken {
        key.set_expire_at(request.now + verdict.reset_after);
        key.set_policy(policy);
    }
    Ok(verdict)
}

/// The keys of a request to several limits.
struct KeyLimits<'a, K, N> {
    keys: &'a mut [K],
    limits: &'a [(N, Quota)],
    /// The limiters of keys that do not exist, to be stored if something is taken.
    new: PerLimit<Option<Limiter>>,
}

impl<K: OpenKey, N> Limits for KeyLimits<'_, K, N> {
    fn count(&self) -> usize {
        self.limits.len()
    }

    fn limit(&mut self, index: usize) -> (&mut Limiter, &Quota) {
        let quota = &self.limits[index].1;
        let limiter = match self.keys[index].value() {
            Some(Value::Limiter(limiter)) => limiter,
            _ => self.new[index].get_or_insert_with(|| Limiter::new(quota)),
        };
        (limiter, quota)
    }
}

/// As [`take`], from several keys, each with its quota: from all of them or from none. What else stands beside a quota is
/// not used.
///
/// # Errors
/// When a key holds something else, with the index of the key; nothing has changed then.
pub fn take_all<K: OpenKey, N>(
    keys: &mut [K],
    limits: &[(N, Quota)],
    request: Request,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, (usize, Error)> {
    for (index, (key, (_, quota))) in keys.iter_mut().zip(limits).enumerate() {
        if let Some(value @ Value::Policy(_)) = key.value() {
            return Err((index, Error::holds_policy(value, quota.algorithm())));
        }
    }
    let new = limits.iter().map(|_| None).collect();
    let mut kept = KeyLimits { keys, limits, new };
    let verdict = request_all(&mut kept, request, decisions).map_err(|error| (error.index, error.algorithms.into()))?;
    if verdict.taken {
        for ((key, new), decision) in kept.keys.iter_mut().zip(kept.new).zip(&*decisions) {
            if let Some(limiter) = new {
                key.set(Value::Limiter(limiter));
            }
            key.set_expire_at(request.now + decision.reset_after);
        }
    }
    Ok(verdict)
}

/// Gives back up to `amount` to all limits of the key; returns whether anything was used.
pub fn refund(key: &mut impl OpenKey, amount: u64, now: Micros) -> bool {
    let Some(value) = key.value() else { return false };
    if !value.refund(amount, now) {
        return false;
    }
    let resets_at = value.resets_at(now);
    key.set_expire_at(resets_at.max(now));
    true
}

/// Whether an effect can be applied to the key.
pub fn is_applicable(effect: &Effect<'_>, key: &mut impl OpenKey) -> bool {
    match (effect, key.value()) {
        (Effect::Take { quota, .. }, Some(Value::Limiter(limiter))) => limiter.algorithm() == quota.algorithm(),
        (Effect::Take { .. } | Effect::TakePolicy { .. }, None)
        | (Effect::TakePolicy { .. }, Some(Value::Policy(_)))
        | (Effect::Refund { .. }, Some(_))
        | (Effect::Set(_), _) => true,
        (Effect::Append { index, segment }, Some(value)) => value.is_continued_by(*index, *segment),
        (Effect::Take { .. }, Some(Value::Policy(_)))
        | (Effect::TakePolicy { .. }, Some(Value::Limiter(_)))
        | (Effect::Refund { .. } | Effect::Append { .. }, None) => false,
    }
}

/// Applies an effect to the key.
///
/// # Errors
/// When it is not applicable; nothing has changed then.
pub fn apply(effect: Effect<'_>, key: &mut impl OpenKey) -> Result<(), Error> {
    match effect {
        Effect::Take { quota, cost, at } => {
            take(key, &quota, Request::forced(cost, at)).map_err(|_| Error::EffectMismatch)?;
        }
        Effect::TakePolicy { policy, quotas, cost, at } => {
            // Usually the key is under this policy already, and has the name.
            let current = key.value().and_then(|value| value.policy()).filter(|current| ***current == *policy).cloned();
            let policy = current.or_else(|| PolicyName::new(policy.as_bytes())).ok_or(Error::EffectMismatch)?;
            let (request, mut decisions) = (Request::forced(cost, at), PerLimit::new());
            take_policy(key, &policy, &quotas, request, &mut decisions).map_err(|_| Error::EffectMismatch)?;
        }
        Effect::Refund { amount, at } => {
            key.value().ok_or(Error::EffectMismatch)?;
            refund(key, amount, at);
        }
        // The expiry follows as a command of its own.
        Effect::Set(value) => key.set(value),
        Effect::Append { index, segment } => {
            let value = key.value().ok_or(Error::EffectMismatch)?;
            value.append(index, segment).map_err(|_| Error::EffectMismatch)?;
        }
    }
    Ok(())
}
