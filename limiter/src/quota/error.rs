//! An argument that is refused, and the message that says why.

use std::fmt;

/// An argument that is refused: its name, what was given, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    name: &'static str,
    given: Vec<u8>,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Expected(&'static str),
    FillsTooSlowly { capacity: u64 },
}

impl ArgumentError {
    #[cold]
    pub(super) fn expected(name: &'static str, given: &[u8], form: &'static str) -> Self {
        Self { name, given: given.to_vec(), problem: Problem::Expected(form) }
    }

    pub(super) fn fills_too_slowly(capacity: u64, rate: &[u8]) -> Self {
        Self { name: "rate", given: rate.to_vec(), problem: Problem::FillsTooSlowly { capacity } }
    }
}

impl std::error::Error for ArgumentError {}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid {} {}: ", self.name, Quoted(&self.given))?;
        match self.problem {
            Problem::Expected(form) => write!(f, "expected {form}"),
            Problem::FillsTooSlowly { capacity } => {
                write!(f, "a bucket of {capacity} would take longer than 100 years to fill")
            }
        }
    }
}

/// Bytes from a client, quoted and cut so that a message stays one short, printable line.
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 64;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        let more = if shown.len() < self.0.len() { "..." } else { "" };
        write!(f, "'{}{more}'", shown.escape_ascii())
    }
}
