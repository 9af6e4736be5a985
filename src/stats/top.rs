//! Who is denied most: in the last minute, and since it is counted.
//!
//! The last minute is six tables of ten seconds, of which the oldest is given up as time goes on. So it is what happened
//! in the last fifty to sixty seconds. A denial is counted in the newest; what that has come to is added to the table of
//! all times when the next begins.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

use super::heavy_hitters::{Entry, HeavyHitters};
use crate::limiter::Micros;

/// How long a slice of the last minute is.
const SLICE: Micros = 10_000_000;
/// How many there are.
const SLICES: usize = 6;

/// Counts the denials of keys.
#[derive(Debug)]
pub struct Top {
    places: u16,
    /// What was counted before the newest slice, and by how much the slices may have been wrong.
    earlier: HeavyHitters,
    earlier_error: u64,
    slices: [HeavyHitters; SLICES],
    /// The number of the slice in which something was last counted, since the epoch.
    newest: u64,
    /// Where that slice is.
    place: usize,
    hasher: RandomState,
}

/// Keys by how often they were denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// All denials, also of keys that are not there.
    pub denials: u64,
    /// By how much a count may be off, and how often a key may have been denied that is not there.
    pub error: u64,
    /// The keys with their counts, the most often denied first; of equal ones in the order of their names and databases.
    pub keys: Vec<DeniedKey>,
}

/// A key that was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedKey {
    /// The database in which it was denied.
    pub db: i32,
    /// Its name, or the beginning of it.
    pub name: Vec<u8>,
    /// Whether it is only the beginning.
    pub is_cut: bool,
    /// How often.
    pub count: u64,
}

impl Default for Top {
    fn default() -> Self {
        Self::with_places(Self::PLACES)
    }
}

impl Top {
    /// How many places each table has, unless somebody wants it otherwise.
    pub const PLACES: u16 = 100;
    /// The most that it can have.
    pub const MAX_PLACES: u16 = 1_000;

    /// Tables of so many places.
    pub fn with_places(places: u16) -> Self {
        let table = || HeavyHitters::with_places(places);
        let slices = std::array::from_fn(|_| table());
        Self { places, earlier: table(), earlier_error: 0, slices, newest: 0, place: 0, hasher: RandomState::default() }
    }

    /// How many places each table has.
    pub const fn places(&self) -> u16 {
        self.places
    }

    /// Gives the tables so many places; if that is another number, it is counted from zero.
    pub fn set_places(&mut self, places: u16) {
        if places != self.places {
            *self = Self::with_places(places);
        }
    }

    /// Counts from zero.
    pub fn reset(&mut self) {
        *self = Self::with_places(self.places);
    }

    /// Counts a denial of a key in a database.
    pub fn denied(&mut self, db: i32, key: &[u8], now: Micros) {
        self.move_to(now);
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        // Hashes of names are so far apart that a small number keeps those of a name in several databases apart.
        let hash = hasher.finish().wrapping_add(u64::from(db.cast_unsigned()));
        self.slices[self.place].count(hash, db, key, 1);
    }

    /// Makes the slice of `now` the newest, and gives up what is too old.
    fn move_to(&mut self, now: Micros) {
        let slice = now / SLICE;
        // A clock that steps back a little leaves things where they are.
        let is_newest = slice == self.newest || (slice < self.newest && self.newest - slice < SLICES as u64);
        if !is_newest {
            self.begin(slice);
        }
    }

    #[cold]
    fn begin(&mut self, slice: u64) {
        let ended = &self.slices[self.place];
        self.earlier.count_all(ended);
        self.earlier_error += ended.error();
        if slice < self.newest {
            // The clock was turned back by more; what is in the future would stay for as long.
            self.slices.iter_mut().for_each(|table| *table = HeavyHitters::with_places(self.places));
        }
        for passed in (self.newest + 1..=slice).rev().take(SLICES) {
            self.slices[place(passed)] = HeavyHitters::with_places(self.places);
        }
        (self.newest, self.place) = (slice, place(slice));
    }

    /// The keys that were denied since it is counted.
    pub fn ever(&self) -> Ranking {
        let mut ranking = rank([&self.earlier, &self.slices[self.place]].into_iter());
        ranking.error += self.earlier_error;
        ranking
    }

    /// The keys that were denied in the last minute.
    pub fn last_minute(&mut self, now: Micros) -> Ranking {
        self.move_to(now);
        rank(self.slices.iter())
    }
}

#[allow(clippy::cast_possible_truncation)] // below the number of slices
const fn place(slice: u64) -> usize {
    (slice % SLICES as u64) as usize
}

fn rank<'a>(tables: impl Iterator<Item = &'a HeavyHitters>) -> Ranking {
    let mut ranking = Ranking::default();
    let mut keys: HashMap<u64, DeniedKey> = HashMap::new();
    for table in tables {
        ranking.denials += table.total();
        ranking.error += table.error();
        for Entry { hash, db, key, is_cut, count, .. } in table.entries() {
            let new = || DeniedKey { db: *db, name: key.clone(), is_cut: *is_cut, count: 0 };
            keys.entry(*hash).or_insert_with(new).count += count;
        }
    }
    ranking.keys = keys.into_values().collect();
    let order = |a: &DeniedKey, b: &DeniedKey| (b.count, &a.name, a.db).cmp(&(a.count, &b.name, b.db));
    ranking.keys.sort_unstable_by(order);
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = 1_790_000_000_000_000;
    const SECOND: Micros = 1_000_000;

    fn keys(ranking: &Ranking) -> Vec<(&str, u64)> {
        ranking.keys.iter().map(|key| (std::str::from_utf8(&key.name).expect("text"), key.count)).collect()
    }

    #[test]
    fn the_last_minute_forgets_and_the_rest_does_not() {
        let mut top = Top::default();
        for second in 0..30 {
            top.denied(0, b"early", NOW + second * SECOND);
        }
        for second in 30..45 {
            top.denied(0, b"late", NOW + second * SECOND);
        }
        assert_eq!(keys(&top.last_minute(NOW + 45 * SECOND)), [("early", 30), ("late", 15)]);
        assert_eq!(keys(&top.last_minute(NOW + 79 * SECOND)), [("late", 15), ("early", 10)]);
        assert_eq!(keys(&top.last_minute(NOW + 90 * SECOND)), [("late", 5)]);
        assert_eq!(keys(&top.last_minute(NOW + 105 * SECOND)), []);
        assert_eq!(keys(&top.ever()), [("early", 30), ("late", 15)]);
        assert_eq!((top.ever().denials, top.ever().error), (45, 0));
    }

    #[test]
    fn what_is_told_after_a_long_pause_is_of_the_last_minute() {
        let mut top = Top::default();
        top.denied(0, b"key", NOW);
        assert_eq!(keys(&top.last_minute(NOW + 1_000_000 * SECOND)), []);
        top.denied(0, b"key", NOW + 1_000_000 * SECOND);
        assert_eq!(keys(&top.last_minute(NOW + 1_000_000 * SECOND)), [("key", 1)]);
    }

    #[test]
    fn a_clock_that_is_turned_back_leaves_nothing_for_later() {
        let mut top = Top::default();
        top.denied(0, b"key", NOW + 1_000 * SECOND);
        top.denied(0, b"other", NOW);
        assert_eq!(keys(&top.last_minute(NOW)), [("other", 1)]);
        assert_eq!(keys(&top.last_minute(NOW + 1_000 * SECOND)), []);
        assert_eq!(keys(&top.ever()), [("key", 1), ("other", 1)]);
    }

    #[test]
    fn a_small_step_back_changes_nothing() {
        let mut top = Top::default();
        let edge = NOW / SLICE * SLICE;
        for second in 0..51 {
            top.denied(0, b"key", edge - second * SECOND);
        }
        top.denied(0, b"key", edge - 1);
        assert_eq!(keys(&top.last_minute(edge)), [("key", 52)]);
    }

    #[test]
    fn a_key_of_the_same_name_in_another_database_is_another() {
        let mut top = Top::default();
        for db in [0, 1, 1, 15] {
            top.denied(db, b"key", NOW);
        }
        for ranking in [top.last_minute(NOW), top.ever()] {
            let counts: Vec<_> = ranking.keys.iter().map(|key| (key.db, key.count)).collect();
            assert_eq!(counts, [(1, 2), (0, 1), (15, 1)]);
        }
    }

    #[test]
    fn another_size_counts_from_zero_and_the_same_goes_on() {
        let mut top = Top::default();
        top.denied(0, b"key", NOW);
        top.set_places(Top::PLACES);
        assert_eq!(keys(&top.ever()), [("key", 1)]);
        top.set_places(2);
        assert_eq!(top.ever(), Ranking::default());
        top.set_places(0);
        top.denied(0, b"key", NOW);
        assert_eq!(top.ever(), Ranking::default());
    }
}
