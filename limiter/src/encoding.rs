//! The encoding of values, in RDB files, `DUMP` payloads and the append-only file alike.
//!
//! A value is its version; then either the tag of an algorithm, its parameters and its state, or the tag of policies, a
//! policy's name, the number of its limits, and the same of each limit. Integers are [varints](crate::varint). The entries
//! of logs follow apart, as segments, so that a long log is never one large buffer. Decoding trusts nothing: lengths,
//! ranges and sums are all checked.
//!
//! The tag of an algorithm is in its line of the table in `algorithms/mod.rs`; its state is encoded in its own file.

use std::fmt;

use crate::varint::{push_varint, Reader, Sink};
use crate::{Entries, Limiter, PolicyLimits, PolicyName, Quota, Segment, Unpacked, Value, MAX_AMOUNT, MAX_LIMITS};

/// The version of the encoding of values, which is their first byte. It is also that of the segments of their logs in RDB
/// files.
pub const VALUE_VERSION: u8 = 1;

/// The tag of the limits of a policy, where otherwise the tag of an algorithm is. It is never changed.
pub(crate) const POLICY: u8 = 64;

/// Why bytes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// They are no valid encoding.
    Corrupt,
    /// A later version of the module wrote them.
    UnsupportedVersion {
        /// What the number is, such as `value encoding version`.
        what: &'static str,
        /// The number.
        found: u64,
        /// The latest number that can be read.
        supported: u64,
    },
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt => f.write_str("corrupt data"),
            Self::UnsupportedVersion { what, found, supported } => {
                write!(f, "unsupported {what} {found} (this module reads up to {supported})")
            }
        }
    }
}

impl DecodeError {
    /// Checks a version, or another number that only grows, of what is about to be decoded. Numbers start at 1.
    ///
    /// # Errors
    /// When the number is unknown.
    pub const fn check_version(what: &'static str, found: u64, supported: u64) -> Result<(), Self> {
        match found {
            0 => Err(Self::Corrupt),
            _ if found > supported => Err(Self::UnsupportedVersion { what, found, supported }),
            _ => Ok(()),
        }
    }
}

impl Value {
    /// Writes everything but the entries of logs.
    pub fn encode(&self, out: &mut impl Sink) {
        out.push_byte(VALUE_VERSION);
        if let Some(policy) = self.policy() {
            out.push_byte(POLICY);
            encode_policy_name(policy, out);
            push_varint(out, self.limiters().len() as u64);
        }
        for limiter in self.limiters() {
            limiter.with_unpacked(|it| it.encode(out));
        }
    }

    /// All of the value, the entries of its logs included: equal values have equal bytes, however their logs are chunked.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        for entry in self.limiters().iter().filter_map(Limiter::entries).flat_map(Entries::iter) {
            bytes.extend_from_slice(&entry.time.to_le_bytes());
            bytes.extend_from_slice(&entry.cost.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Self::encode`] wrote. Logs are empty.
    ///
    /// # Errors
    /// When the bytes are corrupt, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_with_version(bytes).map(|(value, _)| value)
    }

    /// As [`Self::decode`], with the version, which segments that follow have too.
    pub(crate) fn decode_with_version(bytes: &[u8]) -> Result<(Self, u8), DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte().ok_or(DecodeError::Corrupt)?;
        DecodeError::check_version("value encoding version", version.into(), VALUE_VERSION.into())?;
        let value = decode_value(&mut reader, version).filter(|_| reader.is_at_end());
        Ok((value.ok_or(DecodeError::Corrupt)?, version))
    }
}

/// Reads a value of a known version. A new version is a new arm here, or in what depends on it.
fn decode_value(reader: &mut Reader<'_>, version: u8) -> Option<Value> {
    match version {
        1 if reader.rest().first() == Some(&POLICY) => {
            reader.byte()?;
            let policy = PolicyName::new(decode_policy_name(reader)?.as_bytes())?;
            let limiters = decode_several(reader, |reader| Unpacked::decode(reader).map(Limiter::from))?;
            Some(Value::Policy(PolicyLimits::with_limiters(policy, limiters)))
        }
        1 => Some(Value::Limiter(Unpacked::decode(reader)?.into())),
        _ => None,
    }
}

impl Limiter {
    /// Whether a segment continues this log.
    pub(crate) fn is_continued_by(&self, segment: Segment<'_>) -> bool {
        // Not twice the limit: a single entry from before the limit was lowered may exceed that.
        self.entries().is_some_and(|entries| entries.is_continued_by(segment, 2 * MAX_AMOUNT))
    }

    /// Appends a segment to a log.
    ///
    /// # Errors
    /// When this is no log, or the segment does not continue it; nothing has changed then.
    pub(crate) fn append(&mut self, segment: Segment<'_>) -> Result<(), DecodeError> {
        if !self.is_continued_by(segment) {
            return Err(DecodeError::Corrupt);
        }
        self.unpacked_mut().and_then(|it| it.entries_mut()).ok_or(DecodeError::Corrupt)?.append(segment);
        Ok(())
    }
}

/// Reads a number of items, and as many items.
fn decode_several<T>(reader: &mut Reader<'_>, decode: impl Fn(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(reader.varint()?).ok()?;
    if !(1..=MAX_LIMITS).contains(&count) {
        return None;
    }
    (0..count).map(|_| decode(reader)).collect()
}

/// Writes the name of a policy.
pub fn encode_policy_name(name: &str, out: &mut impl Sink) {
    push_varint(out, name.len() as u64);
    out.push_bytes(name.as_bytes());
}

/// Reads what [`encode_policy_name`] wrote; `None` for anything else.
pub fn decode_policy_name<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    let len = usize::try_from(reader.varint()?).ok()?;
    PolicyName::check(reader.bytes(len)?)
}

/// Writes the quotas of a policy.
pub fn encode_quotas(quotas: &[Quota], out: &mut impl Sink) {
    push_varint(out, quotas.len() as u64);
    for quota in quotas {
        quota.encode(out);
    }
}

/// Reads what [`encode_quotas`] wrote; `None` for anything else.
pub fn decode_quotas(reader: &mut Reader<'_>) -> Option<Vec<Quota>> {
    decode_several(reader, Quota::decode)
}

/// Writes a segment of a log.
pub fn encode_segment(segment: Segment<'_>, out: &mut Vec<u8>) {
    push_varint(out, segment.base);
    out.extend_from_slice(segment.bytes);
}

/// Reads what [`encode_segment`] wrote in this version; its entries are checked by [`Value::append`].
pub fn decode_segment(bytes: &[u8], version: u8) -> Option<Segment<'_>> {
    if version != 1 {
        return None;
    }
    let mut reader = Reader::new(bytes);
    let segment = Segment { base: reader.varint()?, bytes: reader.rest() };
    // No log has an empty one: a file full of them would only cost time.
    (!segment.bytes.is_empty()).then_some(segment)
}
