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
    pub fn parse<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Self, String> {
        let (mut cost, mut force) = (None, false);
        while let Some(option) = words.next() {
            if option.eq_ignore_ascii_case(b"COST") {
                let value = words.next().ok_or_else(|| format!("ERR COST needs a value: {AMOUNT_FORM}"))?;
                let value = parse_amount("COST", value).map_err(|bad| format!("ERR {bad}"))?;
                if cost.replace(value).is_some() {
                    return Err("ERR COST is given twice".to_owned());
                }
            } else if option.eq_ignore_ascii_case(b"FORCE") {
                if force {
                    return Err("ERR FORCE is given twice".to_owned());
                }
                force = true;
            } else {
                return Err(format!("ERR unknown option {}: expected COST n or FORCE", Quoted(option)));
            }
        }
        Ok(Self { cost: cost.unwrap_or(1), force })
    }
}
