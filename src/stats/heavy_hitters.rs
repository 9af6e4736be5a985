//! The most frequent of any number of keys, in a fixed number of places.
//!
//! The sketch is known as Space-Saving. A key that has a place is counted. One that has none takes the place of the one
//! with the lowest count, and goes on from that count, as it may have been there before. So no count is ever too low, none
//! is too high by more than the lowest, and as the counts add up to all that was counted, that is at most the share
//! of one place: with a hundred places, a hundredth. Whoever was counted more often than that has a place.

use std::mem;

/// The most bytes of a key that are kept.
const MAX_KEY: usize = 128;

/// Counts keys.
#[derive(Debug, Default)]
pub struct HeavyHitters {
    places: usize,
    entries: Vec<Entry>,
    index: Index,
    /// How often anything was counted.
    total: u64,
    /// No count is lower.
    lowest: u64,
    /// Where to look for the lowest count.
    cursor: usize,
    /// Whether a key had to go.
    is_full: bool,
}

/// A key that has a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Stands for the key: no two keys have the same, as far as anybody will ever see.
    pub hash: u64,
    /// The database that the key is in.
    pub db: i32,
    /// The key, or the beginning of it.
    pub key: Vec<u8>,
    /// Whether it is only the beginning.
    pub is_cut: bool,
    /// How often it was counted.
    pub count: u64,
    /// The next entry in the same list of the index.
    next: Option<u16>,
}

impl Entry {
    /// Makes it stand for another key, in the memory that it has.
    fn set_key(&mut self, hash: u64, db: i32, key: &[u8]) {
        let kept = &key[..key.len().min(MAX_KEY)];
        (self.hash, self.db, self.is_cut) = (hash, db, kept.len() < key.len());
        self.key.clear();
        self.key.reserve_exact(kept.len());
        self.key.extend_from_slice(kept);
    }
}

impl HeavyHitters {
    /// Has so many places; none counts nothing.
    pub fn with_places(places: u16) -> Self {
        Self { places: places.into(), ..Self::default() }
    }

    /// Counts a key of a database, which has this hash, so many times.
    #[inline]
    pub fn count(&mut self, hash: u64, db: i32, key: &[u8], times: u64) {
        if let Some(entry) = self.place_of(hash, db, key, times) {
            entry.count += times;
        }
    }

    /// The place of a key that is counted so many times: its own, or one that becomes its own.
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

    /// An entry with the lowest count. As counts only grow, it is enough to look on from where the last one was: after a
    /// round without finding any, the lowest count is a higher one. So all rounds together are no more steps than was
    /// counted.
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

    /// How often anything was counted.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// By how much a count may be too high, and how often a key may have been counted that is not there.
    pub fn error(&self) -> u64 {
        if self.is_full {
            self.entries.iter().map(|entry| entry.count).min().unwrap_or(0)
        } else {
            0
        }
    }

    /// The keys that have a place.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Counts all that another has counted.
    pub fn count_all(&mut self, other: &Self) {
        for Entry { hash, db, key, is_cut, count, .. } in &other.entries {
            if let Some(entry) = self.place_of(*hash, *db, key, *count) {
                entry.count += count;
                entry.is_cut = *is_cut;
            }
        }
    }
}

/// Finds entries by their hash: lists of entries, each of which knows the next. Every denial comes by here, for which this
/// takes a few instructions, where a map of any keys takes some hundred.
#[derive(Debug, Default)]
struct Index {
    /// Where each list begins; a power of two, or none as long as there are no entries.
    first: Vec<Option<u16>>,
}

impl Index {
    #[allow(clippy::cast_possible_truncation)] // the lowest bits are what is wanted
    const fn list(&self, hash: u64) -> usize {
        hash as usize & (self.first.len() - 1)
    }

    fn find(&self, hash: u64, entries: &[Entry]) -> Option<usize> {
        if self.first.is_empty() {
            return None;
        }
        let mut next = self.first[self.list(hash)];
        while let Some(at) = next {
            let entry = &entries[usize::from(at)];
            if entry.hash == hash {
                return Some(at.into());
            }
            next = entry.next;
        }
        None
    }

    /// Adds an entry, of which there will be so many.
    fn add(&mut self, at: usize, entries: &mut [Entry], most: usize) {
        if self.first.is_empty() {
            self.first = vec![None; (2 * most).next_power_of_two()];
        }
        let entry = &mut entries[at];
        let list = self.list(entry.hash);
        entry.next = mem::replace(&mut self.first[list], u16::try_from(at).ok());
    }

    fn remove(&mut self, at: usize, entries: &mut [Entry]) {
        let (list, after) = (self.list(entries[at].hash), entries[at].next);
        let (mut before, mut next) = (None, self.first[list]);
        while let Some(found) = next.map(usize::from).filter(|&found| found != at) {
            (before, next) = (Some(found), entries[found].next);
        }
        match before {
            None => self.first[list] = after,
            Some(before) => entries[before].next = after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: &[u8]) -> u64 {
        // Of the lowest bits few are used, so that keys share lists.
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
    fn as_long_as_there_is_room_all_is_exact() {
        let mut hitters = HeavyHitters::with_places(3);
        for key in ["a", "b", "a", "c", "a", "b"] {
            count(&mut hitters, key.as_bytes());
        }
        assert_eq!(found(&hitters), [("a".to_owned(), 3), ("b".to_owned(), 2), ("c".to_owned(), 1)]);
        assert_eq!((hitters.total(), hitters.error()), (6, 0));
    }

    #[test]
    fn a_newcomer_goes_on_from_the_lowest_count() {
        let mut hitters = HeavyHitters::with_places(2);
        for key in ["a", "a", "a", "b", "c"] {
            count(&mut hitters, key.as_bytes());
        }
        assert_eq!(found(&hitters), [("a".to_owned(), 3), ("c".to_owned(), 2)]);
        assert_eq!(hitters.error(), 2);
    }

    #[test]
    fn long_keys_are_cut_and_told_apart() {
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
    fn without_places_nothing_is_counted() {
        let mut hitters = HeavyHitters::with_places(0);
        count(&mut hitters, b"a");
        assert_eq!((found(&hitters).len(), hitters.total(), hitters.error()), (0, 0, 0));
    }
}
