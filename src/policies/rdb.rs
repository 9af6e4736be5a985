//! Saving and loading of the policies in RDB files. [`crate::formats`] has the layout.

use limiter::{DecodeError, RdbReader, RdbWriter};

use super::store;
use crate::formats::POLICIES_VERSION;

/// Saves the policies.
pub fn save(to: &mut impl RdbWriter) {
    write(to, &store::text_to_save());
}

/// Saves the policies if there are any.
pub fn save_if_any(to: &mut impl RdbWriter) {
    let text = store::text_to_save();
    if !text.is_empty() {
        write(to, &text);
    }
}

fn write(to: &mut impl RdbWriter, text: &str) {
    to.number(POLICIES_VERSION);
    to.bytes(text.as_bytes());
}

/// Loads what was saved.
///
/// # Errors
/// When it is corrupt, or of a later version.
pub fn load(from: &mut impl RdbReader) -> Result<(), String> {
    let version = from.number().ok_or_else(|| DecodeError::Corrupt.to_string())?;
    DecodeError::check_version("policies version", version, POLICIES_VERSION).map_err(|error| error.to_string())?;
    let loaded = from.bytes(|text| store::load_text(text).map_err(|error| error.to_string()));
    loaded.unwrap_or_else(|| Err(DecodeError::Corrupt.to_string()))
}
