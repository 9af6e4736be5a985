//! The entries of a log: a queue of chunks, in which no operation walks more than one chunk.
//!
//! Every chunk knows the sum of all costs before it, so a sum over any stretch of time is the difference of two, and
//! the chunk where a time or a sum falls is found by bisection.

use std::collections::VecDeque;

use super::chunk::{read_entry, Chunk, Found};
use super::queue::Queue;
use crate::limiter::quota::{Micros, MAX_TIME};
use crate::limiter::varint::Reader;

/// One request: when, and how much it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it was let through.
    pub time: Micros,
    /// What it took.
    pub cost: u64,
}

/// Requests in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    /// Chunks that take no more, oldest first; only the very first may have dropped entries, and none is empty. There
    /// is no queue as long as there are none, so that a short log is small.
    full: Option<Box<Queue>>,
    /// The chunk that grows.
    newest: Chunk,
    /// The sum of all costs up to the newest entry; like the chunks' it wraps.
    sum: u64,
}

/// A part of the entries in the form in which they are saved: what [`Entries::append`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
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

    /// The first chunk for which `is_before` does not hold, which must hold up to a point and not beyond.
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

    /// If entries must leave, oldest first, until their sum is no more than `amount`: the time of the last to leave.
    pub fn last_to_leave_until(&self, amount: u64) -> Option<Micros> {
        let excess = self.sum().checked_sub(amount).filter(|&excess| excess > 0)?;
        if amount == 0 {
            return self.newest();
        }
        let start = self.oldest_chunk().sum_before;
        let chunk = self.full().get(self.chunk_reaching(excess)).unwrap_or(&self.newest);
        let found = chunk.entries().find(|found| found.sum.wrapping_sub(start) >= excess);
        found.map(|found| found.entry.time)
    }

    /// The number of the chunk with the entry that brings the sum, from the oldest on, to `amount`, which is more than
    /// nothing: the last chunk that starts below it.
    fn chunk_reaching(&self, amount: u64) -> usize {
        let start = self.oldest_chunk().sum_before;
        let starts_below = |chunk: &Chunk| chunk.sum_before.wrapping_sub(start) < amount;
        if starts_below(&self.newest) {
            self.full().len()
        } else {
            self.full().partition_point(starts_below).saturating_sub(1)
        }
    }

    /// Removes the chunks from the one with this number on, and returns the first of them.
    fn cut_at(&mut self, number: usize) -> Chunk {
        let newest = std::mem::take(&mut self.newest);
        let cut = self.full.as_mut().and_then(|full| full.cut_at(number)).unwrap_or(newest);
        if self.full().is_empty() {
            self.full = None;
        }
        self.sum = cut.sum_before;
        cut
    }

    /// Takes back so much of what was added last.
    pub fn give_back(&mut self, amount: u64) {
        let Some(mut kept) = self.sum().checked_sub(amount).filter(|&kept| kept > 0) else {
            *self = Self::default();
            return;
        };
        let cut = self.chunk_reaching(kept);
        kept -= self.full().get(cut).unwrap_or(&self.newest).sum_before.wrapping_sub(self.oldest_chunk().sum_before);
        for Found { entry, .. } in self.cut_at(cut).entries() {
            // The last one may have to give back a part.
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

    /// Drops the oldest entries as long as the others alone have a sum of `amount`.
    pub fn keep_newest(&mut self, amount: u64) {
        let sum = self.sum;
        self.drop_while(|_, through| sum.wrapping_sub(through) >= amount);
    }

    /// Drops entries from the oldest on while `goes` holds for the time of an entry and the sum through it.
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

    /// The parts to save, oldest first.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let filled = self.chunks().filter(|chunk| !chunk.is_empty());
        filled.map(|chunk| Piece { base: chunk.base, bytes: chunk.encoded() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.chunks().map(Chunk::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// How many parts there are to save, and to free.
    pub fn piece_count(&self) -> usize {
        self.full().len() + usize::from(!self.newest.is_empty())
    }

    /// Whether what was saved is a continuation of these entries that does not bring their sum above `max_sum`.
    pub fn is_continued_by(&self, piece: Piece<'_>, max_sum: u64) -> bool {
        let fits = || {
            let mut room = max_sum.checked_sub(self.sum())?;
            for entry in read_entries(piece) {
                room = room.checked_sub(entry?.cost)?;
            }
            Some(())
        };
        piece.base <= MAX_TIME && self.newest().is_none_or(|newest| newest <= piece.base) && fits().is_some()
    }

    /// Adds what was saved and is a continuation of these entries. Takes no more memory than the piece does.
    pub fn append(&mut self, piece: Piece<'_>) {
        read_entries(piece).flatten().for_each(|entry| self.push(entry));
    }

    /// Bytes on the heap.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.full.as_ref().map_or(0, |full| full.heap_bytes()) + self.newest.heap_bytes()
    }

    /// The buffers, for whoever wants to move them to a better place.
    pub fn buffers_mut(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        let full = self.full.iter_mut().flat_map(|full| full.chunks_mut());
        full.chain(std::iter::once(&mut self.newest)).map(Chunk::buffer_mut)
    }

    /// The queue of the chunks, if there is one, for whoever wants to move it to a better place.
    pub fn queue_mut(&mut self) -> Option<&mut Box<Queue>> {
        self.full.as_mut()
    }
}

/// The entries of a piece; `None` in place of one that is damaged, beyond which it makes no sense to read on.
fn read_entries(piece: Piece<'_>) -> impl Iterator<Item = Option<Entry>> + '_ {
    let mut reader = Reader::new(piece.bytes);
    let mut time = piece.base;
    std::iter::from_fn(move || {
        if reader.is_at_end() {
            return None;
        }
        let entry = read_entry(&mut reader, time);
        time = entry.map_or(time, |entry| entry.time);
        Some(entry)
    })
}

/// Equal entries make equal logs, however they are cut into chunks.
impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}
