//! What may follow the key and the quota of a request: `[COST n] [FORCE]`, in any order.

use crate::limiter::{parse_amount, Quoted, AMOUNT_FORM};

/// The options of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What it costs.
    pub cost: u64,
    /// Whether that is taken even if it is denied.
    pub force: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { cost: 1, force: false }
    }
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    /// With the reply that says what is wrong.
    pub fn parse<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Self, String> {
        Self::parse_known(words, true)
    }

    /// Reads the cost, where there is no other option.
    ///
    /// # Errors
    /// With the reply that says what is wrong.
    pub fn parse_cost<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<u64, String> {
        Self::parse_known(words, false).map(|options| options.cost)
    }

    fn parse_known<'a>(mut words: impl Iterator<Item = &'a [u8]>, knows_force: bool) -> Result<Self, String> {
        let (mut cost, mut force) = (None, false);
        while let Some(option) = words.next() {
            if option.eq_ignore_ascii_case(b"COST") {
                let value = words.next().ok_or_else(|| format!("ERR COST needs a value: {AMOUNT_FORM}"))?;
                let value = parse_amount("COST", value).map_err(|bad| format!("ERR {bad}"))?;
                if cost.replace(value).is_some() {
                    return Err("ERR COST is given twice".to_owned());
                }
            } else if knows_force && option.eq_ignore_ascii_case(b"FORCE") {
                if force {
                    return Err("ERR FORCE is given twice".to_owned());
                }
                force = true;
            } else {
                let known = if knows_force { "COST n or FORCE" } else { "COST n" };
                return Err(format!("ERR unknown option {}: expected {known}", Quoted(option)));
            }
        }
        Ok(Self { cost: cost.unwrap_or(1), force })
    }
}
