//! The most frequent of any number of keys, in constant memory: the Space-Saving sketch.
//!
//! A key in the table is counted. A key that is not replaces the one with the lowest count and continues from that count,
//! since it may have been in the table before. So no count is too low, and none is too high by more than the lowest count,
//! which is at most the total divided by the size of the table. A key with more occurrences than that is in the table.

use std::mem;

/// The bytes of a key that are kept.
const MAX_KEY: usize = 128;

/// Counts the most frequent keys.
#[derive(Debug, Default)]
pub struct HeavyHitters {
    places: usize,
    entries: Vec<Entry>,
    index: Index,
    /// The sum of everything that was counted.
    total: u64,
    /// A lower bound of the counts.
    lowest: u64,
    /// Where the search for the lowest count continues.
    cursor: usize,
    /// Whether a key has been replaced.
    is_full: bool,
}

/// A key in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Identifies the key: collisions of 64-bit hashes are neglected.
    pub hash: u64,
    /// The database of the key.
    pub db: i32,
    /// The name of the key, or the start of it.
    pub key: Vec<u8>,
    /// Whether the name is cut.
    pub is_cut: bool,
    /// Its count.
    pub count: u64,
    /// The next entry of the same bucket of the index.
    next: Option<u16>,
}

impl Entry {
    /// Replaces the key, in the same memory.
    fn set_key(&mut self, hash: u64, db: i32, key: &[u8]) {
        let kept = &key[..key.len().min(MAX_KEY)];
        (self.hash, self.db, self.is_cut) = (hash, db, kept.len() < key.len());
        self.key.clear();
        self.key.reserve_exact(kept.len());
        self.key.extend_from_slice(kept);
    }
}

impl HeavyHitters {
    /// A table of `places` keys; with none, nothing is counted.
    pub fn with_places(places: u16) -> Self {
        Self { places: places.into(), ..Self::default() }
    }

    /// Counts a key `times` times.
    #[inline]
    pub fn count(&mut self, hash: u64, db: i32, key: &[u8], times: u64) {
        if let Some(entry) = self.place_of(hash, db, key, times) {
            entry.count += times;
        }
    }

    /// The entry of a key that is counted `times` times: its own, or a new one.
    #[inline]
    fn place_of(&mut self, hash: u64, db: i32, key: &[u8], times: u64) -> Option<&mut Entry> {
        if self.places == 0 {
            return None;
        }
        self.total += times;
        if let Some(at) = self.index.find(hash, &self.entries) {
            return self.entries.get_mut(at);
        }
        let at = if self.entries.len() < self.places {
            self.entries.push(Entry { hash, db, key: Vec::new(), is_cut: false, count: 0, next: None });
            self.entries.len() - 1
        } else {
            self.is_full = true;
            let at = self.find_lowest();
            self.index.remove(at, &mut self.entries);
            at
        };
        self.entries[at].set_key(hash, db, key);
        self.index.add(at, &mut self.entries, self.places);
        self.entries.get_mut(at)
    }

    /// An entry with the lowest count. Counts only grow, so the search continues where the last one ended; after a round
    /// without a match, the lowest count has grown. All rounds together take no more steps than were counted: O(1).
    fn find_lowest(&mut self) -> usize {
        for _ in 0..self.entries.len() {
            let at = self.cursor;
            self.cursor = if at + 1 < self.entries.len() { at + 1 } else { 0 };
            if self.entries[at].count <= self.lowest {
                return at;
            }
        }
        let counts = self.entries.iter().map(|entry| entry.count).enumerate();
        let (at, count) = counts.min_by_key(|it| it.1).unwrap_or((0, 0));
        (self.lowest, self.cursor) = (count, at);
        at
    }

    /// The sum of everything that was counted.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The most by which a count may be too high, and the highest possible count of a key that is not in the table.
    pub fn error(&self) -> u64 {
        if self.is_full {
            self.entries.iter().map(|entry| entry.count).min().unwrap_or(0)
        } else {
            0
        }
    }

    /// The keys in the table.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds the counts of another table.
    pub fn count_all(&mut self, other: &Self) {
        for Entry { hash, db, key, is_cut, count, .. } in &other.entries {
            if let Some(entry) = self.place_of(*hash, *db, key, *count) {
                entry.count += count;
                entry.is_cut = *is_cut;
            }
        }
    }
}

/// A hash table with chaining. Every denial passes here: this takes a few instructions, a general map some hundred.
#[derive(Debug, Default)]
struct Index {
    /// The first entry of each bucket; a power of two of them, or none while there are no entries.
    first: Vec<Option<u16>>,
}

impl Index {
    #[allow(clippy::cast_possible_truncation)] // the lowest bits are what is wanted
    const fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.first.len() - 1)
    }

    fn find(&self, hash: u64, entries: &[Entry]) -> Option<usize> {
        if self.first.is_empty() {
            return None;
        }
        let mut next = self.first[self.bucket(hash)];
        while let Some(at) = next {
            let entry = &entries[usize::from(at)];
            if entry.hash == hash {
                return Some(at.into());
            }
            next = entry.next;
        }
        None
    }

    /// Adds an entry to an index for up to `most` entries.
    fn add(&mut self, at: usize, entries: &mut [Entry], most: usize) {
        if self.first.is_empty() {
            self.first = vec![None; (2 * most).next_power_of_two()];
        }
        let entry = &mut entries[at];
        let bucket = self.bucket(entry.hash);
        entry.next = mem::replace(&mut self.first[bucket], u16::try_from(at).ok());
    }

    fn remove(&mut self, at: usize, entries: &mut [Entry]) {
        let (bucket, after) = (self.bucket(entries[at].hash), entries[at].next);
        let (mut before, mut next) = (None, self.first[bucket]);
        while let Some(found) = next.map(usize::from).filter(|&found| found != at) {
            (before, next) = (Some(found), entries[found].next);
        }
        match before {
            None => self.first[bucket] = after,
            Some(before) => entries[before].next = after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: &[u8]) -> u64 {
        // Uses few of the lowest bits, so that keys share buckets.
        key.iter().fold(0_u64, |hash, &byte| hash * 31 + u64::from(byte)) << 3
    }

    fn count(hitters: &mut HeavyHitters, key: &[u8]) {
        hitters.count(hash(key), 0, key, 1);
    }

    fn found(hitters: &HeavyHitters) -> Vec<(String, u64)> {
        let mut found: Vec<_> =
            hitters.entries().iter().map(|it| (String::from_utf8_lossy(&it.key).into_owned(), it.count)).collect();
        found.sort();
        found
    }

    #[test]
    fn counts_are_exact_while_all_keys_fit() {
        let mut hitters = HeavyHitters::with_places(3);
        for key in ["a", "b", "a", "c", "a", "b"] {
            count(&mut hitters, key.as_bytes());
        }
        assert_eq!(found(&hitters), [("a".to_owned(), 3), ("b".to_owned(), 2), ("c".to_owned(), 1)]);
        assert_eq!((hitters.total(), hitters.error()), (6, 0));
    }

    #[test]
    fn a_new_key_continues_from_the_lowest_count() {
        let mut hitters = HeavyHitters::with_places(2);
        for key in ["a", "a", "a", "b", "c"] {
            count(&mut hitters, key.as_bytes());
        }
        assert_eq!(found(&hitters), [("a".to_owned(), 3), ("c".to_owned(), 2)]);
        assert_eq!(hitters.error(), 2);
    }

    #[test]
    fn long_keys_are_cut_but_told_apart() {
        let mut hitters = HeavyHitters::with_places(3);
        let key = |end: &str| [&[b'k'; MAX_KEY], end.as_bytes()].concat();
        for (hash, key) in [(1, key("")), (2, key("1")), (3, key("2")), (2, key("1"))] {
            hitters.count(hash, 0, &key, 1);
        }
        let mut counts: Vec<_> = hitters.entries().iter().map(|it| (it.key.len(), it.is_cut, it.count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [(MAX_KEY, false, 1), (MAX_KEY, true, 1), (MAX_KEY, true, 2)]);
        let mut all = HeavyHitters::with_places(3);
        all.count_all(&hitters);
        assert_eq!(found(&all), found(&hitters));
        assert!(all.entries().iter().zip(hitters.entries()).all(|(a, b)| a.is_cut == b.is_cut));
    }

    #[test]
    fn an_empty_table_counts_nothing() {
        let mut hitters = HeavyHitters::with_places(0);
        count(&mut hitters, b"a");
        assert_eq!((found(&hitters).len(), hitters.total(), hitters.error()), (0, 0, 0));
    }
}
