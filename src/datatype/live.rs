//! How many keys there are, and how much memory logs take: counted when a value is made, changed and freed, so that
//! nobody has to look at all keys.
//!
//! A value that the server frees in the background counts until it is freed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limiter::{Algorithm, Held, PolicyName};

/// The keys that hold a limiter of their own, by algorithm.
static KEYS: [AtomicU64; Algorithm::ALL.len()] = [const { AtomicU64::new(0) }; Algorithm::ALL.len()];

/// The keys that hold the limits of a policy, by the policy under which they were last used. These names are the ones
/// that keys share.
static KEYS_UNDER_POLICIES: Mutex<BTreeMap<PolicyName, u64>> = Mutex::new(BTreeMap::new());

/// The bytes that logs take; sums and differences wrap.
static LOG_BYTES: AtomicU64 = AtomicU64::new(0);

fn under_policies() -> MutexGuard<'static, BTreeMap<PolicyName, u64>> {
    KEYS_UNDER_POLICIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A key holds this from now on. Makes it share the name of its policy with other keys.
pub fn added(held: &mut Held) {
    match held {
        Held::Limiter(limiter) => {
            KEYS[limiter.algorithm() as usize].fetch_add(1, Ordering::Relaxed);
        }
        Held::Policy(limits) => limits.put_under(one_more(limits.policy().clone())),
    }
    log_bytes_changed(0, held.log_bytes());
}

/// No key holds this any more. Called from any thread.
pub fn removed(held: &Held) {
    match held {
        Held::Limiter(limiter) => {
            KEYS[limiter.algorithm() as usize].fetch_sub(1, Ordering::Relaxed);
        }
        Held::Policy(limits) => one_less(limits.policy()),
    }
    log_bytes_changed(held.log_bytes(), 0);
}

/// The limits of a key have come under another policy: returns its name.
pub fn moved(from: &PolicyName, to: PolicyName) -> PolicyName {
    let shared = one_more(to);
    one_less(from);
    shared
}

/// The logs of a key take another number of bytes.
#[inline(always)]
pub fn log_bytes_changed(before: usize, after: usize) {
    if before != after {
        LOG_BYTES.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
    }
}

fn one_more(policy: PolicyName) -> PolicyName {
    let mut keys = under_policies();
    let shared = keys.get_key_value(&policy).map_or(policy, |(shared, _)| shared.clone());
    *keys.entry(shared.clone()).or_default() += 1;
    shared
}

fn one_less(policy: &PolicyName) {
    let mut keys = under_policies();
    if let Some(count) = keys.get_mut(policy) {
        *count -= 1;
        if *count == 0 {
            keys.remove(policy);
        }
    }
}

/// How many keys hold a limiter of this algorithm.
pub fn keys(algorithm: Algorithm) -> u64 {
    KEYS[algorithm as usize].load(Ordering::Relaxed)
}

/// How many keys hold the limits of a policy, by policy; none for a policy that is not there.
pub fn keys_under_policies() -> BTreeMap<PolicyName, u64> {
    under_policies().clone()
}

/// The bytes that logs take.
pub fn log_bytes() -> u64 {
    LOG_BYTES.load(Ordering::Relaxed)
}
