//! Saving and loading of values in RDB files: the encoded value, and for each of its logs the number of its segments and
//! the segments.

use crate::{decode_segment, encode_segment, DecodeError, Limiter, Value};

/// An RDB file, or a `DUMP` payload, that is being written.
pub trait RdbWriter {
    /// Writes an integer.
    fn number(&mut self, number: u64);
    /// Writes a string.
    fn bytes(&mut self, bytes: &[u8]);
}

/// An RDB file, or a `DUMP` payload, that is being read. It may be corrupt or truncated.
pub trait RdbReader {
    /// Reads an integer.
    fn number(&mut self) -> Option<u64>;
    /// Reads a string and hands it to `read`.
    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T>;
}

impl Value {
    /// Saves the value.
    pub fn save(&self, to: &mut impl RdbWriter) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        to.bytes(&bytes);
        for entries in self.limiters().iter().filter_map(Limiter::entries) {
            to.number(entries.segment_count() as u64);
            for segment in entries.segments() {
                bytes.clear();
                encode_segment(segment, &mut bytes);
                to.bytes(&bytes);
            }
        }
    }

    /// Loads what [`Self::save`] saved.
    ///
    /// # Errors
    /// When it is corrupt, or of a later version.
    pub fn load(from: &mut impl RdbReader) -> Result<Self, DecodeError> {
        let (mut value, version) = from.bytes(Self::decode_with_version).ok_or(DecodeError::Corrupt)??;
        for log in value.limiters_mut().iter_mut().filter(|limiter| limiter.entries().is_some()) {
            // A wrong number only leads to the end of the file.
            for _ in 0..from.number().ok_or(DecodeError::Corrupt)? {
                let append = |bytes: &[u8]| log.append(decode_segment(bytes, version).ok_or(DecodeError::Corrupt)?);
                from.bytes(append).ok_or(DecodeError::Corrupt)??;
            }
        }
        Ok(value)
    }
}
