//! Facts: what replicas and the append-only file are told.
//!
//! A replica must not decide anew: its clock is another. So what is replicated is not the command that was sent but
//! what became of it: so much was taken under this quota, at this time of the primary's. Applying it is a function of
//! the state and the fact alone, hence equal states stay equal bit for bit. The append-only file, when it is rewritten
//! without the snapshot format, uses facts of two further kinds, which set a state and extend a log.

use std::ffi::CStr;
use std::fmt;

use crate::limiter::varint::{push_varint, Reader, Sink};
use crate::limiter::{
    decode_piece, decode_quota, encode_piece, encode_quota, Entries, Limiter, Micros, Piece, Quota, FORMAT_VERSION,
    MAX_AMOUNT, MAX_TIME,
};

/// The command that carries facts: `RL.APPLY key fact`.
pub const APPLY: &CStr = c"RL.APPLY";

/// The kinds of fact, as they stand in the append-only file: never to be changed.
const TAKEN: u8 = 1;
const STATE: u8 = 2;
const ENTRIES: u8 = 3;

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
    /// The key holds this; the entries of a log follow.
    State(Limiter),
    /// The log has these further entries.
    Entries(Piece<'a>),
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
        match reader.byte()? {
            TAKEN => {
                let known = reader.byte()? == FORMAT_VERSION;
                let quota = decode_quota(&mut reader)?;
                let (cost, at) = (reader.varint()?, reader.varint()?);
                let valid = known && (1..=MAX_AMOUNT).contains(&cost) && at <= MAX_TIME && reader.is_at_end();
                valid.then_some(Fact::Taken { quota, cost, at })
            }
            STATE => Limiter::decode(reader.rest()).ok().map(Fact::State),
            ENTRIES => decode_piece(reader.rest()).map(Fact::Entries),
            _ => None,
        }
    }

    /// Makes it so: changes the limiter that the key holds, or returns the one that it holds from now on.
    ///
    /// # Errors
    /// When the fact is about another algorithm, or does not continue the log; nothing has changed then.
    pub fn apply(self, limiter: Option<&mut Limiter>) -> Result<Option<Limiter>, Unfit> {
        match (self, limiter) {
            (Fact::Taken { quota, cost, at }, Some(limiter)) => {
                limiter.take(&quota, cost, at).map_err(|_| Unfit)?;
                Ok(None)
            }
            (Fact::Taken { quota, cost, at }, None) => {
                let mut limiter = Limiter::new(&quota);
                limiter.take(&quota, cost, at).map_err(|_| Unfit)?;
                Ok(Some(limiter))
            }
            (Fact::State(state), _) => Ok(Some(state)),
            (Fact::Entries(piece), Some(limiter)) => {
                limiter.append(piece).map_err(|_| Unfit)?;
                Ok(None)
            }
            (Fact::Entries(_), None) => Err(Unfit),
        }
    }
}

/// A [`Fact::Taken`] as bytes, without an allocation: one is made for every request that takes something.
pub struct TakenBytes {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl TakenBytes {
    /// Three bytes for the kind, the version and the algorithm, and five integers of at most nine bytes each.
    const SIZE: usize = 48;

    /// The fact that `cost` was taken under `quota`.
    pub fn new(quota: &Quota, cost: u64, at: Micros) -> Self {
        let mut fact = Self { bytes: [0; Self::SIZE], len: 0 };
        fact.push_byte(TAKEN);
        fact.push_byte(FORMAT_VERSION);
        encode_quota(quota, &mut fact);
        push_varint(&mut fact, cost);
        push_varint(&mut fact, at);
        fact
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Sink for TakenBytes {
    fn push_byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

/// The facts that make a key hold `limiter`, one after the other.
pub fn state_facts(limiter: &Limiter) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut state = vec![STATE];
    limiter.encode(&mut state);
    let pieces = limiter.entries().into_iter().flat_map(Entries::pieces);
    std::iter::once(state).chain(pieces.map(|piece| {
        let mut fact = vec![ENTRIES];
        encode_piece(piece, &mut fact);
        fact
    }))
}
