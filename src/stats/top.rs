//! The keys that are denied most often, in the last minute and since counting started.
//!
//! The last minute is six slices of ten seconds: the last fifty to sixty seconds. A denial is counted in the newest slice,
//! which is added to the table of all times when the next slice begins.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

use super::heavy_hitters::{Entry, HeavyHitters};
use limiter::Micros;

/// The length of a slice.
const SLICE: Micros = 10_000_000;
/// The number of slices.
const SLICES: usize = 6;

/// Counts denials by key.
#[derive(Debug)]
pub struct Top {
    places: u16,
    /// What was counted before the newest slice, and the sum of the errors of the slices.
    earlier: HeavyHitters,
    earlier_error: u64,
    slices: [HeavyHitters; SLICES],
    /// The newest slice, numbered since the epoch.
    newest: u64,
    /// Its index.
    place: usize,
    hasher: RandomState,
}

/// Keys ranked by denials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// All denials, including those of keys that are not listed.
    pub denials: u64,
    /// The most by which a count may be too high, and the most denials of a key that is not listed.
    pub error: u64,
    /// The keys by denials, most first, then by name and database.
    pub keys: Vec<DeniedKey>,
}

/// A denied key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedKey {
    /// Its database.
    pub db: i32,
    /// Its name, or the start of it.
    pub name: Vec<u8>,
    /// Whether the name is cut.
    pub is_cut: bool,
    /// How often it was denied.
    pub count: u64,
}

impl Default for Top {
    fn default() -> Self {
        Self::with_places(Self::PLACES)
    }
}

impl Top {
    /// The default number of keys of each table.
    pub const PLACES: u16 = 100;
    /// The maximum.
    pub const MAX_PLACES: u16 = 1_000;

    /// Tables of `places` keys.
    pub fn with_places(places: u16) -> Self {
        let table = || HeavyHitters::with_places(places);
        let slices = std::array::from_fn(|_| table());
        Self { places, earlier: table(), earlier_error: 0, slices, newest: 0, place: 0, hasher: RandomState::default() }
    }

    /// The number of keys of each table.
    pub const fn places(&self) -> u16 {
        self.places
    }

    /// Sets the number of keys of each table. A change starts counting at zero.
    pub fn set_places(&mut self, places: u16) {
        if places != self.places {
            *self = Self::with_places(places);
        }
    }

    /// Starts counting at zero.
    pub fn reset(&mut self) {
        *self = Self::with_places(self.places);
    }

    /// Counts a denial.
    pub fn denied(&mut self, db: i32, key: &[u8], now: Micros) {
        self.move_to(now);
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        // Tells apart keys of the same name in several databases.
        let hash = hasher.finish().wrapping_add(u64::from(db.cast_unsigned()));
        self.slices[self.place].count(hash, db, key, 1);
    }

    /// Makes the slice of `now` the newest, and drops slices that are too old.
    fn move_to(&mut self, now: Micros) {
        let slice = now / SLICE;
        // A small step back of the clock changes nothing.
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
            // After a larger step back, slices in the future would stay for too long.
            self.slices.iter_mut().for_each(|table| *table = HeavyHitters::with_places(self.places));
        }
        for passed in (self.newest + 1..=slice).rev().take(SLICES) {
            self.slices[place(passed)] = HeavyHitters::with_places(self.places);
        }
        (self.newest, self.place) = (slice, place(slice));
    }

    /// The keys that were denied since counting started.
    pub fn all_time(&self) -> Ranking {
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
    fn the_last_minute_forgets_and_the_total_does_not() {
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
        assert_eq!(keys(&top.all_time()), [("early", 30), ("late", 15)]);
        assert_eq!((top.all_time().denials, top.all_time().error), (45, 0));
    }

    #[test]
    fn after_a_long_pause_the_last_minute_is_empty() {
        let mut top = Top::default();
        top.denied(0, b"key", NOW);
        assert_eq!(keys(&top.last_minute(NOW + 1_000_000 * SECOND)), []);
        top.denied(0, b"key", NOW + 1_000_000 * SECOND);
        assert_eq!(keys(&top.last_minute(NOW + 1_000_000 * SECOND)), [("key", 1)]);
    }

    #[test]
    fn a_step_back_of_the_clock_leaves_nothing_in_the_future() {
        let mut top = Top::default();
        top.denied(0, b"key", NOW + 1_000 * SECOND);
        top.denied(0, b"other", NOW);
        assert_eq!(keys(&top.last_minute(NOW)), [("other", 1)]);
        assert_eq!(keys(&top.last_minute(NOW + 1_000 * SECOND)), []);
        assert_eq!(keys(&top.all_time()), [("key", 1), ("other", 1)]);
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
    fn keys_of_the_same_name_in_several_databases_are_counted_apart() {
        let mut top = Top::default();
        for db in [0, 1, 1, 15] {
            top.denied(db, b"key", NOW);
        }
        for ranking in [top.last_minute(NOW), top.all_time()] {
            let counts: Vec<_> = ranking.keys.iter().map(|key| (key.db, key.count)).collect();
            assert_eq!(counts, [(1, 2), (0, 1), (15, 1)]);
        }
    }

    #[test]
    fn a_change_of_the_size_starts_counting_at_zero() {
        let mut top = Top::default();
        top.denied(0, b"key", NOW);
        top.set_places(Top::PLACES);
        assert_eq!(keys(&top.all_time()), [("key", 1)]);
        top.set_places(2);
        assert_eq!(top.all_time(), Ranking::default());
        top.set_places(0);
        top.denied(0, b"key", NOW);
        assert_eq!(top.all_time(), Ranking::default());
    }
}
