//! Variable-length integers: seven bits a byte, lowest first; a set top bit means that more follow.

/// Where bytes are written to.
pub trait Sink {
    /// Appends a byte.
    fn push_byte(&mut self, byte: u8);
    /// Appends bytes.
    fn push_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push_byte(byte);
        }
    }
}

impl Sink for Vec<u8> {
    fn push_byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes `value` in as few bytes as it needs.
///
/// ```
/// let mut out = Vec::new();
/// limiter::varint::push_varint(&mut out, 300);
/// assert_eq!(out, [0xAC, 0x02]);
/// ```
#[allow(clippy::cast_possible_truncation)] // keeps seven bits at a time
pub fn push_varint(out: &mut impl Sink, mut value: u64) {
    while value >= 0x80 {
        out.push_byte(value as u8 | 0x80);
        value >>= 7;
    }
    out.push_byte(value as u8);
}

/// Reads bytes that may be truncated or corrupt.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(byte)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(bytes)
    }

    /// The next integer; `None` if it is truncated or overflows.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next integer if it is at most `max`.
    pub fn varint_up_to(&mut self, max: u64) -> Option<u64> {
        self.varint().filter(|&value| value <= max)
    }

    /// The bytes that have not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether everything has been read.
    pub const fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }
}
