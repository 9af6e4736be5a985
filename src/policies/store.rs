//! The policies in force.
//!
//! # Loading
//!
//! Counters of a policy continue if a policy of the same name is loaded. So the policies from before are kept until the
//! server has loaded its data. Without a policy file:
//!
//! ```text
//!             loading_started            rdb::load                     loading_ended
//!  in force ─────────────────▶ none, ─────────────▶ in force, ──────────────────────▶ in force
//!                              former kept          former kept                       former dropped
//!                               │    ▲
//!                               └────┘ loading_started: the load before has failed
//!
//!  A replica that loads its primary's data beside its own (repl-diskless-load swapdb):
//!
//!             async_load_started             rdb::load                async_load_ended(completed)
//!  in force ────────────────────▶ in force, ──────────▶ in force, ─────────────────────────────▶ arriving in force
//!                                 arriving: none        arriving    async_load_ended(failed)
//!                                                          └──────────────────────────────────▶ as before
//! ```
//!
//! With a policy file none of this changes the policies in force.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use limiter::PolicyName;

use super::collection::{Policies, PolicyTextError};
use super::file::PolicyFile;
use super::policy::{CountedLimits, Policy};
use crate::stats::Counts;

/// All that is known of policies. Never locked while the server is called, except for memory: it might run a command that
/// needs the lock.
static STORE: Mutex<PolicyStore> = Mutex::new(PolicyStore {
    in_force: Policies::new(),
    former: Policies::new(),
    arriving: None,
    file: None,
    missing_in_aof: false,
});

struct PolicyStore {
    in_force: Policies,
    /// Those that were in force when loading started, until it has ended: their counters continue.
    former: Policies,
    /// Those of the primary's data that is being loaded beside ours.
    arriving: Option<Policies>,
    file: Option<PolicyFile>,
    /// Whether the append-only file that this process is rewriting still lacks the policies.
    missing_in_aof: bool,
}

impl PolicyStore {
    /// Replaces the policies in force. Counters of names that are there again continue.
    fn replace(&mut self, mut policies: Policies) {
        policies.continue_counters(&self.former);
        policies.continue_counters(&self.in_force);
        self.in_force = policies;
    }
}

fn store() -> MutexGuard<'static, PolicyStore> {
    // A panic leaves whole policies behind: they are replaced, never changed in steps.
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name and the limits of the policy of this name.
pub fn find(name: &[u8]) -> Option<(PolicyName, Arc<CountedLimits>)> {
    store().in_force.get(name).map(|(name, policy)| (name.clone(), Arc::clone(policy.limits())))
}

/// The counters of each policy.
pub fn counts() -> Vec<(String, Counts)> {
    let store = store();
    store.in_force.iter().map(|(name, policy)| (name.to_owned(), policy.limits().counters.counts())).collect()
}

/// Starts counting at zero.
pub fn reset_counts() {
    let store = store();
    store.in_force.iter().chain(store.former.iter()).for_each(|(_, policy)| policy.limits().counters.reset());
}

/// The definition of the policy of this name, as words separated by spaces.
pub fn definition(name: &[u8]) -> Option<String> {
    store().in_force.get(name).map(|(_, policy)| policy.definition().to_owned())
}

/// The first `most` names of policies, in order.
pub fn names(most: usize) -> Vec<String> {
    store().in_force.iter().take(most).map(|(name, _)| name.to_owned()).collect()
}

/// The number of policies.
pub fn count() -> usize {
    store().in_force.iter().len()
}

/// All policies with their definitions.
pub(super) fn all() -> Vec<(String, String)> {
    store().in_force.iter().map(|(name, policy)| (name.to_owned(), policy.definition().to_owned())).collect()
}

/// Sets a policy.
pub fn set(name: PolicyName, mut policy: Policy) {
    let mut store = store();
    let replaced = store.in_force.get(name.as_bytes()).or_else(|| store.former.get(name.as_bytes()));
    if let Some((_, replaced)) = replaced {
        policy.continue_counters(replaced);
    }
    store.in_force.set(name, policy);
}

/// Removes a policy; returns whether it existed.
pub fn remove(name: &[u8]) -> bool {
    store().in_force.remove(name)
}

/// Whether there is a policy file.
pub fn is_in_file() -> bool {
    store().file.is_some()
}

/// Uses this policy file from now on.
///
/// # Errors
/// When it cannot be read, or a line is invalid; nothing has changed then.
pub fn use_file(path: PathBuf) -> Result<(), String> {
    let mut file = PolicyFile::new(path);
    let policies = file.load()?;
    let mut store = store();
    store.in_force = policies;
    store.file = Some(file);
    Ok(())
}

/// Why the policy file cannot be loaded or saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyFileError {
    /// There is no policy file.
    NoFile,
    /// It cannot be read or written, or a line is invalid: what is wrong, with the name of the file.
    Invalid(String),
}

/// Reads the policy file again.
///
/// # Errors
/// When there is none; or when it cannot be read or a line is invalid: then the policies stay.
pub fn load_file() -> Result<(), PolicyFileError> {
    let mut store = store();
    let file = store.file.as_mut().ok_or(PolicyFileError::NoFile)?;
    let policies = file.load().map_err(PolicyFileError::Invalid)?;
    store.replace(policies);
    Ok(())
}

/// Reads the policy file if it has changed. Returns the number of policies if so.
///
/// # Errors
/// When it cannot be read or a line is invalid, once for each change: then the policies stay.
pub(super) fn load_changed_file() -> Option<Result<usize, String>> {
    let mut store = store();
    let loaded = store.file.as_mut()?.load_if_changed()?;
    Some(loaded.map(|policies| {
        store.replace(policies);
        store.in_force.iter().len()
    }))
}

/// Writes the policy file.
///
/// # Errors
/// When there is none; or when it cannot be written.
pub fn save_file() -> Result<(), PolicyFileError> {
    let mut store = store();
    let PolicyStore { in_force, file, .. } = &mut *store;
    file.as_mut().ok_or(PolicyFileError::NoFile)?.save(in_force).map_err(PolicyFileError::Invalid)
}

/// The text of the policies for an RDB file: empty with a policy file.
pub(super) fn text_to_save() -> String {
    let mut store = store();
    store.missing_in_aof = false;
    if store.file.is_some() {
        return String::new();
    }
    store.in_force.to_text()
}

/// Loads the text of the policies of an RDB file.
///
/// # Errors
/// When it is corrupt; nothing has changed then.
pub(super) fn load_text(text: &[u8]) -> Result<(), PolicyTextError> {
    let policies = Policies::parse(text)?;
    let mut store = store();
    if store.file.is_some() {
        return Ok(());
    }
    match &mut store.arriving {
        Some(arriving) => *arriving = policies,
        None => store.replace(policies),
    }
    Ok(())
}

/// A child starts to rewrite the append-only file. If the file has an RDB preamble, [`text_to_save`] is called.
pub(super) fn aof_rewrite_started() {
    let mut store = store();
    store.missing_in_aof = store.file.is_none() && store.in_force.iter().len() > 0;
}

/// Whether the rewritten append-only file lacks the policies.
pub(super) fn is_missing_in_aof() -> bool {
    store().missing_in_aof
}

pub(super) fn loading_started() {
    let mut store = store();
    if store.file.is_none() && store.arriving.is_none() {
        // After a failed load only some policies may be in force: the counters of the others are still in `former`.
        let mut former = std::mem::take(&mut store.in_force);
        former.add_missing(std::mem::take(&mut store.former));
        store.former = former;
    }
}

pub(super) fn loading_ended() {
    store().former = Policies::new();
}

pub(super) fn async_load_started() {
    store().arriving = Some(Policies::new());
}

pub(super) fn async_load_ended(completed: bool) {
    let mut store = store();
    let arrived = store.arriving.take().filter(|_| completed && store.file.is_none());
    if let Some(policies) = arrived {
        store.replace(policies);
    }
}
