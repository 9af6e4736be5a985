//! Peeking, giving back, and several limits at once: contracts that hold for every sequence of them, and naive models.

use super::models::steps::{algorithms, costs, jumps, mode, moved, quotas, waits, wild, START};
use super::models::{AnyModel, Told};
use limiter::{
    Decision, DecodeError, Limiter, Micros, PerLimit, PolicyLimits, PolicyName, Quota, RdbReader, RdbWriter, Request,
    Retry, Value, Verdict,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What the policy is called.
const NAME: &str = "policy";

/// Something that happens to a key with the limits of a policy.
#[derive(Debug, Clone)]
enum Deed {
    Request { policy: Vec<Quota>, cost: u64, force: bool },
    Refund(u64),
}

/// What happens, and how far the clock moves before it.
type Story = Vec<(Deed, i64)>;

fn policy() -> impl Strategy<Value = Vec<Quota>> {
    vec(algorithms().prop_flat_map(quotas), 1..5)
}

/// Requests under one policy, which is sometimes another, and what is given back.
fn stories() -> impl Strategy<Value = Story> {
    stories_with(jumps)
}

/// The same on a clock that moves like this.
fn stories_with<C: Strategy<Value = i64>>(clock: fn() -> C) -> impl Strategy<Value = Story> {
    let deed = |policies: Vec<Vec<Quota>>| {
        let policy = prop_oneof![6 => Just(policies[0].clone()), 1 => select(policies)];
        prop_oneof![
            5 => (policy, costs(), prop::bool::weighted(0.15))
                .prop_map(|(policy, cost, force)| Deed::Request { policy, cost, force }),
            1 => (1..40_u64).prop_map(Deed::Refund),
        ]
    };
    vec(policy(), 3).prop_flat_map(move |policies| vec((deed(policies), clock()), 1..40))
}

/// The limits of a policy, naively: a model in each place.
#[derive(Clone, Default)]
struct NaivePolicy(Vec<AnyModel>);

impl NaivePolicy {
    fn request(&mut self, policy: &[Quota], cost: u64, force: bool, now: Micros) -> Vec<Told> {
        let in_place = |(place, quota): (usize, &Quota)| {
            let value = self.0.get(place).filter(|model| model.quota().algorithm() == quota.algorithm());
            value.cloned().unwrap_or_else(|| AnyModel::new(*quota))
        };
        let mut models: Vec<AnyModel> = policy.iter().enumerate().map(in_place).collect();
        let seen: Vec<Told> = models.iter().zip(policy).map(|(model, quota)| model.peek(*quota, cost, now)).collect();
        let allowed = seen.iter().all(|told| told.allowed);
        if !allowed && !force {
            return seen.into_iter().map(|told| Told { delay_ms: told.delay_ms.map(|_| 0), ..told }).collect();
        }
        let told = models.iter_mut().zip(policy).map(|(model, quota)| model.request(*quota, cost, force, now));
        let told =
            told.map(|told| Told { delay_ms: told.delay_ms.filter(|_| allowed).or(told.delay_ms.map(|_| 0)), ..told });
        let told = told.collect();
        self.0 = models;
        told
    }
}

/// Tells a story to a key, and shows each moment: what the key holds, the deed, the time, and what was told.
fn tell(story: &Story, mut seen: impl FnMut(Option<&Value>, &Deed, Micros, Option<(Verdict, Vec<Decision>)>)) {
    let mut value: Option<Value> = None;
    let mut now = START;
    for (deed, passes) in story {
        now = moved(now, *passes);
        let told = match deed {
            Deed::Refund(amount) => {
                if let Some(value) = &mut value {
                    value.refund(*amount, now);
                }
                None
            }
            Deed::Request { policy, cost, force } => {
                let is_new = value.is_none();
                let mut limits = match value.take() {
                    Some(Value::Policy(limits)) => limits,
                    _ => PolicyLimits::new(PolicyName::new(NAME.as_bytes()).expect("a name"), policy),
                };
                let mut decisions = PerLimit::new();
                let verdict = limits.request(policy, Request { cost: *cost, mode: mode(*force), now }, &mut decisions);
                value = (verdict.taken || !is_new).then_some(Value::Policy(limits));
                Some((verdict, decisions.to_vec()))
            }
        };
        seen(value.as_ref(), deed, now, told);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn peeking_and_giving_back_agree_with_the_models(
        steps in wild(algorithms()),
        refunds in vec(prop::option::weighted(0.3, 1..40_u64), 40),
    ) {
        let mut limiter = Limiter::new(&steps[0].quota);
        let mut model = AnyModel::new(steps[0].quota);
        let mut now = START;
        for (step, refund) in steps.iter().zip(refunds) {
            now = moved(now, step.passes);
            if let Some(amount) = refund {
                prop_assert_eq!(limiter.refund(amount, now), model.refund(amount, now));
            }
            let before = limiter.clone();
            let seen = limiter.peek_current(step.cost, now);
            prop_assert_eq!(Told::from(seen), model.peek(model.quota(), step.cost, now));
            prop_assert_eq!(&limiter, &before, "a peek has changed something");
            let told = limiter.request(&step.quota, step.request(now)).expect("one algorithm");
            prop_assert_eq!(Told::from(told), model.request(step.quota, step.cost, step.force, now));
        }
    }

    #[test]
    fn a_peek_tells_what_the_request_is_told(steps in wild(algorithms())) {
        let mut limiter = Limiter::new(&steps[0].quota);
        let mut now = START;
        for step in &steps {
            now = moved(now, step.passes);
            let seen = limiter.peek(&step.quota, step.cost, now).expect("one algorithm");
            let told = limiter.request(&step.quota, step.request(now)).expect("one algorithm");
            prop_assert_eq!(seen.allowed, told.allowed);
            if !told.taken {
                prop_assert_eq!(seen, told);
            }
        }
    }

    #[test]
    fn what_is_taken_and_given_back_at_once_is_as_if_it_had_not_been(steps in wild(algorithms())) {
        let mut limiter = Limiter::new(&steps[0].quota);
        let mut now = START;
        for step in &steps {
            now = moved(now, step.passes);
            limiter.request(&step.quota, step.request(now)).expect("one algorithm");
            let before = limiter.peek_current(1, now);
            let quota = limiter.quota();
            let mut copy = limiter.clone();
            if copy.request(&quota, Request::new(step.cost, now)).expect("one algorithm").allowed {
                prop_assert!(copy.refund(step.cost, now));
                prop_assert_eq!(copy.peek_current(1, now), before);
            }
            copy.refund(u64::MAX >> 11, now);
            let fresh = Limiter::new(&quota).peek_current(1, now);
            prop_assert_eq!(copy.peek_current(1, now), fresh, "it is full, and no more than that");
        }
    }

    #[test]
    fn the_limits_of_a_policy_agree_with_the_models(story in stories()) {
        let mut naive: Option<NaivePolicy> = None;
        tell(&story, |value, deed, now, told| match deed {
            Deed::Refund(amount) => {
                for model in naive.iter_mut().flat_map(|naive| &mut naive.0) {
                    model.refund(*amount, now);
                }
            }
            Deed::Request { policy, cost, force } => {
                let (verdict, decisions) = told.expect("a request");
                let mut models = naive.clone().unwrap_or_default();
                let expected = models.request(policy, *cost, *force, now);
                let told: Vec<Told> = decisions.iter().map(|decision| Told::from(*decision)).collect();
                assert_eq!(told, expected);
                assert_eq!(verdict.allowed, expected.iter().all(|told| told.allowed));
                // The wait is that of the same request from now on: what was forced may have used up any of the limits.
                let again = models.0.iter().zip(policy).map(|(model, quota)| model.peek(*quota, *cost, now).retry_ms);
                let waits: Vec<i64> = match verdict.taken {
                    true if verdict.allowed => vec![0],
                    true => again.collect(),
                    false => expected.iter().map(|told| told.retry_ms).collect(),
                };
                let longest = waits.iter().find(|wait| **wait == -1).or(waits.iter().max()).expect("a limit");
                assert_eq!(verdict.retry.to_millis(), *longest);
                assert_eq!(verdict.taken, verdict.allowed || *force);
                if verdict.taken {
                    naive = Some(models);
                }
                assert_eq!(value.is_some(), naive.is_some());
            }
        });
    }

    #[test]
    fn a_request_that_one_limit_denies_takes_from_none(story in stories()) {
        let mut before: Option<Value> = None;
        tell(&story, |value, _, _, told| {
            if let Some((verdict, decisions)) = told {
                assert!(decisions.iter().all(|decision| decision.taken == verdict.taken));
                if !verdict.taken {
                    assert_eq!(value, before.as_ref());
                }
            }
            before = value.cloned();
        });
    }

    #[test]
    fn who_waits_as_told_is_let_through_and_no_sooner(story in stories_with(waits)) {
        tell(&story, |value, deed, now, told| {
            let (Some(Value::Policy(limits)), Deed::Request { policy, cost, .. }, Some((verdict, _))) = (value, deed, told) else {
                return;
            };
            let Retry::After(wait) = verdict.retry else { return };
            let asks_at = |time| limits.clone().request(policy, Request::new(*cost, time), &mut PerLimit::new()).allowed;
            assert!(asks_at(now + wait));
            assert!(!asks_at(now + wait - 1));
        });
    }

    #[test]
    fn what_was_saved_is_what_is_loaded(story in stories()) {
        tell(&story, |value, _, _, _| {
            let Some(value) = value else { return };
            let mut file = File::default();
            value.save(&mut file);
            assert_eq!(Value::load(&mut file).as_ref(), Ok(value));
            assert!(file.0.is_empty(), "not all was read");
        });
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused(story in stories(), cut in any::<prop::sample::Index>()) {
        tell(&story, |value, _, _, _| {
            let Some(value) = value else { return };
            let mut file = File::default();
            value.save(&mut file);
            file.0.truncate(cut.index(file.0.len()));
            assert_eq!(Value::load(&mut file), Err(DecodeError::Corrupt));
        });
    }
}

/// What is saved, in order.
#[derive(Default)]
struct File(std::collections::VecDeque<Part>);

enum Part {
    Number(u64),
    Bytes(Vec<u8>),
}

impl RdbWriter for File {
    fn number(&mut self, number: u64) {
        self.0.push_back(Part::Number(number));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push_back(Part::Bytes(bytes.to_vec()));
    }
}

impl RdbReader for File {
    fn number(&mut self) -> Option<u64> {
        match self.0.pop_front()? {
            Part::Number(number) => Some(number),
            Part::Bytes(_) => None,
        }
    }

    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self.0.pop_front()? {
            Part::Bytes(bytes) => Some(read(&bytes)),
            Part::Number(_) => None,
        }
    }
}
