//! Steps back of the clock. After a step of up to one span (a window, or the time in which a bucket fills), time stands
//! still for the limiter. After a longer step the limiter is reset.

use super::models::span;
use super::models::steps::{algorithms, assert_within, costs, mode, moved, quotas, waits, wild, Step, START};
use limiter::{Algorithm, Decision, Limiter, Micros, Quota, Request, Retry};
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: Micros = 1_000_000;
const YEAR: Micros = 365 * 86_400 * SECOND;

fn quota(algorithm: Algorithm, a: &str, b: &str) -> Quota {
    Quota::parse(algorithm, a.as_bytes(), b.as_bytes()).expect("a valid quota")
}

fn request(limiter: &mut Limiter, quota: &Quota, cost: u64, force: bool, now: Micros) -> Decision {
    limiter.request(quota, Request { cost, mode: mode(force), now }).expect("one algorithm")
}

/// Requests to one key with one quota; `clock` makes the steps of the clock.
fn steps_with<C: Strategy<Value = i64>>(clock: fn() -> C, force: f64) -> impl Strategy<Value = Vec<Step>> {
    let step = move |quota| {
        (costs(), prop::bool::weighted(force), clock()).prop_map(move |(cost, force, passes)| Step {
            quota,
            cost,
            force,
            passes,
        })
    };
    algorithms().prop_flat_map(quotas).prop_flat_map(move |quota| vec(step(quota), 1..40))
}

/// The same decision on a clock that is `behind`: every wait is longer by that.
fn delayed_by(decision: Decision, behind: Micros) -> Decision {
    let longer = |wait: Micros| if wait > 0 { wait + behind } else { 0 };
    Decision {
        retry: match decision.retry {
            Retry::After(wait) => Retry::After(longer(wait)),
            other => other,
        },
        reset_after: longer(decision.reset_after),
        ..decision
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn after_a_step_back_within_the_span_time_stands_still(steps in steps_with(waits, 0.15), cost in costs(), amount in 1..40_u64) {
        let quota = steps[0].quota;
        let mut limiter = Limiter::new(&quota);
        let mut now = START;
        for step in &steps {
            now = moved(now, step.passes);
            request(&mut limiter, &quota, step.cost, step.force, now);
            let Some(last) = limiter.last_changed() else { continue };
            for behind in [1, 2, 999, span(&quota) / 2, span(&quota) - 1, span(&quota)] {
                let behind = behind.min(span(&quota));
                let seen = |cost| limiter.peek(&quota, cost, last - behind).expect("one algorithm");
                let stood = |cost| limiter.peek(&quota, cost, last).expect("one algorithm");
                prop_assert_eq!(seen(cost), delayed_by(stood(cost), behind));
                prop_assert_eq!(limiter.used(last - behind), limiter.used(last));
                for force in [false, true] {
                    let (mut back, mut still) = (limiter.clone(), limiter.clone());
                    let decision = request(&mut back, &quota, cost, force, last - behind);
                    prop_assert_eq!(decision, delayed_by(request(&mut still, &quota, cost, force, last), behind));
                    prop_assert_eq!(&back, &still);
                }
                let (mut back, mut still) = (limiter.clone(), limiter.clone());
                prop_assert_eq!(back.refund(amount, last - behind), still.refund(amount, last));
                prop_assert_eq!(&back, &still);
                let (mut back, mut still) = (limiter.clone(), limiter.clone());
                back.request(&quota, Request::forced(cost, last - behind)).expect("one algorithm");
                still.request(&quota, Request::forced(cost, last)).expect("one algorithm");
                prop_assert_eq!(&back, &still);
            }
        }
    }

    #[test]
    fn after_a_step_back_beyond_the_span_the_limiter_is_reset(steps in steps_with(waits, 0.15), cost in costs()) {
        let quota = steps[0].quota;
        let mut limiter = Limiter::new(&quota);
        let mut now = START;
        for step in &steps {
            now = moved(now, step.passes);
            request(&mut limiter, &quota, step.cost, step.force, now);
            let Some(last) = limiter.last_changed() else { continue };
            for behind in [span(&quota) + 1, 2 * span(&quota) + 1, YEAR, last] {
                if behind <= span(&quota) {
                    continue;
                }
                let now = last - behind;
                let (mut back, mut fresh) = (limiter.clone(), Limiter::new(&quota));
                prop_assert_eq!(back.peek_current(cost, now), fresh.peek_current(cost, now));
                prop_assert_eq!(back.used(now), 0);
                prop_assert!(!back.refund(1, now), "nothing to refund");
                prop_assert_eq!(&back, &limiter);
                let decision = request(&mut back, &quota, cost, false, now);
                prop_assert_eq!(decision, request(&mut fresh, &quota, cost, false, now));
                prop_assert_eq!(&back, if decision.taken { &fresh } else { &limiter }, "a denial changes nothing");
            }
        }
    }

    #[test]
    fn steps_back_within_the_span_admit_no_more_than_the_quota(
        steps in steps_with(|| prop_oneof![waits(), -3..0_i64, -3_000..0_i64, -7_200_000_000..0_i64], 0.0),
    ) {
        let quota = steps[0].quota;
        let mut limiter = Limiter::new(&quota);
        let (mut now, mut latest) = (START, START);
        let mut admitted = Vec::new();
        for step in &steps {
            let last = limiter.last_changed().unwrap_or(0);
            now = moved(now, step.passes).max(last.saturating_sub(span(&quota)));
            latest = latest.max(now);
            if request(&mut limiter, &quota, step.cost, false, now).allowed {
                // The time at which a cost counts never goes back, and never beyond the latest time of the clock.
                let counted = limiter.last_changed().expect("something was taken");
                prop_assert!((last..=latest).contains(&counted));
                admitted.push((counted, step.cost));
            }
        }
        assert_within(&quota, &admitted);
    }

    #[test]
    fn waits_after_a_step_back_are_bounded_by_the_span_and_the_step(steps in wild(algorithms()), force in any::<bool>()) {
        let mut limiter = Limiter::new(&steps[0].quota);
        let mut now = START;
        let rounds = if force { 2 } else { 1 };
        for step in &steps {
            now = moved(now, step.passes);
            request(&mut limiter, &step.quota, step.cost, force && step.force, now);
            let behind = limiter.last_changed().unwrap_or(0).saturating_sub(now);
            // The same with another quota, whose limit may be lower.
            for Step { quota, .. } in &steps {
                if let Retry::After(wait) = limiter.peek(quota, 1, now).expect("one algorithm").retry {
                    // Plus one microsecond: a fraction of a token, or the first moment at which a count fades.
                    let longest = rounds * (span(quota) + 1) + behind;
                    prop_assert!(behind <= span(quota) && wait <= longest, "{wait} us, expected at most {longest}");
                }
            }
        }
    }
}

/// With a limit of ten, each resets fully after ten seconds.
const QUOTAS: [(Algorithm, &str); 5] = [
    (Algorithm::TokenBucket, "1"),
    (Algorithm::LeakyBucket, "1"),
    (Algorithm::FixedWindow, "10s"),
    (Algorithm::SlidingLog, "10s"),
    (Algorithm::SlidingCounter, "10s"),
];

#[test]
fn a_step_back_admits_nothing_extra_or_exactly_one_limit() {
    let steps = [1, 999, 1_000, SECOND, 9_999_999, 10_000_000, 10_000_001, 60 * SECOND, 3_600 * SECOND, YEAR, START];
    for (algorithm, pace) in QUOTAS {
        for (limit, pace) in [("10", pace), ("1", if pace == "1" { "0.1" } else { pace })] {
            let quota = quota(algorithm, limit, pace);
            let limit = super::models::limit(&quota);
            for (step, debt) in steps.into_iter().flat_map(|step| [(step, false), (step, true)]) {
                let mut limiter = Limiter::new(&quota);
                request(&mut limiter, &quota, limit, false, START);
                if debt {
                    request(&mut limiter, &quota, limit, true, START);
                }
                let now = START - step;
                let mut extra = 0;
                let wait = loop {
                    match request(&mut limiter, &quota, 1, false, now).retry {
                        Retry::Now => extra += 1,
                        Retry::After(wait) => break wait,
                        Retry::Never => panic!("a cost of one"),
                    }
                };
                let is_reset = step > 10 * SECOND;
                let shown = format!("{quota:?}, {step} us back, in debt: {debt}");
                assert_eq!(extra, if is_reset { limit } else { 0 }, "{shown}");
                let longest = 10 * SECOND * if debt && !is_reset { 2 } else { 1 } + 1;
                assert!(wait <= longest + if is_reset { 0 } else { step }, "{shown}: blocked for {wait}");
                assert!(!request(&mut limiter, &quota, 1, false, now + wait - 1).allowed, "{shown}");
                assert!(request(&mut limiter, &quota, 1, false, now + wait).allowed, "{shown}");
            }
        }
    }
}

#[test]
fn many_small_steps_back_add_up_to_one_long_step() {
    for (algorithm, pace) in QUOTAS {
        // Costs that are taken in between count at the time that stands still.
        let steps = quota(algorithm, "12", if pace == "1" { "1.2" } else { pace });
        let mut limiter = Limiter::new(&steps);
        assert!(request(&mut limiter, &steps, 1, false, START).allowed);
        for step in 1..=10 {
            assert_eq!(
                request(&mut limiter, &steps, 1, false, START - step * SECOND).remaining,
                11 - step,
                "{algorithm:?}"
            );
        }
        assert_eq!(request(&mut limiter, &steps, 1, false, START - 11 * SECOND).remaining, 11, "{algorithm:?}");

        let quota = quota(algorithm, "10", pace);
        let mut limiter = Limiter::new(&quota);
        assert!(request(&mut limiter, &quota, 10, false, START).allowed);
        for step in 1..=10_000 {
            assert!(!request(&mut limiter, &quota, 1, false, START - step * 1_000).allowed, "{algorithm:?} {step} ms");
        }
        assert!(request(&mut limiter, &quota, 10, false, START - 10 * SECOND - 1).allowed, "{algorithm:?}");
        assert!(!request(&mut limiter, &quota, 1, false, START - 10 * SECOND - 1).allowed, "{algorithm:?}");
    }
}

#[test]
fn an_unused_limiter_resets_at_once_after_a_step_back() {
    for (algorithm, pace) in QUOTAS {
        let mut limiter = Limiter::new(&quota(algorithm, "10", pace));
        assert!(request(&mut limiter, &quota(algorithm, "10", pace), 3, false, START).allowed);
        assert!(limiter.resets_at(START) > START, "{algorithm:?}");
        let long_before = START - 10 * SECOND - 1;
        assert!(limiter.resets_at(long_before) <= long_before, "{algorithm:?}: {}", limiter.resets_at(long_before));
        let before = START - 10 * SECOND;
        assert!(limiter.refund(3, before));
        assert!(limiter.resets_at(before) <= before, "{algorithm:?}: {}", limiter.resets_at(before));
    }
}

#[test]
fn a_step_back_keeps_or_drops_all_entries_of_a_long_log() {
    let quota = quota(Algorithm::SlidingLog, "20000", "10s");
    let mut limiter = Limiter::new(&quota);
    for i in 0..18_000 {
        assert!(request(&mut limiter, &quota, 1, false, START + i * 500).allowed);
    }
    let (last, now) = (START + 17_999 * 500, START + 3 * SECOND);
    // All entries still count, also those that are in the future now. The new cost counts at the time of the last one.
    assert_eq!(request(&mut limiter, &quota, 1_000, false, now).remaining, 1_000);
    let denied = request(&mut limiter, &quota, 1_001, false, now);
    assert_eq!(denied.retry, Retry::After(START + 10 * SECOND - now), "the oldest entry expires first");
    assert_eq!(denied.reset_after, last + 10 * SECOND - now);
    let entries: Vec<_> = limiter.entries().expect("a log").iter().collect();
    assert_eq!((entries.len(), entries[18_000].time), (18_001, last));
    assert_eq!(request(&mut limiter, &quota, 20_000, false, last - 10 * SECOND - 1).remaining, 0);
    assert_eq!(limiter.entries().expect("a log").len(), 1);
}
