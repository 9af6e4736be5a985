//! The token bucket: tokens refill at a steady rate up to the capacity, and a request takes some.

use std::borrow::Cow;

use super::arithmetic::{div_ceil, div_floor};
use super::packed::{Int, Pack};
use super::tracker::{State, Tracker};
use crate::varint::{push_varint, Reader, Sink};
use crate::{BucketQuota, Micros, MAX_TIME};

/// What a full bucket lacks, and as of when.
// Not all servers' allocators align to more than 8 bytes, which a u128 would ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(Rust, packed(8))]
pub struct TokenBucket {
    /// When something was last taken.
    at: Micros,
    /// What was missing then, in parts of a token: `period` parts are one token, and `count` parts come back every
    /// microsecond. In these parts everything is a whole number, so nothing is ever rounded away.
    missing: u128,
}

/// `tokens` in parts.
fn parts(tokens: u64, quota: &BucketQuota) -> u128 {
    u128::from(tokens) * u128::from(quota.rate().period())
}

impl Tracker<TokenBucket> {
    /// A bucket that is full at `full_at`, and at most empty now.
    pub(crate) fn full_at(quota: BucketQuota, full_at: Micros, now: Micros) -> Self {
        let missing = u128::from(quota.rate().count()) * u128::from(full_at.saturating_sub(now));
        Self { quota, state: TokenBucket { at: now, missing: missing.min(parts(quota.capacity(), &quota)) } }
    }
}

impl State for TokenBucket {
    /// What is missing, in parts of a token.
    type Reading = u128;

    #[inline(always)]
    fn last_taken(&self) -> Micros {
        self.at
    }

    fn span(quota: &BucketQuota) -> Micros {
        div_floor(parts(quota.capacity(), quota), quota.rate().count())
    }

    #[inline(always)]
    fn read(&self, quota: &BucketQuota, now: Micros) -> u128 {
        self.missing.saturating_sub(u128::from(quota.rate().count()) * u128::from(now - self.at))
    }

    #[inline(always)]
    fn used(&self, missing: u128, quota: &BucketQuota) -> u64 {
        div_ceil(missing, quota.rate().period())
    }

    #[inline(always)]
    fn wait_until_used(&self, amount: u64, missing: u128, quota: &BucketQuota) -> Micros {
        div_ceil(missing.saturating_sub(parts(amount, quota)), quota.rate().count())
    }

    fn settle(&mut self, missing: u128, _quota: &BucketQuota, now: Micros) {
        *self = Self { at: now, missing };
    }

    #[inline(always)]
    fn take(&mut self, cost: u64, missing: u128, quota: &BucketQuota, now: Micros) {
        let missing = (missing + parts(cost, quota)).min(2 * parts(quota.capacity(), quota));
        *self = Self { at: now, missing };
    }

    fn give_back(&mut self, amount: u64, missing: u128, quota: &BucketQuota, now: Micros) {
        *self = Self { at: now, missing: missing.saturating_sub(parts(amount, quota)) };
    }

    fn carried_over(&self, from: &BucketQuota, to: &BucketQuota) -> Cow<'_, Self> {
        let (old, new) = (u128::from(from.rate().period()), u128::from(to.rate().period()));
        // Whole tokens stay whole. The parts of a broken token are rounded up, which does not make it a whole one more.
        let missing = self.missing / old * new + (self.missing % old * new).div_ceil(old);
        Cow::Owned(Self { at: self.at, missing: missing.min(parts(to.capacity(), to)) })
    }

    #[allow(clippy::cast_possible_truncation)] // the upper half, and the lower one
    fn encode(&self, out: &mut impl Sink) {
        push_varint(out, self.at);
        push_varint(out, (self.missing >> 64) as u64);
        push_varint(out, self.missing as u64);
    }

    fn decode(reader: &mut Reader<'_>, quota: &BucketQuota) -> Option<Self> {
        let at = reader.varint_up_to(MAX_TIME)?;
        let missing = u128::from(reader.varint()?) << 64 | u128::from(reader.varint()?);
        (missing <= 2 * parts(quota.capacity(), quota)).then_some(Self { at, missing })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PackedBucket {
    capacity: Int<6>,
    count: Int<4>,
    period: Int<6>,
    at: Int<7>,
    missing: Int<8>,
}

impl Pack for TokenBucket {
    type Packed = PackedBucket;

    #[inline(always)]
    fn pack(Tracker { quota, state }: &Tracker<Self>) -> Option<PackedBucket> {
        Some(PackedBucket {
            capacity: Int::new(quota.capacity())?,
            count: Int::new(quota.rate().count())?,
            period: Int::new(quota.rate().period())?,
            at: Int::new(state.at)?,
            missing: Int::new(u64::try_from(state.missing).ok()?)?,
        })
    }

    #[inline(always)]
    fn unpack(packed: &PackedBucket) -> Tracker<Self> {
        Tracker {
            quota: BucketQuota::new_unchecked(packed.capacity.get(), packed.count.get(), packed.period.get()),
            state: Self { at: packed.at.get(), missing: u128::from(packed.missing.get()) },
        }
    }
}
