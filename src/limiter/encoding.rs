//! The one byte format of what a key holds, in memory dumps, snapshots and the append-only file alike.
//!
//! What a key holds is a version, then the algorithm, the quota and the state of its limiter, all integers of variable
//! length; or a mark, a policy's name and the number of its limits, and the same of each. The entries of logs follow
//! apart, piece by piece, so that a long one is never one large buffer. Decoding trusts nothing: lengths, ranges and sums
//! are all checked.

use super::fixed_window::FixedWindow;
use super::leaky_bucket::LeakyBucket;
use super::meter::{Meter, Metered};
use super::quota::{Algorithm, BucketQuota, Micros, Quota, Rate, WindowQuota, MAX_AMOUNT, MAX_TIME};
use super::sliding_counter::SlidingCounter;
use super::sliding_log::{Piece, SlidingLog};
use super::token_bucket::{parts, TokenBucket};
use super::varint::{push_varint, Reader, Sink};
use super::{Held, Limiter, PolicyLimits, PolicyName, State, MAX_LIMITS};

/// The version of the format. A later one is refused; an earlier one would be read by code of its own.
pub const FORMAT_VERSION: u8 = 1;

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl Held {
    /// Writes all but the entries of logs.
    pub fn encode(&self, out: &mut impl Sink) {
        out.push_byte(FORMAT_VERSION);
        if let Some(policy) = self.policy() {
            out.push_byte(POLICY);
            encode_name(policy, out);
            push_varint(out, self.limiters().len() as u64);
        }
        for limiter in self.limiters() {
            limiter.with_state(|state| encode_state(state, out));
        }
    }

    /// Reads what [`Self::encode`] wrote; logs come out empty.
    ///
    /// # Errors
    /// When the bytes are anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        let held = decode_held(&mut reader).ok_or(Damaged)?;
        reader.is_at_end().then_some(held).ok_or(Damaged)
    }
}

impl Limiter {
    /// Whether saved entries continue this log.
    pub(super) fn is_continued_by(&self, piece: Piece<'_>) -> bool {
        // Not twice the limit: when the limit was lowered, an entry from before may alone have been above that.
        self.entries().is_some_and(|entries| entries.is_continued_by(piece, 2 * MAX_AMOUNT))
    }

    /// Adds saved entries to a log.
    ///
    /// # Errors
    /// When this is no log, or the entries do not continue it; nothing has changed then.
    pub fn append(&mut self, piece: Piece<'_>) -> Result<(), Damaged> {
        if !self.is_continued_by(piece) {
            return Err(Damaged);
        }
        self.whole_mut().and_then(|state| state.entries_mut()).ok_or(Damaged)?.append(piece);
        Ok(())
    }
}

fn decode_held(reader: &mut Reader<'_>) -> Option<Held> {
    if reader.byte()? != FORMAT_VERSION {
        return None;
    }
    if reader.rest().first() != Some(&POLICY) {
        return Some(Held::Limiter(decode_state(reader)?.into()));
    }
    reader.byte()?;
    let policy = PolicyName::new(decode_name(reader)?.as_bytes())?;
    let limiters = decode_several(reader, |reader| decode_state(reader).map(Limiter::from))?;
    Some(Held::Policy(PolicyLimits::of(policy, limiters)))
}

/// Reads a number, within bounds, and then so many things.
fn decode_several<T>(reader: &mut Reader<'_>, decode: impl Fn(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(reader.varint()?).ok()?;
    if !(1..=MAX_LIMITS).contains(&count) {
        return None;
    }
    (0..count).map(|_| decode(reader)).collect()
}

fn encode_state(state: &State, out: &mut impl Sink) {
    encode_quota(&state.quota(), out);
    match state {
        State::TokenBucket(it) => encode_bucket(&it.meter, out),
        State::LeakyBucket(it) => encode_bucket(&it.meter.0, out),
        State::FixedWindow(it) => {
            push_varint(out, it.meter.at);
            push_varint(out, it.meter.count);
        }
        State::SlidingLog(_) => {}
        State::SlidingCounter(it) => {
            push_varint(out, it.meter.at);
            push_varint(out, it.meter.previous);
            push_varint(out, it.meter.current);
        }
    }
}

fn decode_state(reader: &mut Reader<'_>) -> Option<State> {
    Some(match decode_quota(reader)? {
        Quota::TokenBucket(quota) => State::TokenBucket(metered(quota, decode_bucket(reader, &quota)?)),
        Quota::LeakyBucket(quota) => State::LeakyBucket(metered(quota, LeakyBucket(decode_bucket(reader, &quota)?))),
        Quota::FixedWindow(quota) => {
            let meter = FixedWindow { at: time(reader)?, count: at_most(2 * quota.limit(), reader)? };
            State::FixedWindow(metered(quota, meter))
        }
        Quota::SlidingLog(quota) => State::SlidingLog(metered(quota, SlidingLog::default())),
        Quota::SlidingCounter(quota) => {
            let meter = SlidingCounter {
                at: time(reader)?,
                // Not twice the limit: a lowered limit leaves the counts as they were.
                previous: at_most(2 * MAX_AMOUNT, reader)?,
                current: at_most(2 * MAX_AMOUNT, reader)?,
            };
            State::SlidingCounter(metered(quota, meter))
        }
    })
}

fn metered<M: Meter>(quota: M::Quota, meter: M) -> Metered<M> {
    Metered { quota, meter }
}

#[allow(clippy::cast_possible_truncation)] // the upper half, and the lower one
fn encode_bucket(bucket: &TokenBucket, out: &mut impl Sink) {
    push_varint(out, bucket.at);
    push_varint(out, (bucket.missing >> 64) as u64);
    push_varint(out, bucket.missing as u64);
}

fn decode_bucket(reader: &mut Reader<'_>, quota: &BucketQuota) -> Option<TokenBucket> {
    let at = time(reader)?;
    let missing = u128::from(reader.varint()?) << 64 | u128::from(reader.varint()?);
    (missing <= 2 * parts(quota.capacity(), quota)).then_some(TokenBucket { at, missing })
}

/// Writes an algorithm with its parameters.
pub fn encode_quota(quota: &Quota, out: &mut impl Sink) {
    out.push_byte(tag(quota.algorithm()));
    match quota {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => {
            push_varint(out, quota.capacity());
            push_varint(out, quota.rate().count());
            push_varint(out, quota.rate().period());
        }
        Quota::FixedWindow(quota) | Quota::SlidingLog(quota) | Quota::SlidingCounter(quota) => {
            push_varint(out, quota.limit());
            push_varint(out, quota.window());
        }
    }
}

/// Writes the name of a policy.
pub fn encode_name(name: &str, out: &mut impl Sink) {
    push_varint(out, name.len() as u64);
    out.push_bytes(name.as_bytes());
}

/// Reads what [`encode_name`] wrote; `None` when it is anything else.
pub fn decode_name<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    let len = usize::try_from(reader.varint()?).ok()?;
    PolicyName::check(reader.bytes(len)?)
}

/// Writes the quotas of a policy.
pub fn encode_quotas(quotas: &[Quota], out: &mut impl Sink) {
    push_varint(out, quotas.len() as u64);
    for quota in quotas {
        encode_quota(quota, out);
    }
}

/// Reads what [`encode_quotas`] wrote; `None` when it is anything else.
pub fn decode_quotas(reader: &mut Reader<'_>) -> Option<Vec<Quota>> {
    decode_several(reader, decode_quota)
}

/// Reads what [`encode_quota`] wrote; `None` when it is anything else.
pub fn decode_quota(reader: &mut Reader<'_>) -> Option<Quota> {
    let tagged = reader.byte()?;
    let algorithm = Algorithm::ALL.into_iter().find(|&algorithm| tag(algorithm) == tagged)?;
    Some(match algorithm {
        Algorithm::TokenBucket => Quota::TokenBucket(decode_bucket_quota(reader)?),
        Algorithm::LeakyBucket => Quota::LeakyBucket(decode_bucket_quota(reader)?),
        Algorithm::FixedWindow => Quota::FixedWindow(decode_window_quota(reader)?),
        Algorithm::SlidingLog => Quota::SlidingLog(decode_window_quota(reader)?),
        Algorithm::SlidingCounter => Quota::SlidingCounter(decode_window_quota(reader)?),
    })
}

/// The byte that stands in place of an algorithm's where a policy's limits follow: never to be changed.
const POLICY: u8 = 64;

/// The byte that stands for an algorithm in everything that is saved: never to be changed.
const fn tag(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::TokenBucket => 1,
        Algorithm::LeakyBucket => 2,
        Algorithm::FixedWindow => 3,
        Algorithm::SlidingLog => 4,
        Algorithm::SlidingCounter => 5,
    }
}

fn decode_bucket_quota(reader: &mut Reader<'_>) -> Option<BucketQuota> {
    let capacity = reader.varint()?;
    BucketQuota::new(capacity, Rate::new(reader.varint()?, reader.varint()?)?)
}

fn decode_window_quota(reader: &mut Reader<'_>) -> Option<WindowQuota> {
    WindowQuota::new(reader.varint()?, reader.varint()?)
}

fn time(reader: &mut Reader<'_>) -> Option<Micros> {
    at_most(MAX_TIME, reader)
}

fn at_most(max: u64, reader: &mut Reader<'_>) -> Option<u64> {
    reader.varint().filter(|&value| value <= max)
}

/// Writes a part of a log's entries.
pub fn encode_piece(piece: Piece<'_>, out: &mut Vec<u8>) {
    push_varint(out, piece.base);
    out.extend_from_slice(piece.bytes);
}

/// Reads what [`encode_piece`] wrote; the entries themselves are checked by [`Limiter::append`].
pub fn decode_piece(bytes: &[u8]) -> Option<Piece<'_>> {
    let mut reader = Reader::new(bytes);
    let piece = Piece { base: reader.varint()?, bytes: reader.rest() };
    // There is none without entries: a file full of them would only cost time.
    (!piece.bytes.is_empty()).then_some(piece)
}
