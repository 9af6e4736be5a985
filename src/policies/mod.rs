//! The policies in force.
//!
//! Without a file they are data of the server, as functions are: what is set is replicated, is in snapshots and in the
//! append-only file, and is replaced by what a full sync or a file of the server's brings. With a file, that is the
//! truth, as an ACL file is: what is set is for this server alone, until the file is read again.

mod file;
mod policy;
mod replacement;
mod set;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limiter::PolicyName;
use crate::stats::Counts;

pub use policy::{parse_limit, parse_name, BadLimit, BadPolicy, CountedLimits, Policy};
pub use set::{BadText, Policies};

use file::PolicyFile;

/// All that is known of policies. It is never locked while the server is asked for anything but memory: it might call a
/// command of ours meanwhile.
static KNOWN: Mutex<Known> = Mutex::new(Known {
    in_force: Policies::new(),
    former: Policies::new(),
    arriving: None,
    file: None,
    left_out: false,
});

struct Known {
    in_force: Policies,
    /// Those that were in force when the server began to load data, until it has: what was counted under a name goes on.
    former: Policies,
    /// Those of a primary's data that is being loaded while ours is still served.
    arriving: Option<Policies>,
    file: Option<PolicyFile>,
    /// Whether the file that is being written, by this process, is still without them.
    left_out: bool,
}

impl Known {
    /// Replaces the policies in force. What was counted under a name that is there again goes on.
    fn put_in_force(&mut self, mut policies: Policies) {
        policies.count_on(&self.former);
        policies.count_on(&self.in_force);
        self.in_force = policies;
    }
}

fn known() -> MutexGuard<'static, Known> {
    // Whatever a panic interrupted left policies behind that are whole: they are replaced, never changed in steps.
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The policy of this name: the name, and its limits.
pub fn find(name: &[u8]) -> Option<(PolicyName, Arc<CountedLimits>)> {
    known().in_force.get(name).map(|(name, policy)| (name.clone(), Arc::clone(policy.limits())))
}

/// What became of the requests under each policy.
pub fn counts() -> Vec<(String, Counts)> {
    let known = known();
    known.in_force.iter().map(|(name, policy)| (name.to_owned(), policy.limits().tally.counts())).collect()
}

/// Counts from zero.
pub fn reset_counts() {
    let known = known();
    known.in_force.iter().chain(known.former.iter()).for_each(|(_, policy)| policy.limits().tally.reset());
}

/// The definition of the policy of this name, its words separated by blanks.
pub fn definition(name: &[u8]) -> Option<String> {
    known().in_force.get(name).map(|(_, policy)| policy.definition().to_owned())
}

/// The names of the first policies, so many at the most, in order.
pub fn names(most: usize) -> Vec<String> {
    known().in_force.iter().take(most).map(|(name, _)| name.to_owned()).collect()
}

/// How many policies there are.
pub fn count() -> usize {
    known().in_force.iter().len()
}

/// All policies with their definitions.
pub fn all() -> Vec<(String, String)> {
    known().in_force.iter().map(|(name, policy)| (name.to_owned(), policy.definition().to_owned())).collect()
}

/// Sets a policy.
pub fn set(name: PolicyName, mut policy: Policy) {
    let mut known = known();
    let replaced = known.in_force.get(name.as_bytes()).or_else(|| known.former.get(name.as_bytes()));
    if let Some((_, replaced)) = replaced {
        policy.count_on(replaced);
    }
    known.in_force.set(name, policy);
}

/// Removes a policy; returns whether there was one.
pub fn remove(name: &[u8]) -> bool {
    known().in_force.remove(name)
}

/// Whether there is a file, so that policies are not data of the server.
pub fn are_in_a_file() -> bool {
    known().file.is_some()
}

/// Makes this the file, and what it says the policies in force.
///
/// # Errors
/// When it cannot be read, or any line is bad; nothing has changed then.
pub fn use_file(path: PathBuf) -> Result<(), String> {
    let mut file = PolicyFile::new(path);
    let policies = file.load()?;
    let mut known = known();
    known.in_force = policies;
    known.file = Some(file);
    Ok(())
}

/// There is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoFile;

/// Reads the file again.
///
/// # Errors
/// When there is none; or when it cannot be read or any line is bad: then the policies in force stay.
pub fn load_file() -> Result<Result<(), String>, NoFile> {
    let mut known = known();
    let loaded = known.file.as_mut().ok_or(NoFile)?.load();
    Ok(loaded.map(|policies| known.put_in_force(policies)))
}

/// Reads the file again if it has changed: returns how many policies there are now, if so.
///
/// # Errors
/// When it cannot be read or any line is bad, once for each change: then the policies in force stay.
pub fn load_changed_file() -> Option<Result<usize, String>> {
    let mut known = known();
    let loaded = known.file.as_mut()?.load_if_changed()?;
    Some(loaded.map(|policies| {
        known.put_in_force(policies);
        known.in_force.iter().len()
    }))
}

/// Writes the file.
///
/// # Errors
/// When there is none; or when it cannot be written.
pub fn save_file() -> Result<Result<(), String>, NoFile> {
    let mut known = known();
    let Known { in_force, file, .. } = &mut *known;
    Ok(file.as_mut().ok_or(NoFile)?.save(in_force))
}

/// What a snapshot says of the policies: nothing if there are none that are data of the server.
pub fn to_save() -> String {
    let mut known = known();
    known.left_out = false;
    if known.file.is_some() {
        return String::new();
    }
    known.in_force.to_text()
}

/// The append-only file starts to be rewritten. If that is in the form of a snapshot, [`to_save`] is asked for.
pub fn rewrite_starts() {
    let mut known = known();
    known.left_out = known.file.is_none() && known.in_force.iter().len() > 0;
}

/// Whether there are policies that should be in the rewritten file and are not.
pub fn are_left_out() -> bool {
    known().left_out
}

/// The server starts to load data, in place of what it has; unless that is still served.
pub fn loading_starts() {
    let mut known = known();
    if known.file.is_none() && known.arriving.is_none() {
        // Those of an attempt that failed may be missing some, for which it is still known what was counted.
        let mut former = std::mem::take(&mut known.in_force);
        former.add_missing(std::mem::take(&mut known.former));
        known.former = former;
    }
}

/// The server has loaded its data. A policy that is made from now on under a name of before is another.
pub fn loading_ends() {
    known().former = Policies::new();
}

/// What a snapshot says of the policies arrives.
///
/// # Errors
/// When it is damaged; nothing has changed then.
pub fn loaded(text: &[u8]) -> Result<(), BadText> {
    let policies = Policies::parse(text)?;
    let mut known = known();
    if known.file.is_some() {
        return Ok(());
    }
    match &mut known.arriving {
        Some(arriving) => *arriving = policies,
        None => known.put_in_force(policies),
    }
    Ok(())
}

/// The server starts to load a primary's data while its own is still served.
pub fn arrival_starts() {
    known().arriving = Some(Policies::new());
}

/// That data is the server's own from now on, or has come to nothing.
pub fn arrival_ends(complete: bool) {
    let mut known = known();
    let arrived = known.arriving.take().filter(|_| complete && known.file.is_none());
    if let Some(policies) = arrived {
        known.put_in_force(policies);
    }
}
