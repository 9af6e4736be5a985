//! The packed form of a limiter: the numbers of its quota and its state side by side, in 31 bytes.
//!
//! The fields hold what people use: amounts up to 280 million million, windows and periods of up to nine years, times
//! for two thousand years. A limiter with a number that does not fit its field stays unpacked.

use std::fmt::Debug;

use super::{State, Tracker};

/// A state that can be packed together with its quota. Each algorithm has its packed form in its own file.
pub trait Pack: State {
    /// The packed form.
    type Packed: Copy + Debug;

    /// The packed form; `None` if a number does not fit its field.
    fn pack(tracker: &Tracker<Self>) -> Option<Self::Packed>;

    /// What was packed.
    fn unpack(packed: &Self::Packed) -> Tracker<Self>;
}

/// An integer of `BYTES` bytes, at most eight.
#[derive(Debug, Clone, Copy)]
pub struct Int<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Int<BYTES> {
    /// `None` if the value does not fit.
    #[inline(always)]
    pub fn new(value: u64) -> Option<Self> {
        if BYTES < 8 && value >> (8 * BYTES) != 0 {
            return None;
        }
        value.to_le_bytes().first_chunk().copied().map(Self)
    }

    #[inline(always)]
    pub fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Int;

    #[test]
    fn an_integer_that_fits_is_unchanged() {
        for value in [0, 1, 0x1234_5678_9ABC, (1 << 48) - 1] {
            assert_eq!(Int::<6>::new(value).map(Int::get), Some(value));
        }
        assert_eq!(Int::<8>::new(u64::MAX).map(Int::get), Some(u64::MAX));
    }

    #[test]
    fn an_integer_that_does_not_fit_is_refused() {
        assert!(Int::<6>::new(1 << 48).is_none());
        assert!(Int::<4>::new(1 << 32).is_none());
        assert!(Int::<7>::new(u64::MAX).is_none());
    }
}
