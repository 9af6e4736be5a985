//! What is tried with hostile bytes, and what must be true of it. Each function takes any input and panics if something
//! is wrong. They are driven by libFuzzer (`make fuzz`) and, for a short while, by `tests/fuzz.rs`.

use arbitrary::Unstructured;
use redis_ratelimit::commands::Options;
use redis_ratelimit::limiter::varint::Reader;
use redis_ratelimit::limiter::{
    decode_quota, encode_quota, Algorithm, Decision, Entries, Held, Limiter, Micros, PerLimit, PolicyLimits,
    PolicyName, Quota, Retry, Saved, MAX_AMOUNT, MAX_LIMITS, MAX_TIME,
};
use redis_ratelimit::policies::Policies;
use redis_ratelimit::replication::{state_facts, Fact, FactBytes, PolicyFactBytes};

/// Takes any input, and panics if something is wrong.
pub type Target = fn(&[u8]);

/// Everything that is tried, by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("arguments", arguments),
    ("facts", facts),
    ("snapshots", snapshots),
    ("requests", requests),
    ("policies", policies),
    ("together", together),
];

/// A hundred years, the longest that anything takes to be as good as new, in microseconds.
const LONGEST: Micros = 36_500 * 86_400_000_000;

/// The arguments of a request: a byte for the algorithm, then words that are separated by zero bytes.
pub fn arguments(input: &[u8]) {
    let Some((&algorithm, words)) = input.split_first() else { return };
    let algorithm = Algorithm::ALL[usize::from(algorithm) % Algorithm::ALL.len()];
    let mut words = words.split(|&byte| byte == 0);
    let (Some(a), Some(b)) = (words.next(), words.next()) else { return };
    let options = Options::parse(words).inspect_err(|error| assert_readable(error));
    let quota = Quota::parse(algorithm, a, b).inspect_err(|error| assert_readable(&error.to_string()));
    let Ok(quota) = quota else { return };
    assert_eq!(quota.algorithm(), algorithm);
    assert_survives_encoding(&quota);
    let options = options.unwrap_or_default();
    assert!((1..=MAX_AMOUNT).contains(&options.cost));
    for now in [0, 1_790_000_000_000_000, MAX_TIME] {
        let decision = request(&mut Limiter::new(&quota), &quota, options.cost, options.force, now);
        // Nothing was used yet, so whatever fits at all is allowed.
        assert_eq!(decision.allowed, options.cost <= limit(&quota), "{quota:?}");
    }
}

/// Facts that arrive for one key one after the other, from an append-only file or a primary.
pub fn facts(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let (mut held, mut read) = (None::<Held>, 0);
    while let Some(bytes) = record(&mut input) {
        read += bytes.len();
        let Some(fact) = Fact::decode(bytes) else { continue };
        let before = held.clone();
        match fact.apply(held.as_mut()) {
            Ok(Some(new)) => held = Some(new),
            Ok(None) => {}
            Err(_) => assert_eq!(held, before, "a fact that was refused has changed something"),
        }
        if let Some(held) = &held {
            assert_sound(held, read);
        }
    }
    if let Some(held) = held {
        use_it(held, &mut input);
    }
}

/// A key of a snapshot or a dump.
pub fn snapshots(input: &[u8]) {
    let mut saved = Input { rest: Unstructured::new(input) };
    let Ok(held) = Held::load(&mut saved) else { return };
    assert_sound(&held, input.len());
    use_it(held, &mut saved.rest);
}

/// Requests with any quotas at any times, to a primary and by way of its facts to a replica.
pub fn requests(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let mut primary_and_replica = None::<(Limiter, Held)>;
    while let Some((quota, cost, force, now)) = step(&mut input) {
        let (primary, replica) =
            primary_and_replica.get_or_insert_with(|| (Limiter::new(&quota), Held::Limiter(Limiter::new(&quota))));
        let before = primary.clone();
        let Ok(decision) = primary.request(&quota, cost, force, now) else {
            assert_eq!(*primary, before, "another algorithm has changed something");
            continue;
        };
        assert_sane(&quota, &decision);
        if decision.taken {
            apply(replica, FactBytes::taken(&quota, cost, now).as_ref());
        } else {
            assert_eq!(*primary, before, "a denied request has changed something");
        }
        assert_eq!(std::slice::from_ref(primary), replica.limiters());
    }
    if let Some((_, replica)) = primary_and_replica {
        assert_sound(&replica, usize::MAX);
    }
}

/// The text of a policy file.
pub fn policies(input: &[u8]) {
    let policies = match Policies::parse(input) {
        Ok(policies) => policies,
        Err(bad) => return assert_readable(&bad.to_string()),
    };
    let text = policies.to_text();
    assert_eq!(Policies::parse(text.as_bytes()).as_ref(), Ok(&policies), "{text}");
    for (name, policy) in policies.iter() {
        assert_readable(name);
        let (quotas, now) = (&policy.limits().quotas, 1_790_000_000_000_000);
        assert!((1..=MAX_LIMITS).contains(&quotas.len()));
        let mut decisions = PerLimit::new();
        let verdict = PolicyLimits::new(policy_name(name), quotas).request(quotas, 1, false, now, &mut decisions);
        assert!(verdict.allowed && decisions.len() == quotas.len(), "nothing was used yet: {decisions:?}");
    }
}

/// Requests under policies that change, what they give back, and what is seen meanwhile: at a primary and, by way of its
/// facts, at a replica.
pub fn together(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let (mut primary, mut replica) = (None::<Held>, None::<Held>);
    while let Some((first, cost, force, now)) = step(&mut input) {
        if let (0, Some(primary), Some(replica)) = (input.arbitrary().unwrap_or(0_u8) % 4, &mut primary, &mut replica) {
            let before = primary.clone();
            if primary.refund(cost, now) {
                apply(replica, FactBytes::refunded(cost, now).as_ref());
            } else {
                assert_eq!(*primary, before, "nothing was given back, and something has changed");
            }
        }
        let others = (0..input.arbitrary().unwrap_or(0_u8) % 4).map_while(|_| step(&mut input)).map(|step| step.0);
        let quotas: Vec<Quota> = std::iter::once(first).chain(others).collect();
        let before = primary.clone();
        let mut limits = match primary.take() {
            Some(Held::Policy(limits)) => limits,
            _ => PolicyLimits::new(policy_name(NAME), &quotas),
        };
        let mut decisions = PerLimit::new();
        let verdict = limits.request(&quotas, cost, force, now, &mut decisions);
        assert_eq!(verdict.taken, verdict.allowed || force);
        assert_eq!(decisions.len(), quotas.len());
        for (quota, decision) in quotas.iter().zip(&decisions) {
            assert_sane(quota, decision);
            assert_eq!(decision.taken, verdict.taken, "all or nothing");
            assert!(verdict.allowed <= decision.allowed && decision.retry <= verdict.retry);
        }
        primary = Some(Held::Policy(limits));
        if verdict.taken {
            let fact = PolicyFactBytes::taken(NAME, &quotas, cost, now);
            let fact = Fact::decode(fact.as_ref()).expect("a fact");
            if let Some(new) = fact.apply(replica.as_mut()).expect("fits") {
                replica = Some(new);
            }
        } else {
            assert!(before.is_none() || primary == before, "a denied request has changed something");
            primary = before;
        }
        assert_eq!(primary, replica);
    }
    if let Some(held) = primary {
        assert_sound(&held, usize::MAX);
        use_it(held, &mut input);
    }
}

/// What a policy is called here.
const NAME: &str = "policy";

fn policy_name(name: &str) -> PolicyName {
    PolicyName::new(name.as_bytes()).expect("a name")
}

fn apply(held: &mut Held, fact: &[u8]) {
    let fact = Fact::decode(fact).expect("a fact");
    assert_eq!(fact.apply(Some(held)), Ok(None));
}

/// The next bytes with a length before them: a byte, or two more after the largest byte there is.
fn record<'a>(input: &mut Unstructured<'a>) -> Option<&'a [u8]> {
    let length = match input.arbitrary::<u8>().ok()? {
        u8::MAX => input.arbitrary::<u16>().ok()?,
        length => length.into(),
    };
    // What is empty because the input ends is nothing.
    if input.is_empty() {
        return None;
    }
    input.bytes(usize::from(length).min(input.len())).ok()
}

/// What was saved as the input has it: numbers are a byte, the last of which is the largest number there is; bytes have
/// a length before them.
struct Input<'a> {
    rest: Unstructured<'a>,
}

impl Saved for Input<'_> {
    fn number(&mut self) -> Option<u64> {
        self.rest.arbitrary().ok().map(|byte: u8| if byte == u8::MAX { u64::MAX } else { byte.into() })
    }

    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        read(record(&mut self.rest)?)
    }
}

/// The next request.
fn step(input: &mut Unstructured<'_>) -> Option<(Quota, u64, bool, Micros)> {
    if input.is_empty() {
        return None;
    }
    let algorithm = Algorithm::ALL[usize::from(input.arbitrary::<u8>().ok()?) % Algorithm::ALL.len()];
    let amount = |input: &mut Unstructured<'_>| -> Option<u64> {
        let small = input.arbitrary::<bool>().ok()?;
        input.int_in_range(1..=if small { 20 } else { MAX_AMOUNT }).ok()
    };
    let limit = amount(input)?;
    let paces = if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
        ["1", "3/5s", "100/m", "0.333", "1/3650d", "999999999.999", "13/h", "4294967311/7s"]
    } else {
        ["1", "1ms", "7ms", "60", "1h", "3650d", "333333us", "1d"]
    };
    let quota = Quota::parse(algorithm, limit.to_string().as_bytes(), input.choose(&paces).ok()?.as_bytes()).ok()?;
    let now = input.int_in_range(0..=MAX_TIME).ok()?;
    Some((quota, amount(input)?, input.arbitrary().ok()?, now))
}

/// Uses what came from bytes, in all the ways there are, at times that the input chooses and at the extremes.
fn use_it(mut held: Held, input: &mut Unstructured<'_>) {
    let any = input.int_in_range(0..=MAX_TIME).unwrap_or(0);
    for now in [any, held.idle_at(any).min(MAX_TIME), 0, MAX_TIME, any] {
        for limiter in held.limiters_mut() {
            let quota = limiter.quota();
            for (cost, force) in [(1, false), (MAX_AMOUNT, false), (1, true), (MAX_AMOUNT, true), (1, false)] {
                let seen = limiter.peek_as_it_is(cost, now);
                assert_sane(&quota, &seen);
                let told = request(limiter, &quota, cost, force, now);
                assert_eq!((seen.allowed, seen.delay), (told.allowed, told.delay), "{limiter:?}");
            }
            if let Some((quota, cost, force, now)) = step(input) {
                let before = limiter.clone();
                match limiter.request(&quota, cost, force, now) {
                    Ok(decision) => assert_sane(&quota, &decision),
                    Err(_) => assert_eq!(*limiter, before),
                }
            }
        }
        for amount in [1, MAX_AMOUNT] {
            let before = held.clone();
            assert!(held.refund(amount, now) || held == before);
        }
        assert_sound(&held, usize::MAX);
    }
}

fn request(limiter: &mut Limiter, quota: &Quota, cost: u64, force: bool, now: Micros) -> Decision {
    let decision = limiter.request(quota, cost, force, now).expect("its own algorithm");
    assert_sane(quota, &decision);
    assert_eq!(decision.taken, decision.allowed || force);
    decision
}

fn limit(quota: &Quota) -> u64 {
    match quota {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => quota.capacity(),
        Quota::FixedWindow(quota) | Quota::SlidingLog(quota) | Quota::SlidingCounter(quota) => quota.limit(),
    }
}

/// What is true of every answer.
fn assert_sane(quota: &Quota, decision: &Decision) {
    assert_eq!(decision.limit, limit(quota));
    assert!(decision.remaining <= decision.limit, "{decision:?}");
    assert_eq!(decision.allowed, decision.retry == Retry::Now);
    // Twice after a forced request, and once more when the clock was turned back by as much.
    assert!(decision.reset_after <= 3 * LONGEST, "{decision:?}");
    if let Retry::After(wait) = decision.retry {
        assert!(wait <= 3 * LONGEST, "{decision:?}");
    }
    let reply = decision.to_reply();
    assert!(reply.five.iter().chain(&reply.delay).all(|&integer| integer >= -1), "{reply:?}");
}

/// What is true of all that a key holds, wherever it came from: it is the same after it was written and read, a log is in
/// order and its sum can be calculated with, and it takes no more memory than what it was made of, roughly.
fn assert_sound(held: &Held, read: usize) {
    for limiter in held.limiters() {
        let (mut newest, mut sum, mut count) = (0, 0, 0);
        for entry in limiter.entries().into_iter().flat_map(Entries::iter) {
            assert!((newest..=MAX_TIME).contains(&entry.time) && entry.cost > 0, "{entry:?} after {newest}");
            (newest, sum, count) = (entry.time, sum + u128::from(entry.cost), count + 1);
        }
        assert!(sum <= 2 * u128::from(MAX_AMOUNT), "{sum}");
        assert_eq!(limiter.entries().map_or(0, Entries::len), count);
        assert_survives_encoding(&limiter.quota());
    }
    let mut rebuilt = None::<Held>;
    for fact in state_facts(held) {
        let fact = Fact::decode(&fact).expect("a fact");
        if let Some(new) = fact.apply(rebuilt.as_mut()).expect("fits") {
            rebuilt = Some(new);
        }
    }
    assert_eq!(rebuilt.as_ref(), Some(held));
    assert!(held.idle_at(MAX_TIME) <= MAX_TIME + 2 * LONGEST, "{held:?}");
    assert!(held.bytes() <= 4_096_usize.saturating_add(read.saturating_mul(16)), "{} for {read}", held.bytes());
}

fn assert_survives_encoding(quota: &Quota) {
    let mut bytes = Vec::new();
    encode_quota(quota, &mut bytes);
    assert_eq!(decode_quota(&mut Reader::new(&bytes)).as_ref(), Some(quota));
}

/// A message for a person: one short line of characters that every terminal shows.
fn assert_readable(message: &str) {
    assert!(message.len() < 500 && message.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{message:?}");
}
