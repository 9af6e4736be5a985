//! Effects: a replica that applies them has the same value and expiry as its primary, bit for bit. Corrupt effects are
//! rejected, or make a valid value.

use limiter::{Algorithm, Decision, Micros, Mode, PerLimit, PolicyName, Quota, Request, Value, MAX_TIME};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use redis_ratelimit::replication::apply::{is_applicable, refund, take, take_policy};
use redis_ratelimit::replication::effect::recreate;
use redis_ratelimit::replication::{Effect, EffectBytes, OpenKey, PolicyEffectBytes};

use crate::models::steps::{algorithms, costs, jumps, moved, quotas, wild, Step, START};
use crate::targets::memory_key::MemoryKey;

fn apply(key: &mut MemoryKey, effect: &[u8]) {
    let effect = Effect::decode(effect).expect("an effect");
    assert!(is_applicable(&effect, key));
    key.apply(effect).expect("applicable");
}

fn recreated(value: &Value) -> MemoryKey {
    let mut key = MemoryKey::default();
    for effect in recreate(value) {
        apply(&mut key, &effect);
    }
    key
}

fn assert_equal(replica: &MemoryKey, primary: &MemoryKey) {
    assert_eq!(replica, primary);
    assert_eq!(replica.value.as_ref().map(Value::canonical_bytes), primary.value.as_ref().map(Value::canonical_bytes));
}

/// Sends the requests to a key, and calls `after` for each: with the key, the step, the time and the decision.
fn run(steps: &[Step], mut after: impl FnMut(&MemoryKey, &Step, Micros, Decision)) {
    let (mut key, mut now) = (MemoryKey::default(), START);
    for step in steps {
        now = moved(now, step.passes);
        let decision = take(&mut key, &step.quota, step.request(now)).expect("one algorithm");
        after(&key, step, now, decision);
    }
}

/// An event of a key with the limits of a policy.
#[derive(Debug, Clone)]
enum Event {
    Request { policy: &'static str, quotas: Vec<Quota>, cost: u64, mode: Mode },
    Refund(u64),
}

/// Events, each with the step of the clock before it.
fn events() -> impl Strategy<Value = Vec<(Event, i64)>> {
    let event = |policies: Vec<Vec<Quota>>| {
        let quotas = prop_oneof![6 => Just(policies[0].clone()), 1 => select(policies)];
        let mode = prop_oneof![5 => Just(Mode::Enforce), 1 => Just(Mode::Force)];
        let policy = prop_oneof![4 => Just("gold"), 1 => Just("silver")];
        prop_oneof![
            5 => (policy, quotas, costs(), mode)
                .prop_map(|(policy, quotas, cost, mode)| Event::Request { policy, quotas, cost, mode }),
            1 => (1..40_u64).prop_map(Event::Refund),
        ]
    };
    let policy = || vec(algorithms().prop_flat_map(quotas), 1..5);
    vec(policy(), 3).prop_flat_map(move |policies| vec((event(policies), jumps()), 1..40))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_replica_of_a_limiter_equals_its_primary(steps in wild(algorithms())) {
        let mut replica = MemoryKey::default();
        run(&steps, |primary, step, now, decision| {
            if decision.taken {
                apply(&mut replica, EffectBytes::take(&step.quota, step.cost, now).as_ref());
                assert_eq!(primary.expires_at, Some(now + decision.reset_after));
            }
            assert_equal(&replica, primary);
        });
    }

    #[test]
    fn a_replica_of_a_policy_equals_its_primary(events in events()) {
        let (mut primary, mut replica, mut now) = (MemoryKey::default(), MemoryKey::default(), START);
        for (event, passes) in events {
            now = moved(now, passes);
            match event {
                Event::Refund(amount) => {
                    if refund(&mut primary, amount, now) {
                        apply(&mut replica, EffectBytes::refund(amount, now).as_ref());
                    }
                }
                Event::Request { policy, quotas, cost, mode } => {
                    let name = PolicyName::new(policy.as_bytes()).expect("a name");
                    let request = Request { cost, mode, now };
                    let verdict = take_policy(&mut primary, &name, &quotas, request, &mut PerLimit::new());
                    if verdict.expect("the limits of a policy").taken {
                        apply(&mut replica, PolicyEffectBytes::take(policy, &quotas, cost, now).as_ref());
                    }
                }
            }
            assert_equal(&replica, &primary);
        }
    }

    #[test]
    fn a_value_is_recreated_from_effects(steps in wild(algorithms())) {
        run(&steps, |key, _, _, _| {
            if let Some(value) = &key.value {
                let recreated = recreated(value).value.expect("a value");
                assert_eq!(&recreated, value);
                assert_eq!(recreated.canonical_bytes(), value.canonical_bytes());
            }
        });
    }

    #[test]
    fn corrupt_effects_are_rejected_or_make_a_value_that_works(
        steps in wild(algorithms()),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        now in prop_oneof![Just(0), Just(MAX_TIME), Just(START), 0..=MAX_TIME],
    ) {
        run(&steps, |key, step, _, decision| {
            let Some(value) = key.value.as_ref().filter(|_| decision.taken) else { return };
            let mut corrupt = MemoryKey::default();
            for mut effect in recreate(value) {
                for (index, byte) in &damage {
                    let index = index.index(effect.len());
                    effect[index] = *byte;
                }
                if let Some(cut) = cut {
                    effect.truncate(cut.index(effect.len()));
                }
                let _ = Effect::decode(&effect).map(|effect| corrupt.apply(effect));
            }
            let Some(value) = &mut corrupt.value else { return };
            for limiter in value.limiters_mut() {
                let quota = limiter.quota();
                for at in [now, START, MAX_TIME, 0] {
                    for quota in [quota, step.quota] {
                        let _ = limiter.request(&quota, step.request(at));
                        let _ = limiter.request(&quota, Request::forced(step.cost, at));
                    }
                }
                limiter.resets_at(now);
            }
            let _ = value.canonical_bytes();
        });
    }

    #[test]
    fn random_bytes_are_rejected_or_make_a_valid_value(bytes in vec(any::<u8>(), 0..80)) {
        if let Ok(Effect::Set(value)) = Effect::decode(&bytes) {
            prop_assert_eq!(recreated(&value).value, Some(value));
        }
    }
}

#[test]
fn effects_decode_to_what_was_encoded() {
    // The largest numbers: an effect of a request has a buffer of constant size.
    let largest = |algorithm: &Algorithm| {
        let parse = |b: &[u8]| Quota::parse(*algorithm, b"9007199254740991", b);
        parse(b"999999999.999999999").or_else(|_| parse(b"3650d")).expect("a quota")
    };
    let quotas: Vec<Quota> = Algorithm::ALL.iter().map(largest).collect();
    let (cost, at) = (9_007_199_254_740_991, MAX_TIME);
    for quota in &quotas {
        let bytes = EffectBytes::take(quota, cost, at);
        assert_eq!(Effect::decode(bytes.as_ref()), Ok(Effect::Take { quota: *quota, cost, at }));
    }
    let bytes = PolicyEffectBytes::take("gold", &quotas, cost, at);
    assert_eq!(Effect::decode(bytes.as_ref()), Ok(Effect::TakePolicy { policy: "gold", quotas, cost, at }));
    let bytes = EffectBytes::refund(cost, at);
    assert_eq!(Effect::decode(bytes.as_ref()), Ok(Effect::Refund { amount: cost, at }));
}

#[test]
fn an_effect_that_does_not_match_changes_nothing() {
    let quota = |algorithm| Quota::parse(algorithm, b"10", b"10").expect("a quota");
    let (bucket, log) = (quota(Algorithm::TokenBucket), quota(Algorithm::SlidingLog));
    let mut key = MemoryKey::default();
    take(&mut key, &log, Request::new(1, START)).expect("taken");
    for effect in
        [EffectBytes::take(&bucket, 1, START).as_ref(), PolicyEffectBytes::take("gold", &[log], 1, START).as_ref()]
    {
        let (before, effect) = (key.clone(), Effect::decode(effect).expect("an effect"));
        assert!(!is_applicable(&effect, &mut key));
        key.apply(effect).expect_err("rejected");
        assert_eq!(key, before);
    }
    let mut missing = MemoryKey::default();
    missing.apply(Effect::Refund { amount: 1, at: START }).expect_err("rejected");
    assert!(missing.value().is_none());
}
