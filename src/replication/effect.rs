//! Effects: what a command did to a key, and their encoding. [`crate::formats`] has the layouts.

use std::ffi::CStr;

use limiter::varint::{push_varint, Reader, Sink};
use limiter::{
    decode_policy_name, decode_quotas, decode_segment, encode_policy_name, encode_quotas, encode_segment, DecodeError,
    Micros, Quota, Segment, Value, MAX_AMOUNT, MAX_TIME,
};
use smallvec::SmallVec;

use crate::formats::{effect_version, APPEND, EFFECTS, REFUND, SET, TAKE, TAKE_POLICY};

/// The command that carries effects: `RL.APPLY key effect [key effect …]`.
pub const APPLY: &CStr = c"RL.APPLY";

/// What a command did to a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<'a> {
    /// A cost was taken from a limiter.
    Take {
        /// The quota of the request.
        quota: Quota,
        /// What was taken.
        cost: u64,
        /// When, by the clock of the server that decided.
        at: Micros,
    },
    /// A cost was taken from all limits of a policy.
    TakePolicy {
        /// The name of the policy. A replica need not have it: it is for statistics and `RL.INFO`.
        policy: &'a str,
        /// The quotas of the policy.
        quotas: Vec<Quota>,
        /// What was taken.
        cost: u64,
        /// When, by the clock of the server that decided.
        at: Micros,
    },
    /// An amount was given back.
    Refund {
        /// What was given back, at most.
        amount: u64,
        /// When, by the clock of the server that decided.
        at: Micros,
    },
    /// The key holds a value. The entries of its logs follow.
    Set(Value),
    /// A log of the key has further entries.
    Append {
        /// The index of the limiter.
        index: usize,
        /// The entries.
        segment: Segment<'a>,
    },
}

impl Effect<'_> {
    /// Decodes an effect.
    ///
    /// # Errors
    /// When the bytes are corrupt, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Effect<'_>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let (kind, version) = reader.byte().zip(reader.byte()).ok_or(DecodeError::Corrupt)?;
        let Some(supported) = effect_version(kind) else {
            let latest = EFFECTS.iter().map(|(kind, _)| *kind).max().unwrap_or(0);
            DecodeError::check_version("effect kind", kind.into(), latest.into())?;
            return Err(DecodeError::Corrupt);
        };
        DecodeError::check_version("effect version", version.into(), supported.into())?;
        // The numbers are those of the layouts, so an arm stays when a later version is added.
        let effect = match (kind, version) {
            (TAKE, 1) => decode_take(&mut reader),
            (TAKE_POLICY, 1) => decode_take_policy(&mut reader),
            (REFUND, 1) => decode_refund(&mut reader),
            (SET, 1) => return Value::decode(reader.rest()).map(Effect::Set),
            (APPEND, 1) => return decode_append(&mut reader).ok_or(DecodeError::Corrupt),
            _ => None,
        };
        effect.filter(|_| reader.is_at_end()).ok_or(DecodeError::Corrupt)
    }

    /// Whether the effect replaces the value of the key, whatever its type.
    pub const fn replaces(&self) -> bool {
        matches!(self, Self::Set(_))
    }
}

fn decode_take<'a>(reader: &mut Reader<'a>) -> Option<Effect<'a>> {
    Some(Effect::Take { quota: Quota::decode(reader)?, cost: amount(reader)?, at: time(reader)? })
}

fn decode_take_policy<'a>(reader: &mut Reader<'a>) -> Option<Effect<'a>> {
    let (policy, quotas) = (decode_policy_name(reader)?, decode_quotas(reader)?);
    Some(Effect::TakePolicy { policy, quotas, cost: amount(reader)?, at: time(reader)? })
}

fn decode_refund<'a>(reader: &mut Reader<'a>) -> Option<Effect<'a>> {
    Some(Effect::Refund { amount: amount(reader)?, at: time(reader)? })
}

fn decode_append<'a>(reader: &mut Reader<'a>) -> Option<Effect<'a>> {
    let index = usize::try_from(reader.varint()?).ok()?;
    Some(Effect::Append { index, segment: decode_segment(reader.rest(), 1)? })
}

fn amount(reader: &mut Reader<'_>) -> Option<u64> {
    reader.varint_up_to(MAX_AMOUNT).filter(|&amount| amount > 0)
}

fn time(reader: &mut Reader<'_>) -> Option<Micros> {
    reader.varint_up_to(MAX_TIME)
}

/// The kind of an effect, and the version that is written.
const fn header<const KIND: u8>() -> [u8; 2] {
    const {
        match effect_version(KIND) {
            Some(version) => [KIND, version],
            None => panic!("the kind is not in EFFECTS"),
        }
    }
}

/// An encoded effect on a single limiter. It needs no allocation, as one is made for every request that takes something.
pub struct EffectBytes {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl EffectBytes {
    /// Three bytes for the kind, the version and the algorithm, and five integers of at most nine bytes each. An algorithm
    /// with more parameters needs more.
    const SIZE: usize = 48;

    fn new(header: [u8; 2]) -> Self {
        let mut effect = Self { bytes: [0; Self::SIZE], len: 0 };
        effect.push_bytes(&header);
        effect
    }

    /// [`Effect::Take`]
    pub fn take(quota: &Quota, cost: u64, at: Micros) -> Self {
        let mut effect = Self::new(header::<TAKE>());
        quota.encode(&mut effect);
        push_varint(&mut effect, cost);
        push_varint(&mut effect, at);
        effect
    }

    /// [`Effect::Refund`]
    pub fn refund(amount: u64, at: Micros) -> Self {
        let mut effect = Self::new(header::<REFUND>());
        push_varint(&mut effect, amount);
        push_varint(&mut effect, at);
        effect
    }
}

impl AsRef<[u8]> for EffectBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Sink for EffectBytes {
    fn push_byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

/// An encoded effect on the limits of a policy, usually without an allocation.
pub struct PolicyEffectBytes(SmallVec<[u8; 64]>);

impl PolicyEffectBytes {
    /// [`Effect::TakePolicy`]
    pub fn take(policy: &str, quotas: &[Quota], cost: u64, at: Micros) -> Self {
        let mut effect = Self(SmallVec::from_slice(&header::<TAKE_POLICY>()));
        encode_policy_name(policy, &mut effect);
        encode_quotas(quotas, &mut effect);
        push_varint(&mut effect, cost);
        push_varint(&mut effect, at);
        effect
    }
}

impl AsRef<[u8]> for PolicyEffectBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Sink for PolicyEffectBytes {
    fn push_byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// The encoded effects that recreate a value: [`Effect::Set`], then [`Effect::Append`] for each segment of its logs.
pub fn recreate(value: &Value) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut set = header::<SET>().to_vec();
    value.encode(&mut set);
    let logs = value.limiters().iter().enumerate().filter_map(|(index, limiter)| Some((index, limiter.entries()?)));
    let segments = logs.flat_map(|(index, entries)| entries.segments().map(move |segment| (index, segment)));
    std::iter::once(set).chain(segments.map(|(index, segment)| {
        let mut append = header::<APPEND>().to_vec();
        push_varint(&mut append, index as u64);
        encode_segment(segment, &mut append);
        append
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_version_wrote_is_refused_with_both_versions() {
        let quota = Quota::parse(limiter::Algorithm::TokenBucket, b"10", b"1").expect("a quota");
        let effect = EffectBytes::take(&quota, 1, 1);
        for (index, byte, message) in [
            (0, 6, "unsupported effect kind 6 (this module reads up to 5)"),
            (1, 2, "unsupported effect version 2 (this module reads up to 1)"),
            (1, 0, "corrupt data"),
            (2, 99, "corrupt data"),
        ] {
            let mut bytes = effect.as_ref().to_vec();
            bytes[index] = byte;
            assert_eq!(Effect::decode(&bytes).expect_err("refused").to_string(), message);
        }
    }
}
