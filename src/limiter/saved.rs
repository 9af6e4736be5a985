//! How what a key holds is saved and loaded: its own bytes, and for each log the number of its pieces and each of them.

use super::encoding::{decode_piece, encode_piece};
use super::{Held, Limiter};

/// Where something is saved to.
pub trait Save {
    /// Saves a number.
    fn number(&mut self, number: u64);
    /// Saves some bytes.
    fn bytes(&mut self, bytes: &[u8]);
}

/// What was saved, in the same order. It may be damaged, or not be there.
pub trait Saved {
    /// The next thing, if it is a number.
    fn number(&mut self) -> Option<u64>;
    /// What `read` makes of the next thing, if that is bytes.
    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T>;
}

impl Held {
    /// Saves it.
    pub fn save(&self, to: &mut impl Save) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        to.bytes(&bytes);
        for entries in self.limiters().iter().filter_map(Limiter::entries) {
            to.number(entries.piece_count() as u64);
            for piece in entries.pieces() {
                bytes.clear();
                encode_piece(piece, &mut bytes);
                to.bytes(&bytes);
            }
        }
    }

    /// Loads what [`Self::save`] saved.
    ///
    /// # Errors
    /// When it is anything else, with what is wrong.
    pub fn load(from: &mut impl Saved) -> Result<Self, &'static str> {
        const DAMAGED_LOG: &str = "the log of a ratelimit key is damaged";
        let mut held = from.bytes(|bytes| Self::decode(bytes).ok()).ok_or("a ratelimit key is damaged")?;
        for log in held.limiters_mut().iter_mut().filter(|limiter| limiter.entries().is_some()) {
            // The count is only a number of turns: a wrong one runs into the end of what there is to load.
            for _ in 0..from.number().ok_or(DAMAGED_LOG)? {
                from.bytes(|bytes| log.append(decode_piece(bytes)?).ok()).ok_or(DAMAGED_LOG)?;
            }
        }
        Ok(held)
    }
}
