//! Policies by name, and as text: one a line, `name ALGORITHM a b [ALGORITHM a b …]`. It is the form of the policy file,
//! and also that in which snapshots hold them.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::policy::{parse_name, BadPolicy, Policy};
use crate::limiter::{PolicyName, Quoted};

/// Policies by name, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policies(BTreeMap<PolicyName, Policy>);

/// A text that is refused as a whole, and the line on which it first goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadText {
    line: usize,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Policy(BadPolicy),
    Twice(PolicyName),
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            Problem::Policy(bad) => bad.fmt(f),
            Problem::Twice(name) => write!(f, "the policy {} is there twice", Quoted(name.as_bytes())),
        }
    }
}

impl Policies {
    /// No policies.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Reads a text. Empty lines, and what follows a word that starts with `#`, do not count.
    ///
    /// # Errors
    /// When any line is not a policy, or a name is there twice.
    pub fn parse(text: &[u8]) -> Result<Self, BadText> {
        let mut policies = Self::default();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            policies.add_line(line).map_err(|problem| BadText { line: index + 1, problem })?;
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
            Some(_) => Err(Problem::Twice(name)),
            None => Ok(()),
        }
    }

    /// Adds those of `others` that have names of their own.
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

    /// The policy of this name, with the name.
    pub fn get(&self, name: &[u8]) -> Option<(&PolicyName, &Policy)> {
        self.0.get_key_value(name)
    }

    /// Adds a policy, or replaces the one of this name.
    pub fn set(&mut self, name: PolicyName, policy: Policy) {
        self.0.insert(name, policy);
    }

    /// Makes them be counted where the policies of the same names are that they replace.
    pub(super) fn count_on(&mut self, replaced: &Self) {
        for (name, policy) in &mut self.0 {
            if let Some(replaced) = replaced.0.get(name) {
                policy.count_on(replaced);
            }
        }
    }

    /// Removes the policy of this name; returns whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        self.0.remove(name).is_some()
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Policy)> {
        self.0.iter().map(|(name, policy)| (&**name, policy))
    }
}
