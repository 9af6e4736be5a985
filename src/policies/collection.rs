//! Policies by name, and as text: `name ALGORITHM a b [ALGORITHM a b …]`, one a line. Policy files and RDB files have this
//! text.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use limiter::{PolicyName, Quoted};

use super::policy::{parse_name, Policy, PolicyError};

/// Policies by name, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policies(BTreeMap<PolicyName, Policy>);

/// Why a text is refused as a whole: its first invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTextError {
    line: usize,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Policy(PolicyError),
    Duplicate(PolicyName),
}

impl fmt::Display for PolicyTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            Problem::Policy(error) => error.fmt(f),
            Problem::Duplicate(name) => write!(f, "duplicate policy {}", Quoted(name.as_bytes())),
        }
    }
}

impl Policies {
    /// No policies.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Reads a text. Empty lines, and the rest of a line from a word that starts with `#`, are ignored.
    ///
    /// # Errors
    /// When a line is no policy, or a name is duplicate.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyTextError> {
        let mut policies = Self::default();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            policies.add_line(line).map_err(|problem| PolicyTextError { line: index + 1, problem })?;
        }
        Ok(policies)
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), Problem> {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut words = words.take_while(|word| !word.starts_with(b"#"));
        let Some(name) = words.next() else { return Ok(()) };
        let name = parse_name(name).map_err(Problem::Policy)?;
        let policy = Policy::parse(words).map_err(Problem::Policy)?;
        match self.0.insert(name.clone(), policy) {
            Some(_) => Err(Problem::Duplicate(name)),
            None => Ok(()),
        }
    }

    /// Adds the policies of `others` whose names are missing.
    pub(super) fn add_missing(&mut self, others: Self) {
        for (name, policy) in others.0 {
            self.0.entry(name).or_insert(policy);
        }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, policy) in &self.0 {
            let _ = writeln!(text, "{name} {}", policy.definition());
        }
        text
    }

    /// The policy of this name, and the name.
    pub fn get(&self, name: &[u8]) -> Option<(&PolicyName, &Policy)> {
        self.0.get_key_value(name)
    }

    /// Adds a policy, or replaces the one of this name.
    pub fn set(&mut self, name: PolicyName, policy: Policy) {
        self.0.insert(name, policy);
    }

    /// Continues the counters of the policies that they replace.
    pub(super) fn continue_counters(&mut self, replaced: &Self) {
        for (name, policy) in &mut self.0 {
            if let Some(replaced) = replaced.0.get(name) {
                policy.continue_counters(replaced);
            }
        }
    }

    /// Removes the policy of this name; returns whether it existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        self.0.remove(name).is_some()
    }

    /// All policies, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Policy)> {
        self.0.iter().map(|(name, policy)| (&**name, policy))
    }
}
