//! Facts: what replicas and the append-only file are told.
//!
//! A replica must not decide anew: its clock is another. So what is replicated is not the command that was sent but
//! what became of it: so much was taken under this quota, or given back, at this time of the primary's. Applying it is a
//! function of the state and the fact alone, hence equal states stay equal bit for bit. The append-only file, when it is
//! rewritten without the snapshot format, uses facts of two further kinds, which set a state and extend a log.

use std::ffi::CStr;
use std::fmt;

use smallvec::SmallVec;

use crate::limiter::varint::{push_varint, Reader, Sink};
use crate::limiter::{
    decode_name, decode_piece, decode_quota, decode_quotas, encode_name, encode_piece, encode_quota, encode_quotas,
    Held, Limiter, Micros, Piece, PolicyLimits, PolicyName, Quota, FORMAT_VERSION, MAX_AMOUNT, MAX_TIME,
};

/// The command that carries facts: `RL.APPLY key fact [key fact …]`.
pub const APPLY: &CStr = c"RL.APPLY";

/// The kinds of fact, as they stand in the append-only file: never to be changed.
const TAKEN: u8 = 1;
const STATE: u8 = 2;
const ENTRIES: u8 = 3;
const TAKEN_UNDER_POLICY: u8 = 4;
const ENTRIES_UNDER_POLICY: u8 = 5;
const REFUNDED: u8 = 6;

/// Something that happened to a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<'a> {
    /// `cost` was taken under `quota` at this time.
    Taken {
        /// The quota of the request.
        quota: Quota,
        /// What it took.
        cost: u64,
        /// When, by the clock of whoever decided it.
        at: Micros,
    },
    /// `cost` was taken from every limit of a policy at this time.
    TakenUnderPolicy {
        /// Its name. Nobody has to know it: it is there to be shown.
        policy: &'a str,
        /// The quotas of the policy.
        quotas: Vec<Quota>,
        /// What was taken.
        cost: u64,
        /// When, by the clock of whoever decided it.
        at: Micros,
    },
    /// `amount` was given back at this time.
    Refunded {
        /// How much.
        amount: u64,
        /// When, by the clock of whoever decided it.
        at: Micros,
    },
    /// The key holds this; the entries of logs follow.
    State(Held),
    /// A log has these further entries.
    Entries {
        /// Which of the key's limiters it is.
        place: usize,
        /// The entries.
        piece: Piece<'a>,
    },
}

/// A fact that cannot be applied; the key is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fact does not fit what the key holds")
    }
}

impl Fact<'_> {
    /// Reads a fact; `None` when the bytes are anything else.
    pub fn decode(bytes: &[u8]) -> Option<Fact<'_>> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let fact = match kind {
            STATE => return Held::decode(reader.rest()).ok().map(Fact::State),
            ENTRIES => return decode_piece(reader.rest()).map(|piece| Fact::Entries { place: 0, piece }),
            ENTRIES_UNDER_POLICY => {
                let place = usize::try_from(reader.varint()?).ok()?;
                return decode_piece(reader.rest()).map(|piece| Fact::Entries { place, piece });
            }
            _ if reader.byte()? != FORMAT_VERSION => return None,
            TAKEN => {
                let quota = decode_quota(&mut reader)?;
                Fact::Taken { quota, cost: amount(&mut reader)?, at: time(&mut reader)? }
            }
            TAKEN_UNDER_POLICY => {
                let policy = decode_name(&mut reader)?;
                let quotas = decode_quotas(&mut reader)?;
                Fact::TakenUnderPolicy { policy, quotas, cost: amount(&mut reader)?, at: time(&mut reader)? }
            }
            REFUNDED => Fact::Refunded { amount: amount(&mut reader)?, at: time(&mut reader)? },
            _ => return None,
        };
        reader.is_at_end().then_some(fact)
    }

    /// Whether it can be applied to what the key holds.
    pub fn fits(&self, held: Option<&Held>) -> bool {
        match (self, held) {
            (Self::Taken { quota, .. }, Some(Held::Limiter(limiter))) => limiter.algorithm() == quota.algorithm(),
            (Self::Taken { .. } | Self::TakenUnderPolicy { .. }, None)
            | (Self::TakenUnderPolicy { .. }, Some(Held::Policy(_)))
            | (Self::Refunded { .. }, Some(_))
            | (Self::State(_), _) => true,
            (Self::Entries { place, piece }, Some(held)) => held.is_continued_by(*place, *piece),
            (Self::Taken { .. } | Self::TakenUnderPolicy { .. }, Some(_))
            | (Self::Refunded { .. } | Self::Entries { .. }, None) => false,
        }
    }

    /// Whether it does not matter what the key holds, even if it is not ours.
    pub const fn replaces(&self) -> bool {
        matches!(self, Self::State(_))
    }

    /// When it happened, if that moves the expiry of the key. (With a state comes its own expiry, as a command.)
    pub const fn moves_expiry_at(&self) -> Option<Micros> {
        match self {
            Self::Taken { at, .. } | Self::TakenUnderPolicy { at, .. } | Self::Refunded { at, .. } => Some(*at),
            Self::State(_) | Self::Entries { .. } => None,
        }
    }

    /// Makes it so, except for [`Self::policy`]: changes what the key holds, or returns what it holds from now on.
    ///
    /// # Errors
    /// When it does not fit; nothing has changed then.
    pub fn apply(self, held: Option<&mut Held>) -> Result<Option<Held>, Unfit> {
        match (self, held) {
            (Self::Taken { quota, cost, at }, Some(Held::Limiter(limiter))) => {
                limiter.take(&quota, cost, at).map_err(|_| Unfit)?;
            }
            (Self::Taken { quota, cost, at }, None) => {
                let mut limiter = Limiter::new(&quota);
                limiter.take(&quota, cost, at).map_err(|_| Unfit)?;
                return Ok(Some(Held::Limiter(limiter)));
            }
            (Self::TakenUnderPolicy { quotas, cost, at, .. }, Some(Held::Policy(limits))) => {
                limits.take(&quotas, cost, at);
            }
            (Self::TakenUnderPolicy { policy, quotas, cost, at }, None) => {
                let policy = PolicyName::new(policy.as_bytes()).ok_or(Unfit)?;
                let mut limits = PolicyLimits::new(policy, &quotas);
                limits.take(&quotas, cost, at);
                return Ok(Some(Held::Policy(limits)));
            }
            (Self::Refunded { amount, at }, Some(held)) => {
                held.refund(amount, at);
            }
            (Self::State(state), _) => return Ok(Some(state)),
            (Self::Entries { place, piece }, Some(held)) => held.append(place, piece).map_err(|_| Unfit)?,
            (Self::Taken { .. } | Self::TakenUnderPolicy { .. }, Some(_))
            | (Self::Refunded { .. } | Self::Entries { .. }, None) => return Err(Unfit),
        }
        Ok(None)
    }
}

impl<'a> Fact<'a> {
    /// The policy that the key comes under by it. (With a state comes its own.)
    pub const fn policy(&self) -> Option<&'a str> {
        match self {
            Self::TakenUnderPolicy { policy, .. } => Some(policy),
            _ => None,
        }
    }
}

fn amount(reader: &mut Reader<'_>) -> Option<u64> {
    reader.varint().filter(|amount| (1..=MAX_AMOUNT).contains(amount))
}

fn time(reader: &mut Reader<'_>) -> Option<Micros> {
    reader.varint().filter(|&time| time <= MAX_TIME)
}

/// A fact about one limiter as bytes, without an allocation: one is made for every request that takes something.
pub struct FactBytes {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl FactBytes {
    /// Three bytes for the kind, the version and the algorithm, and five integers of at most nine bytes each.
    const SIZE: usize = 48;

    fn new(kind: u8) -> Self {
        let mut fact = Self { bytes: [0; Self::SIZE], len: 0 };
        fact.push_byte(kind);
        fact.push_byte(FORMAT_VERSION);
        fact
    }

    /// The fact that `cost` was taken under `quota`.
    pub fn taken(quota: &Quota, cost: u64, at: Micros) -> Self {
        let mut fact = Self::new(TAKEN);
        encode_quota(quota, &mut fact);
        push_varint(&mut fact, cost);
        push_varint(&mut fact, at);
        fact
    }

    /// The fact that `amount` was given back.
    pub fn refunded(amount: u64, at: Micros) -> Self {
        let mut fact = Self::new(REFUNDED);
        push_varint(&mut fact, amount);
        push_varint(&mut fact, at);
        fact
    }
}

impl AsRef<[u8]> for FactBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Sink for FactBytes {
    fn push_byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

/// A fact about the limits of a policy as bytes, mostly without an allocation.
pub struct PolicyFactBytes(SmallVec<[u8; 64]>);

impl PolicyFactBytes {
    /// The fact that `cost` was taken under a policy of this name with these quotas.
    pub fn taken(policy: &str, quotas: &[Quota], cost: u64, at: Micros) -> Self {
        let mut fact = Self(SmallVec::from_slice(&[TAKEN_UNDER_POLICY, FORMAT_VERSION]));
        encode_name(policy, &mut fact);
        encode_quotas(quotas, &mut fact);
        push_varint(&mut fact, cost);
        push_varint(&mut fact, at);
        fact
    }
}

impl AsRef<[u8]> for PolicyFactBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Sink for PolicyFactBytes {
    fn push_byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// The facts that make a key hold this, one after the other.
pub fn state_facts(held: &Held) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut state = vec![STATE];
    held.encode(&mut state);
    let under_policy = matches!(held, Held::Policy(_));
    let logs = held.limiters().iter().enumerate().filter_map(|(place, limiter)| Some((place, limiter.entries()?)));
    let pieces = logs.flat_map(|(place, entries)| entries.pieces().map(move |piece| (place, piece)));
    std::iter::once(state).chain(pieces.map(move |(place, piece)| {
        let mut fact = vec![ENTRIES];
        if under_policy {
            fact = vec![ENTRIES_UNDER_POLICY];
            push_varint(&mut fact, place as u64);
        }
        encode_piece(piece, &mut fact);
        fact
    }))
}
