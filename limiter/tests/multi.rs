//! Peeks, refunds and requests to several limits: contracts that hold for every sequence of them, and naive models.

use super::models::steps::{algorithms, costs, jumps, mode, moved, quotas, waits, wild, START};
use super::models::{AnyModel, Reply};
use limiter::{
    Decision, DecodeError, Limiter, Micros, PerLimit, PolicyLimits, PolicyName, Quota, RdbReader, RdbWriter, Request,
    Retry, Value, Verdict,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NAME: &str = "policy";

/// An event of a key with the limits of a policy.
#[derive(Debug, Clone)]
enum Event {
    Request { policy: Vec<Quota>, cost: u64, force: bool },
    Refund(u64),
}

/// Events, each with the step of the clock before it.
type Events = Vec<(Event, i64)>;

fn policy() -> impl Strategy<Value = Vec<Quota>> {
    vec(algorithms().prop_flat_map(quotas), 1..5)
}

/// Requests with a policy, sometimes with another one, and refunds.
fn events() -> impl Strategy<Value = Events> {
    events_with(jumps)
}

/// The same; `clock` makes the steps of the clock.
fn events_with<C: Strategy<Value = i64>>(clock: fn() -> C) -> impl Strategy<Value = Events> {
    let event = |policies: Vec<Vec<Quota>>| {
        let policy = prop_oneof![6 => Just(policies[0].clone()), 1 => select(policies)];
        prop_oneof![
            5 => (policy, costs(), prop::bool::weighted(0.15))
                .prop_map(|(policy, cost, force)| Event::Request { policy, cost, force }),
            1 => (1..40_u64).prop_map(Event::Refund),
        ]
    };
    vec(policy(), 3).prop_flat_map(move |policies| vec((event(policies), clock()), 1..40))
}

/// The naive model of a policy: a model for each limit.
#[derive(Clone, Default)]
struct NaivePolicy(Vec<AnyModel>);

impl NaivePolicy {
    fn request(&mut self, policy: &[Quota], cost: u64, force: bool, now: Micros) -> Vec<Reply> {
        let in_place = |(place, quota): (usize, &Quota)| {
            let value = self.0.get(place).filter(|model| model.quota().algorithm() == quota.algorithm());
            value.cloned().unwrap_or_else(|| AnyModel::new(*quota))
        };
        let mut models: Vec<AnyModel> = policy.iter().enumerate().map(in_place).collect();
        let peeked: Vec<Reply> =
            models.iter().zip(policy).map(|(model, quota)| model.peek(*quota, cost, now)).collect();
        let allowed = peeked.iter().all(|reply| reply.allowed);
        let no_delay = |reply: Reply| Reply { delay_ms: reply.delay_ms.map(|_| 0), ..reply };
        if !allowed && !force {
            return peeked.into_iter().map(no_delay).collect();
        }
        let replies = models.iter_mut().zip(policy).map(|(model, quota)| model.request(*quota, cost, force, now));
        let replies = replies.map(|reply| if allowed { reply } else { no_delay(reply) }).collect();
        self.0 = models;
        replies
    }
}

/// Runs the events on a key, and calls `after` for each: with the value of the key, the event, the time, and the result
/// of a request.
fn run(events: &Events, mut after: impl FnMut(Option<&Value>, &Event, Micros, Option<(Verdict, Vec<Decision>)>)) {
    let mut value: Option<Value> = None;
    let mut now = START;
    for (event, passes) in events {
        now = moved(now, *passes);
        let result = match event {
            Event::Refund(amount) => {
                if let Some(value) = &mut value {
                    value.refund(*amount, now);
                }
                None
            }
            Event::Request { policy, cost, force } => {
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
        after(value.as_ref(), event, now, result);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn peeks_and_refunds_agree_with_the_models(
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
            let peeked = limiter.peek_current(step.cost, now);
            prop_assert_eq!(Reply::from(peeked), model.peek(model.quota(), step.cost, now));
            prop_assert_eq!(&limiter, &before, "a peek changes nothing");
            let decision = limiter.request(&step.quota, step.request(now)).expect("one algorithm");
            prop_assert_eq!(Reply::from(decision), model.request(step.quota, step.cost, step.force, now));
        }
    }

    #[test]
    fn a_peek_returns_the_decision_of_the_request(steps in wild(algorithms())) {
        let mut limiter = Limiter::new(&steps[0].quota);
        let mut now = START;
        for step in &steps {
            now = moved(now, step.passes);
            let peeked = limiter.peek(&step.quota, step.cost, now).expect("one algorithm");
            let decision = limiter.request(&step.quota, step.request(now)).expect("one algorithm");
            prop_assert_eq!(peeked.allowed, decision.allowed);
            if !decision.taken {
                prop_assert_eq!(peeked, decision);
            }
        }
    }

    #[test]
    fn an_immediate_refund_undoes_a_request(steps in wild(algorithms())) {
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
            prop_assert_eq!(copy.peek_current(1, now), fresh, "a refund restores at most the limit");
        }
    }

    #[test]
    fn the_limits_of_a_policy_agree_with_the_models(events in events()) {
        let mut naive: Option<NaivePolicy> = None;
        run(&events, |value, event, now, result| match event {
            Event::Refund(amount) => {
                for model in naive.iter_mut().flat_map(|naive| &mut naive.0) {
                    model.refund(*amount, now);
                }
            }
            Event::Request { policy, cost, force } => {
                let (verdict, decisions) = result.expect("a request");
                let mut models = naive.clone().unwrap_or_default();
                let expected = models.request(policy, *cost, *force, now);
                let replies: Vec<Reply> = decisions.iter().map(|decision| Reply::from(*decision)).collect();
                assert_eq!(replies, expected);
                assert_eq!(verdict.allowed, expected.iter().all(|reply| reply.allowed));
                // The wait of a forced request is that of its next attempt, as it may have exhausted any of the limits.
                let again = models.0.iter().zip(policy).map(|(model, quota)| model.peek(*quota, *cost, now).retry_ms);
                let waits: Vec<i64> = match verdict.taken {
                    true if verdict.allowed => vec![0],
                    true => again.collect(),
                    false => expected.iter().map(|reply| reply.retry_ms).collect(),
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
    fn a_request_that_one_limit_denies_takes_from_none(events in events()) {
        let mut before: Option<Value> = None;
        run(&events, |value, _, _, result| {
            if let Some((verdict, decisions)) = result {
                assert!(decisions.iter().all(|decision| decision.taken == verdict.taken));
                if !verdict.taken {
                    assert_eq!(value, before.as_ref());
                }
            }
            before = value.cloned();
        });
    }

    #[test]
    fn a_retry_is_allowed_once_the_wait_is_over_and_not_before(events in events_with(waits)) {
        run(&events, |value, event, now, result| {
            let (Some(Value::Policy(limits)), Event::Request { policy, cost, .. }, Some((verdict, _))) = (value, event, result) else {
                return;
            };
            let Retry::After(wait) = verdict.retry else { return };
            let allowed_at = |time| limits.clone().request(policy, Request::new(*cost, time), &mut PerLimit::new()).allowed;
            assert!(allowed_at(now + wait));
            assert!(!allowed_at(now + wait - 1));
        });
    }

    #[test]
    fn a_saved_value_loads_unchanged(events in events()) {
        run(&events, |value, _, _, _| {
            let Some(value) = value else { return };
            let mut file = File::default();
            value.save(&mut file);
            assert_eq!(Value::load(&mut file).as_ref(), Ok(value));
            assert!(file.0.is_empty(), "bytes are left unread");
        });
    }

    #[test]
    fn a_truncated_file_is_rejected(events in events(), cut in any::<prop::sample::Index>()) {
        run(&events, |value, _, _, _| {
            let Some(value) = value else { return };
            let mut file = File::default();
            value.save(&mut file);
            file.0.truncate(cut.index(file.0.len()));
            assert_eq!(Value::load(&mut file), Err(DecodeError::Corrupt));
        });
    }
}

/// A file: the saved numbers and strings, in order.
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
