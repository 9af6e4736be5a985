//! The entries of a log: a queue of chunks, in which no operation walks more than one chunk.
//!
//! Every chunk knows the sum of the costs before it, so the sum over any time is a difference, and the chunk of a time or
//! a sum is found by bisection.

use std::collections::VecDeque;

use super::chunk::{read_entry, Chunk, Found};
use super::queue::Queue;
use crate::varint::Reader;
use crate::{Micros, MAX_TIME};

/// A request in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it was admitted.
    pub time: Micros,
    /// What it took.
    pub cost: u64,
}

/// The requests of a log, in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    /// Full chunks, oldest first. Only the first may have dropped entries, and none is empty. A short log has no queue.
    full: Option<Box<Queue>>,
    /// The chunk that grows.
    newest: Chunk,
    /// The sum of the costs through the newest entry; like the sums of chunks it wraps.
    sum: u64,
}

/// Consecutive entries as they are saved: what [`Entries::append`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The time from which the first entry's delta counts.
    pub base: Micros,
    /// The encoded entries.
    pub bytes: &'a [u8],
}

impl Entries {
    fn full(&self) -> &VecDeque<Chunk> {
        static NONE: VecDeque<Chunk> = VecDeque::new();
        self.full.as_deref().map_or(&NONE, Queue::chunks)
    }

    #[inline]
    fn oldest_chunk(&self) -> &Chunk {
        self.full().front().unwrap_or(&self.newest)
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.full().iter().chain(std::iter::once(&self.newest))
    }

    /// The first chunk for which `is_before` does not hold; it holds for a prefix of the chunks.
    fn find_chunk(&self, is_before: impl Fn(&Chunk) -> bool) -> &Chunk {
        let full = self.full();
        full.get(full.partition_point(is_before)).unwrap_or(&self.newest)
    }

    /// The time of the newest entry.
    pub fn newest(&self) -> Option<Micros> {
        (!self.newest.is_empty()).then_some(self.newest.last)
    }

    /// The sum of all costs.
    pub fn sum(&self) -> u64 {
        self.sum.wrapping_sub(self.oldest_chunk().sum_before)
    }

    /// The sum of the costs of entries later than `past`.
    pub fn sum_after(&self, past: Micros) -> u64 {
        if self.oldest_chunk().base > past {
            return self.sum();
        }
        let chunk = self.find_chunk(|chunk| chunk.last <= past);
        let gone = chunk.entries().take_while(|found| found.entry.time <= past).last();
        self.sum.wrapping_sub(gone.map_or(chunk.sum_before, |found| found.sum))
    }

    /// The time of the last entry that has to leave, oldest first, until their sum is at most `amount`.
    #[inline(always)]
    pub fn last_to_leave_until(&self, amount: u64) -> Option<Micros> {
        if amount == 0 {
            return self.newest();
        }
        let excess = self.sum().checked_sub(amount).filter(|&excess| excess > 0)?;
        self.reaching(excess)
    }

    /// The time of the entry that brings the sum, from the oldest on, to `amount` > 0.
    fn reaching(&self, amount: u64) -> Option<Micros> {
        let start = self.oldest_chunk().sum_before;
        let chunk = self.full().get(self.chunk_reaching(amount)).unwrap_or(&self.newest);
        let found = chunk.entries().find(|found| found.sum.wrapping_sub(start) >= amount);
        found.map(|found| found.entry.time)
    }

    /// The number of the chunk with the entry that brings the sum, from the oldest on, to `amount` > 0: the last chunk
    /// that starts below it.
    fn chunk_reaching(&self, amount: u64) -> usize {
        let start = self.oldest_chunk().sum_before;
        let starts_below = |chunk: &Chunk| chunk.sum_before.wrapping_sub(start) < amount;
        if starts_below(&self.newest) {
            self.full().len()
        } else {
            self.full().partition_point(starts_below).saturating_sub(1)
        }
    }

    /// Removes the chunks from `number` on, and returns the first of them.
    fn cut_at(&mut self, number: usize) -> Chunk {
        let newest = std::mem::take(&mut self.newest);
        let cut = self.full.as_mut().and_then(|full| full.cut_at(number)).unwrap_or(newest);
        if self.full().is_empty() {
            self.full = None;
        }
        self.sum = cut.sum_before;
        cut
    }

    /// Removes `amount` of what was added last.
    pub fn give_back(&mut self, amount: u64) {
        let Some(mut kept) = self.sum().checked_sub(amount).filter(|&kept| kept > 0) else {
            *self = Self::default();
            return;
        };
        let cut = self.chunk_reaching(kept);
        kept -= self.full().get(cut).unwrap_or(&self.newest).sum_before.wrapping_sub(self.oldest_chunk().sum_before);
        for Found { entry, .. } in self.cut_at(cut).entries() {
            // The last one may keep a part of its cost.
            let cost = entry.cost.min(kept);
            self.push(Entry { time: entry.time, cost });
            kept -= cost;
            if kept == 0 {
                break;
            }
        }
    }

    /// Adds an entry that is not older than the newest.
    pub fn push(&mut self, entry: Entry) {
        if self.newest.is_full() {
            self.full.get_or_insert_default().push(std::mem::take(&mut self.newest));
        }
        if self.newest.is_empty() {
            self.newest.start(entry.time, self.sum);
        }
        self.newest.push(entry);
        self.sum = self.sum.wrapping_add(entry.cost);
    }

    /// Drops the entries up to and including `past`.
    pub fn drop_until(&mut self, past: Micros) {
        self.drop_while(|last, _| last <= past);
    }

    /// Drops the oldest entries while the others alone have a sum of `amount`.
    pub fn keep_newest(&mut self, amount: u64) {
        let sum = self.sum;
        self.drop_while(|_, through| sum.wrapping_sub(through) >= amount);
    }

    /// Drops entries from the oldest on while `goes` holds for an entry's time and the sum through it.
    fn drop_while(&mut self, goes: impl Fn(Micros, u64) -> bool) {
        if let Some(full) = &mut self.full {
            while let Some(oldest) = full.chunks().front() {
                let sum_through = full.chunks().get(1).unwrap_or(&self.newest).sum_before;
                if !goes(oldest.last, sum_through) {
                    break;
                }
                full.drop_oldest();
            }
            if full.chunks().is_empty() {
                self.full = None;
            } else {
                full.shrink();
            }
        }
        let oldest = self.oldest_chunk();
        let gone = oldest.entries().take_while(|found| goes(found.entry.time, found.sum)).last();
        match (gone, &mut self.full) {
            (None, _) => {}
            (Some(gone), None) => self.newest.drop_through(&gone),
            (Some(gone), Some(full)) => full.change_oldest(|oldest| oldest.drop_through(&gone)),
        }
    }

    /// All entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.chunks().flat_map(Chunk::entries).map(|found| found.entry)
    }

    /// The segments to save, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let filled = self.chunks().filter(|chunk| !chunk.is_empty());
        filled.map(|chunk| Segment { base: chunk.base, bytes: chunk.encoded() })
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.chunks().map(Chunk::len).sum()
    }

    /// Whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// The number of segments to save; also, of buffers to free.
    pub fn segment_count(&self) -> usize {
        self.full().len() + usize::from(!self.newest.is_empty())
    }

    /// Whether a segment is valid, not older than these entries, and does not bring their sum above `max_sum`.
    pub fn is_continued_by(&self, segment: Segment<'_>, max_sum: u64) -> bool {
        let fits = || {
            let mut room = max_sum.checked_sub(self.sum())?;
            for entry in read_entries(segment) {
                room = room.checked_sub(entry?.cost)?;
            }
            Some(())
        };
        segment.base <= MAX_TIME && self.newest().is_none_or(|newest| newest <= segment.base) && fits().is_some()
    }

    /// Appends a segment that continues these entries. Takes no more memory than the segment does.
    pub fn append(&mut self, segment: Segment<'_>) {
        read_entries(segment).flatten().for_each(|entry| self.push(entry));
    }

    /// Bytes on the heap.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.full.as_ref().map_or(0, |full| full.heap_bytes()) + self.newest.heap_bytes()
    }

    /// The buffers, to move them in memory.
    pub fn buffers_mut(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let full = self.full.iter_mut().flat_map(|full| full.chunks_mut());
        full.chain(std::iter::once(&mut self.newest)).map(Chunk::buffer_mut)
    }

    /// The queue of full chunks, to move it in memory.
    pub fn queue_mut(&mut self) -> Option<&mut Box<Queue>> {
        self.full.as_mut()
    }
}

/// The entries of a segment; `None` for one that is corrupt, after which nothing can be read.
fn read_entries(segment: Segment<'_>) -> impl Iterator<Item = Option<Entry>> + '_ {
    let mut reader = Reader::new(segment.bytes);
    let mut time = segment.base;
    std::iter::from_fn(move || {
        if reader.is_at_end() {
            return None;
        }
        let entry = read_entry(&mut reader, time);
        time = entry.map_or(time, |entry| entry.time);
        Some(entry)
    })
}

/// Logs are equal if their entries are, in whatever chunks.
impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}
