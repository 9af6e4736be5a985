//! How many keys there are, and how much memory their logs take. Counted when a value is created, changed and freed, so
//! that no scan is needed.
//!
//! A value that the server frees in the background counts until it is freed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use limiter::{Algorithm, PolicyName, Value};

/// The keys with a single limiter, by algorithm.
static KEYS: [AtomicU64; Algorithm::ALL.len()] = [const { AtomicU64::new(0) }; Algorithm::ALL.len()];

/// The keys with the limits of a policy, by the policy they were last used under. Keys share these names.
static KEYS_OF_POLICIES: Mutex<BTreeMap<PolicyName, u64>> = Mutex::new(BTreeMap::new());

/// The bytes that logs take. Sums and differences wrap.
static LOG_BYTES: AtomicU64 = AtomicU64::new(0);

fn lock_policies() -> MutexGuard<'static, BTreeMap<PolicyName, u64>> {
    KEYS_OF_POLICIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a new value, and makes it share the name of its policy with other keys.
pub fn added(value: &mut Value) {
    match value {
        Value::Limiter(limiter) => {
            KEYS[limiter.algorithm() as usize].fetch_add(1, Ordering::Relaxed);
        }
        Value::Policy(limits) => limits.set_policy(one_more(limits.policy().clone())),
    }
    log_bytes_changed(0, value.log_bytes());
}

/// Counts a value that is freed. Called from any thread.
pub fn removed(value: &Value) {
    match value {
        Value::Limiter(limiter) => {
            KEYS[limiter.algorithm() as usize].fetch_sub(1, Ordering::Relaxed);
        }
        Value::Policy(limits) => one_less(limits.policy()),
    }
    log_bytes_changed(value.log_bytes(), 0);
}

/// Counts a key that is used under another policy from now on. Returns the shared name of that policy.
pub fn moved(from: &PolicyName, to: PolicyName) -> PolicyName {
    let shared = one_more(to);
    one_less(from);
    shared
}

/// Counts a change of the bytes that the logs of a key take.
#[inline(always)]
pub fn log_bytes_changed(before: usize, after: usize) {
    if before != after {
        LOG_BYTES.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
    }
}

fn one_more(policy: PolicyName) -> PolicyName {
    let mut keys = lock_policies();
    let shared = keys.get_key_value(&policy).map_or(policy, |(shared, _)| shared.clone());
    *keys.entry(shared.clone()).or_default() += 1;
    shared
}

fn one_less(policy: &PolicyName) {
    let mut keys = lock_policies();
    if let Some(count) = keys.get_mut(policy) {
        *count -= 1;
        if *count == 0 {
            keys.remove(policy);
        }
    }
}

/// The number of keys with a single limiter of this algorithm.
pub fn of_algorithm(algorithm: Algorithm) -> u64 {
    KEYS[algorithm as usize].load(Ordering::Relaxed)
}

/// The number of keys of each policy that has any.
pub fn of_policies() -> BTreeMap<PolicyName, u64> {
    lock_policies().clone()
}

/// The bytes that logs take.
pub fn log_bytes() -> u64 {
    LOG_BYTES.load(Ordering::Relaxed)
}
