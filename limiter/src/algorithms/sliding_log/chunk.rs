//! A run of a log's entries, delta-encoded.
//!
//! An entry is the time since the previous one, doubled, plus one if a cost other than 1 follows; both are
//! variable-length integers. With a request a second an entry takes three bytes, with a thousand a second two.

use super::entries::Entry;
use crate::varint::{push_varint, Reader};
use crate::{Micros, MAX_AMOUNT, MAX_TIME};

/// The size of the largest entry: nine bytes of time and eight of cost.
const MAX_ENTRY: usize = 17;

/// The size of a full chunk: small enough to walk, large enough that a long log has few allocations.
const SIZE: usize = 1_024;

/// Entries in the order of their times. Dropping old ones at the head moves nothing.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// The sum of the costs in the log before the first entry here. It wraps: only differences of sums have a meaning.
    pub(super) sum_before: u64,
    /// The time from which the delta of the first entry counts.
    pub(super) base: Micros,
    /// The time of the last entry.
    pub(super) last: Micros,
    /// Where the first entry starts.
    head: u32,
    /// How many entries there are.
    count: u32,
    bytes: Vec<u8>,
}

/// An entry of a chunk, and its position.
pub(super) struct Found {
    pub entry: Entry,
    /// The log's sum through the entry.
    pub sum: u64,
    /// Where the next entry starts.
    end: usize,
    /// The number of the entry in the chunk, from 1.
    number: u32,
}

impl Chunk {
    /// Makes an empty chunk start at `time`.
    pub(super) fn start(&mut self, time: Micros, sum_before: u64) {
        (self.base, self.last, self.sum_before) = (time, time, sum_before);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() > SIZE - MAX_ENTRY
    }

    /// Adds an entry that is not older than the last one.
    pub(super) fn push(&mut self, entry: Entry) {
        let len = self.bytes.len();
        if len >= 64 && self.bytes.capacity() - len < MAX_ENTRY {
            // By a quarter, not by doubling: memory matters more here than an occasional copy.
            self.bytes.reserve_exact((len / 4).max(MAX_ENTRY).min(SIZE - len));
        }
        let delta = entry.time.saturating_sub(self.last);
        let with_cost = entry.cost != 1;
        push_varint(&mut self.bytes, delta << 1 | u64::from(with_cost));
        if with_cost {
            push_varint(&mut self.bytes, entry.cost);
        }
        self.last = entry.time;
        self.count += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Found> + '_ {
        let mut reader = Reader::new(self.encoded());
        let (mut time, mut sum, mut number) = (self.base, self.sum_before, 0);
        std::iter::from_fn(move || {
            let entry = read_entry(&mut reader, time)?;
            time = entry.time;
            sum = sum.wrapping_add(entry.cost);
            number += 1;
            Some(Found { entry, sum, end: self.bytes.len() - reader.rest().len(), number })
        })
    }

    /// Drops the entries up to and including `found`.
    pub(super) fn drop_through(&mut self, found: &Found) {
        self.base = found.entry.time;
        self.sum_before = found.sum;
        self.count -= found.number;
        // Moving the rest only when it is smaller than what was dropped costs O(1) an entry.
        if found.end <= self.bytes.len() / 2 {
            self.head = u32::try_from(found.end).unwrap_or(u32::MAX);
        } else {
            self.bytes.drain(..found.end);
            self.head = 0;
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(self.bytes.len() * 2);
            }
        }
    }

    /// The encoded entries, for [`read_entry`] from [`Self::base`] on.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.bytes[self.head as usize..]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

/// Reads the entry after one at `time`; `None` at the end, and for invalid bytes.
pub(super) fn read_entry(reader: &mut Reader<'_>, time: Micros) -> Option<Entry> {
    let word = reader.varint()?;
    let cost = if word & 1 == 1 { reader.varint()? } else { 1 };
    let time = time.checked_add(word >> 1)?;
    (time <= MAX_TIME && (1..=MAX_AMOUNT).contains(&cost)).then_some(Entry { time, cost })
}
