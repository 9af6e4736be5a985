//! Contracts that hold for every sequence of requests, alone and against naive models.

use super::models::steps::{algorithms, assert_within, jumps, moved, steady, wild, Step, START};
use super::models::{limit, retry_ms, span, Bucket, Counter, Log, Model, Naive, Reply, Window};
use limiter::{Algorithm, Decision, Limiter, Micros, Quota, Retry, Unpacked, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Requests with extreme amounts, rates, windows and times, mixed with small ones.
fn vast() -> impl Strategy<Value = (Vec<Step>, Micros)> {
    let amounts = || select(vec![1, 9, (1 << 40) + 1, (1 << 48) - 1, 1 << 48, (1 << 53) - 1]);
    let quotas = move |algorithm| {
        let rates = select(vec!["1", "100/m", "1/3650d", "4294967311/7s", "999999999.999", "7/8w"]);
        let windows = select(vec!["1ms", "1h", "3650d", "3258d", "3257d"]);
        (amounts(), rates, windows).prop_filter_map("a quota out of range", move |(limit, rate, window)| {
            let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
            let b = if is_bucket { rate } else { window };
            Quota::parse(algorithm, limit.to_string().as_bytes(), b.as_bytes()).ok()
        })
    };
    let step = move |quotas: Vec<Quota>| {
        let passes = prop_oneof![3 => jumps(), 1 => 0..400_000_000_000_000_i64];
        (select(quotas), amounts(), any::<bool>(), passes).prop_map(|(quota, cost, force, passes)| Step {
            quota,
            cost,
            force,
            passes,
        })
    };
    let steps = algorithms().prop_flat_map(move |it| vec(quotas(it), 2)).prop_flat_map(move |it| vec(step(it), 1..30));
    (steps, select(vec![START, (1 << 56) - 1_000_000, 1 << 59]))
}

fn request(limiter: &mut Limiter, step: &Step, now: Micros) -> Decision {
    limiter.request(&step.quota, step.request(now)).expect("one algorithm")
}

/// Runs the steps, and calls `after` for each: with the limiter, the step, the time and the decision.
fn run(steps: &[Step], mut after: impl FnMut(&Limiter, &Step, Micros, Decision)) {
    let mut limiter = Limiter::new(&steps[0].quota);
    let mut now = START;
    for step in steps {
        now = moved(now, step.passes);
        let decision = request(&mut limiter, step, now);
        after(&limiter, step, now, decision);
    }
}

fn agrees_with<N: Naive>(steps: &[Step]) {
    let mut model = Model::<N>::new(steps[0].quota);
    run(steps, |_, step, now, decision| {
        let expected = model.request(step.quota, step.cost, step.force, now);
        let reply = decision.to_reply();
        assert_eq!(Reply::from(decision), expected, "at {now}: {step:?}");
        assert_eq!(reply.five[0], i64::from(expected.allowed));
        assert_eq!(reply.five[1], i64::try_from(limit(&step.quota)).expect("fits"));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packed_and_unpacked_limiters_decide_alike((steps, start) in vast()) {
        let mut limiter = Limiter::new(&steps[0].quota);
        let mut unpacked = Unpacked::new(&steps[0].quota);
        let mut now = start;
        for step in &steps {
            now = moved(now, step.passes);
            let decision = unpacked.request(&step.quota, step.request(now)).expect("one algorithm");
            prop_assert_eq!(request(&mut limiter, step, now), decision);
            prop_assert!(limiter == Limiter::from(unpacked.clone()), "{limiter:?} is not {unpacked:?}");
            prop_assert_eq!((limiter.resets_at(now), limiter.quota()), (unpacked.resets_at(now), unpacked.quota()));
        }
    }

    #[test]
    fn a_token_bucket_agrees_with_exact_fractions(steps in wild(Just(Algorithm::TokenBucket))) {
        agrees_with::<Bucket>(&steps);
    }

    #[test]
    fn a_leaky_bucket_agrees_with_exact_fractions(steps in wild(Just(Algorithm::LeakyBucket))) {
        agrees_with::<Bucket>(&steps);
    }

    #[test]
    fn a_fixed_window_agrees_with_a_list(steps in wild(Just(Algorithm::FixedWindow))) {
        agrees_with::<Window>(&steps);
    }

    #[test]
    fn a_sliding_log_agrees_with_a_list(steps in wild(Just(Algorithm::SlidingLog))) {
        agrees_with::<Log>(&steps);
    }

    #[test]
    fn a_sliding_counter_agrees_with_the_formula(steps in wild(Just(Algorithm::SlidingCounter))) {
        agrees_with::<Counter>(&steps);
    }

    #[test]
    fn no_more_is_admitted_than_the_quota_allows(steps in steady()) {
        let mut admitted: Vec<(Micros, u64)> = Vec::new();
        run(&steps, |_, step, now, decision| {
            if decision.allowed {
                admitted.push((now, step.cost));
            }
        });
        assert_within(&steps[0].quota, &admitted);
    }

    #[test]
    fn a_retry_is_denied_a_millisecond_before_the_wait_is_over_and_then_allowed(steps in wild(algorithms())) {
        run(&steps, |limiter, step, now, decision| {
            let again = |at| request(&mut limiter.clone(), &Step { force: false, ..step.clone() }, at).allowed;
            match retry_ms(decision.retry) {
                _ if decision.allowed => assert_eq!(decision.retry, Retry::Now),
                -1 => assert!(step.cost > limit(&step.quota)),
                wait => {
                    let wait = u64::try_from(wait).expect("a wait");
                    assert!(wait > 0, "a denial without a wait");
                    assert!(again(now + wait * 1_000), "still denied after {wait} ms: {step:?}");
                    assert!(!again(now + (wait - 1) * 1_000), "allowed before {wait} ms: {step:?}");
                }
            }
        });
    }

    #[test]
    fn exactly_the_remaining_quota_can_be_taken(steps in wild(algorithms())) {
        run(&steps, |limiter, step, now, decision| {
            let takes = |cost| request(&mut limiter.clone(), &Step { cost, force: false, ..step.clone() }, now).allowed;
            assert!(decision.remaining == 0 || takes(decision.remaining));
            assert!(!takes(decision.remaining + 1));
        });
    }

    #[test]
    fn a_denied_request_changes_nothing(steps in wild(algorithms())) {
        let mut before = Limiter::new(&steps[0].quota);
        run(&steps, |limiter, _, _, decision| {
            if !decision.taken {
                assert_eq!(*limiter, before);
                assert_eq!(Value::Limiter(limiter.clone()).canonical_bytes(), Value::Limiter(before.clone()).canonical_bytes());
            }
            before = limiter.clone();
        });
    }

    #[test]
    fn a_limiter_is_like_new_at_its_reset_time_and_not_before(steps in wild(algorithms())) {
        run(&steps, |limiter, step, now, decision| {
            if !decision.taken {
                return;
            }
            let idle = limiter.resets_at(now);
            let step = Step { force: false, ..step.clone() };
            for later in [0, 1, 777_777] {
                let used = request(&mut limiter.clone(), &step, idle + later);
                let new = request(&mut Limiter::new(&step.quota), &step, idle + later);
                assert_eq!(used, new, "{later} us after the reset");
            }
            assert_eq!(request(&mut limiter.clone(), &Step { cost: 1, ..step.clone() }, idle).remaining, limit(&step.quota) - 1);
            let earlier = request(&mut limiter.clone(), &Step { cost: limit(&step.quota), ..step }, idle - 1);
            assert!(!earlier.allowed, "reset before its reset time");
        });
    }

    #[test]
    fn force_takes_at_most_twice_the_limit_and_resets_within_two_spans(steps in wild(algorithms())) {
        // After a change of the quota the bounds are those of the old one.
        let quota = steps[0].quota;
        let steps: Vec<Step> = steps.into_iter().map(|step| Step { quota, ..step }).collect();
        run(&steps, |limiter, _, now, decision| {
            assert!(limiter.used(now) <= 2 * limit(&quota), "{limiter:?}");
            // A bucket's use may begin and end within a microsecond.
            let round = span(&quota) + 1;
            let behind = limiter.last_changed().unwrap_or(0).saturating_sub(now);
            assert!(decision.reset_after <= 2 * round + behind.min(round), "{decision:?}");
        });
    }
}
