//! Effects: what a command did to a key, and their encoding. [`crate::formats`] has the layouts.

use std::ffi::CStr;

use limiter::varint::{push_varint, Reader, Sink};
use limiter::{
    decode_policy_name, decode_quotas, decode_segment, encode_policy_name, encode_quotas, encode_segment, DecodeError,
    Micros, Quota, Segment, Value, MAX_AMOUNT, MAX_TIME,
};
use smallvec::SmallVec;

use crate::formats::{EffectFormat, APPEND, EFFECTS, REFUND, SET, TAKE, TAKE_POLICY};

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
        let Some(&known) = EFFECTS.iter().find(|known| known.kind == kind) else {
            let latest = EFFECTS.iter().map(|known| known.kind).max().unwrap_or(0);
            DecodeError::check_version("effect kind", kind.into(), latest.into())?;
            return Err(DecodeError::Corrupt);
        };
        DecodeError::check_version("effect version", version.into(), known.version.into())?;
        if known == SET {
            return Value::decode(reader.rest()).map(Effect::Set);
        }
        decode(EffectFormat { kind, version }, &mut reader).ok_or(DecodeError::Corrupt)
    }

    /// Whether the effect replaces the value of the key, whatever its type.
    pub const fn replaces(&self) -> bool {
        matches!(self, Self::Set(_))
    }
}

/// Decodes an effect of a known format. A new version is a new arm here.
fn decode<'a>(format: EffectFormat, reader: &mut Reader<'a>) -> Option<Effect<'a>> {
    let effect = match format {
        TAKE => Effect::Take { quota: Quota::decode(reader)?, cost: amount(reader)?, at: time(reader)? },
        TAKE_POLICY => Effect::TakePolicy {
            policy: decode_policy_name(reader)?,
            quotas: decode_quotas(reader)?,
            cost: amount(reader)?,
            at: time(reader)?,
        },
        REFUND => Effect::Refund { amount: amount(reader)?, at: time(reader)? },
        APPEND => {
            let index = usize::try_from(reader.varint()?).ok()?;
            return Some(Effect::Append { index, segment: decode_segment(reader.rest())? });
        }
        _ => return None,
    };
    reader.is_at_end().then_some(effect)
}

fn amount(reader: &mut Reader<'_>) -> Option<u64> {
    reader.varint_up_to(MAX_AMOUNT).filter(|&amount| amount > 0)
}

fn time(reader: &mut Reader<'_>) -> Option<Micros> {
    reader.varint_up_to(MAX_TIME)
}

/// An encoded effect on a single limiter. It needs no allocation, as one is made for every request that takes something.
pub struct EffectBytes {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl EffectBytes {
    /// Three bytes for the kind, the version and the algorithm, and five integers of at most nine bytes each.
    const SIZE: usize = 48;

    fn new(format: EffectFormat) -> Self {
        let mut effect = Self { bytes: [0; Self::SIZE], len: 0 };
        effect.push_byte(format.kind);
        effect.push_byte(format.version);
        effect
    }

    /// [`Effect::Take`]
    pub fn take(quota: &Quota, cost: u64, at: Micros) -> Self {
        let mut effect = Self::new(TAKE);
        quota.encode(&mut effect);
        push_varint(&mut effect, cost);
        push_varint(&mut effect, at);
        effect
    }

    /// [`Effect::Refund`]
    pub fn refund(amount: u64, at: Micros) -> Self {
        let mut effect = Self::new(REFUND);
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
        let mut effect = Self(SmallVec::from_slice(&[TAKE_POLICY.kind, TAKE_POLICY.version]));
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
    let mut set = vec![SET.kind, SET.version];
    value.encode(&mut set);
    let logs = value.limiters().iter().enumerate().filter_map(|(index, limiter)| Some((index, limiter.entries()?)));
    let segments = logs.flat_map(|(index, entries)| entries.segments().map(move |segment| (index, segment)));
    std::iter::once(set).chain(segments.map(|(index, segment)| {
        let mut append = vec![APPEND.kind, APPEND.version];
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
