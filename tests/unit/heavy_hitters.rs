//! Property tests of the sketches behind `RL.TOP` against exact counts: no count is off by more than the reported
//! error, and the error is within its bound.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use limiter::Micros;
use proptest::collection::vec;
use proptest::prelude::*;
use redis_ratelimit::stats::{HeavyHitters, Ranking, Top};

const START: Micros = 1_790_000_000_000_000;
/// The last minute consists of [`SLICES`] of this length.
const SLICE: Micros = 10_000_000;
const SLICES: u64 = 6;

/// Keys, a few of them frequent.
fn keys() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0..3_u16, 2 => 3..12_u16, 2 => 12..200_u16]
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn exact(keys: impl Iterator<Item = u16>) -> BTreeMap<Vec<u8>, u64> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(name(key)).or_default() += 1;
    }
    counts
}

fn name(key: u16) -> Vec<u8> {
    format!("key:{key}").into_bytes()
}

/// Checks that all counts are within the reported error.
fn assert_close(ranking: &Ranking, truth: &BTreeMap<Vec<u8>, u64>) {
    assert_eq!(ranking.denials, truth.values().sum::<u64>());
    let counts: BTreeMap<_, _> = ranking.keys.iter().map(|key| (key.name.clone(), key.count)).collect();
    assert_eq!(counts.len(), ranking.keys.len(), "a key is listed twice");
    assert!(ranking.keys.is_sorted_by_key(|key| std::cmp::Reverse(key.count)));
    for key in counts.keys().chain(truth.keys()) {
        let (count, exact) = (counts.get(key).copied(), truth.get(key).copied());
        let off = count.unwrap_or(0).abs_diff(exact.unwrap_or(0));
        assert!(off <= ranking.error, "{count:?}, expected {exact:?} within {}", ranking.error);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_table_never_counts_too_low_and_too_high_by_at_most_its_error(
        places in 1..20_u16,
        stream in vec((keys(), 1..4_u64), 0..600),
    ) {
        let mut table = HeavyHitters::with_places(places);
        let mut truth: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (key, times) in stream {
            table.count(hash(&name(key)), 0, &name(key), times);
            *truth.entry(name(key)).or_default() += times;

            let found: BTreeMap<&[u8], u64> = table.entries().iter().map(|it| (&*it.key, it.count)).collect();
            prop_assert!(found.len() <= usize::from(places));
            prop_assert_eq!(found.values().sum::<u64>(), table.total());
            prop_assert!(table.error() <= table.total() / u64::from(places));
            prop_assert!(truth.len() > usize::from(places) || table.error() == 0, "no error while all keys fit");
            for (key, &times) in &truth {
                match found.get(key.as_slice()) {
                    Some(&count) => prop_assert!((times..=times + table.error()).contains(&count)),
                    None => prop_assert!(times <= table.error()),
                }
            }
        }
    }

    #[test]
    fn the_last_minute_and_all_time_are_off_by_at_most_their_error(
        places in 1..20_u16,
        stream in vec((keys(), prop_oneof![5 => 0..100_000_u64, 1 => 0..30_000_000_u64]), 0..400),
    ) {
        let mut top = Top::with_places(places);
        let (mut seen, mut now) = (Vec::new(), START);
        for (key, passes) in stream {
            now += passes;
            top.denied(0, &name(key), now);
            seen.push((key, now));
        }
        for later in [0, 5_000_000, 30_000_000, 61_000_000] {
            let oldest = ((now + later) / SLICE + 1 - SLICES) * SLICE;
            let last_minute = top.last_minute(now + later);
            assert_close(&last_minute, &exact(seen.iter().filter(|it| it.1 >= oldest).map(|it| it.0)));
            prop_assert!(last_minute.error <= last_minute.denials / u64::from(places));
            prop_assert!(later < 60_000_000 || last_minute.denials == 0);

            let all_time = top.all_time();
            assert_close(&all_time, &exact(seen.iter().map(|it| it.0)));
            prop_assert!(all_time.error <= 2 * all_time.denials / u64::from(places));
        }
    }
}
