//! Fuzz targets: what hostile bytes are fed to, and what must hold then. Each target takes any input and panics if something
//! is wrong. libFuzzer drives them (`make fuzz`), and for a short time `tests/unit/fuzz.rs`.

#[path = "../../tests/common/memory_key.rs"]
pub mod memory_key;

use arbitrary::Unstructured;
use limiter::varint::Reader;
use limiter::{
    Algorithm, Decision, Entries, Limiter, Micros, Mode, PerLimit, PolicyLimits, PolicyName, Quota, RdbReader, Request,
    Retry, Value, MAX_AMOUNT, MAX_LIMITS, MAX_TIME,
};
use memory_key::MemoryKey;
use redis_ratelimit::commands::{Options, REQUEST_OPTIONS};
use redis_ratelimit::policies::Policies;
use redis_ratelimit::replication::apply::{refund, take_policy};
use redis_ratelimit::replication::effect::recreate;
use redis_ratelimit::replication::{Effect, EffectBytes, PolicyEffectBytes};

/// Takes any input, and panics if something is wrong.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("arguments", arguments),
    ("effects", effects),
    ("snapshots", snapshots),
    ("requests", requests),
    ("policies", policies),
    ("multi", multi),
];

/// A hundred years in microseconds: the longest time until a limit resets.
const LONGEST: Micros = 36_500 * 86_400_000_000;

/// The arguments of a request: a byte for the algorithm, then words that are separated by zero bytes.
pub fn arguments(input: &[u8]) {
    let Some((&algorithm, words)) = input.split_first() else { return };
    let algorithm = Algorithm::ALL[usize::from(algorithm) % Algorithm::ALL.len()];
    let mut words = words.split(|&byte| byte == 0);
    let (Some(a), Some(b)) = (words.next(), words.next()) else { return };
    let options = Options::parse(REQUEST_OPTIONS, words).inspect_err(|error| assert_readable(&error.to_string()));
    let quota = Quota::parse(algorithm, a, b).inspect_err(|error| assert_readable(&error.to_string()));
    let Ok(quota) = quota else { return };
    assert_eq!(quota.algorithm(), algorithm);
    assert_survives_encoding(&quota);
    let options = options.unwrap_or_default();
    assert!((1..=MAX_AMOUNT).contains(&options.cost));
    for now in [0, 1_790_000_000_000_000, MAX_TIME] {
        let decision = request(&mut Limiter::new(&quota), &quota, options.request(now));
        // Nothing was used yet, so any cost within the limit is allowed.
        assert_eq!(decision.allowed, options.cost <= quota.limit(), "{quota:?}");
    }
}

/// Effects on one key, from an append-only file or a primary.
pub fn effects(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let (mut key, mut read) = (MemoryKey::default(), 0);
    while let Some(bytes) = record(&mut input) {
        read += bytes.len();
        let Ok(effect) = Effect::decode(bytes) else { continue };
        let before = key.clone();
        if key.apply(effect).is_err() {
            assert_eq!(key, before, "a refused effect has changed something");
        }
        if let Some(value) = &key.value {
            assert_sound(value, read);
        }
    }
    if let Some(value) = key.value {
        use_it(value, &mut input);
    }
}

/// A key of an RDB file or a dump.
pub fn snapshots(input: &[u8]) {
    let mut saved = Input { rest: Unstructured::new(input) };
    let Ok(value) = Value::load(&mut saved) else { return };
    assert_sound(&value, input.len());
    use_it(value, &mut saved.rest);
}

/// Requests with any quotas at any times, on a primary and by their effects on a replica.
pub fn requests(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let mut primary_and_replica = None::<(Limiter, MemoryKey)>;
    while let Some((quota, request)) = step(&mut input) {
        let (primary, replica) = primary_and_replica.get_or_insert_with(|| {
            let limiter = Limiter::new(&quota);
            (limiter.clone(), MemoryKey { value: Some(Value::Limiter(limiter)), ..MemoryKey::default() })
        });
        let before = primary.clone();
        let Ok(decision) = primary.request(&quota, request) else {
            assert_eq!(*primary, before, "a request with another algorithm has changed something");
            continue;
        };
        assert_sane(&quota, &decision);
        if decision.taken {
            apply(replica, EffectBytes::take(&quota, request.cost, request.now).as_ref());
            assert_eq!(replica.expires_at, Some(request.now + decision.reset_after));
        } else {
            assert_eq!(*primary, before, "a denied request has changed something");
        }
        assert_eq!(replica.value, Some(Value::Limiter(primary.clone())));
    }
    if let Some((_, MemoryKey { value: Some(value), .. })) = primary_and_replica {
        assert_sound(&value, usize::MAX);
    }
}

/// The text of a policy file.
pub fn policies(input: &[u8]) {
    let policies = match Policies::parse(input) {
        Ok(policies) => policies,
        Err(error) => return assert_readable(&error.to_string()),
    };
    let text = policies.to_text();
    assert_eq!(Policies::parse(text.as_bytes()).as_ref(), Ok(&policies), "{text}");
    for (name, policy) in policies.iter() {
        assert_readable(name);
        let (quotas, now) = (&policy.limits().quotas, 1_790_000_000_000_000);
        assert!((1..=MAX_LIMITS).contains(&quotas.len()));
        let mut decisions = PerLimit::new();
        let verdict =
            PolicyLimits::new(policy_name(name), quotas).request(quotas, Request::new(1, now), &mut decisions);
        assert!(verdict.allowed && decisions.len() == quotas.len(), "nothing was used yet: {decisions:?}");
    }
}

/// Requests under policies that change, and refunds, on a primary and by their effects on a replica.
pub fn multi(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let (mut primary, mut replica) = (MemoryKey::default(), MemoryKey::default());
    while let Some((first, request)) = step(&mut input) {
        let Request { cost, now, .. } = request;
        if input.arbitrary().unwrap_or(0_u8).is_multiple_of(4) && primary.value.is_some() {
            let before = primary.clone();
            if refund(&mut primary, cost, now) {
                apply(&mut replica, EffectBytes::refund(cost, now).as_ref());
            } else {
                assert_eq!(primary, before, "nothing was given back, but something has changed");
            }
        }
        let others = (0..input.arbitrary().unwrap_or(0_u8) % 4).map_while(|_| step(&mut input)).map(|step| step.0);
        let quotas: Vec<Quota> = std::iter::once(first).chain(others).collect();
        let (before, mut decisions) = (primary.clone(), PerLimit::new());
        let verdict = take_policy(&mut primary, &policy_name(NAME), &quotas, request, &mut decisions);
        let verdict = verdict.expect("the key holds nothing else");
        assert_eq!(verdict.taken, verdict.allowed || request.mode == Mode::Force);
        assert_eq!(decisions.len(), quotas.len());
        for (quota, decision) in quotas.iter().zip(&decisions) {
            assert_sane(quota, decision);
            assert_eq!(decision.taken, verdict.taken, "all or nothing");
            assert!(verdict.allowed <= decision.allowed && decision.retry <= verdict.retry);
        }
        if verdict.taken {
            apply(&mut replica, PolicyEffectBytes::take(NAME, &quotas, cost, now).as_ref());
        } else {
            assert_eq!(primary, before, "a denied request has changed something");
        }
        assert_eq!(primary, replica);
    }
    if let Some(value) = primary.value {
        assert_sound(&value, usize::MAX);
        use_it(value, &mut input);
    }
}

/// The name of the policy.
const NAME: &str = "policy";

fn policy_name(name: &str) -> PolicyName {
    PolicyName::new(name.as_bytes()).expect("a name")
}

fn apply(key: &mut MemoryKey, effect: &[u8]) {
    key.apply(Effect::decode(effect).expect("an effect")).expect("applicable");
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

impl RdbReader for Input<'_> {
    fn number(&mut self) -> Option<u64> {
        self.rest.arbitrary().ok().map(|byte: u8| if byte == u8::MAX { u64::MAX } else { byte.into() })
    }

    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        Some(read(record(&mut self.rest)?))
    }
}

/// The next request.
fn step(input: &mut Unstructured<'_>) -> Option<(Quota, Request)> {
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
    let cost = amount(input)?;
    let mode = if input.arbitrary().ok()? { Mode::Force } else { Mode::Enforce };
    Some((quota, Request { cost, mode, now }))
}

/// Uses a value that came from bytes in all ways, at times that the input chooses and at the extremes.
fn use_it(mut value: Value, input: &mut Unstructured<'_>) {
    let any = input.int_in_range(0..=MAX_TIME).unwrap_or(0);
    for now in [any, value.resets_at(any).min(MAX_TIME), 0, MAX_TIME, any] {
        for limiter in value.limiters_mut() {
            let quota = limiter.quota();
            for asked in [
                Request::new(1, now),
                Request::new(MAX_AMOUNT, now),
                Request::forced(1, now),
                Request::forced(MAX_AMOUNT, now),
                Request::new(1, now),
            ] {
                let seen = limiter.peek_current(asked.cost, now);
                assert_sane(&quota, &seen);
                let decided = request(limiter, &quota, asked);
                assert_eq!((seen.allowed, seen.delay), (decided.allowed, decided.delay), "{limiter:?}");
            }
            if let Some((quota, request)) = step(input) {
                let before = limiter.clone();
                match limiter.request(&quota, request) {
                    Ok(decision) => assert_sane(&quota, &decision),
                    Err(_) => assert_eq!(*limiter, before),
                }
            }
        }
        for amount in [1, MAX_AMOUNT] {
            let before = value.clone();
            assert!(value.refund(amount, now) || value == before);
        }
        assert_sound(&value, usize::MAX);
    }
}

fn request(limiter: &mut Limiter, quota: &Quota, request: Request) -> Decision {
    let decision = limiter.request(quota, request).expect("its own algorithm");
    assert_sane(quota, &decision);
    assert_eq!(decision.taken, decision.allowed || request.mode == Mode::Force);
    decision
}

/// What holds for every decision.
fn assert_sane(quota: &Quota, decision: &Decision) {
    assert_eq!(decision.limit, quota.limit());
    assert!(decision.remaining <= decision.limit, "{decision:?}");
    assert_eq!(decision.allowed, decision.retry == Retry::Now);
    // Twice after a forced request, and once more after a step back of the clock.
    assert!(decision.reset_after <= 3 * LONGEST, "{decision:?}");
    if let Retry::After(wait) = decision.retry {
        assert!(wait <= 3 * LONGEST, "{decision:?}");
    }
    let reply = decision.to_reply();
    assert!(reply.five.iter().chain(&reply.delay).all(|&integer| integer >= -1), "{reply:?}");
}

/// What holds for every value, whatever it came from: it is unchanged after it was encoded and decoded, a log is in order
/// and its sum does not overflow, and it takes no more memory than its input, roughly.
fn assert_sound(value: &Value, read: usize) {
    for limiter in value.limiters() {
        let (mut newest, mut sum, mut count) = (0, 0, 0);
        for entry in limiter.entries().into_iter().flat_map(Entries::iter) {
            assert!((newest..=MAX_TIME).contains(&entry.time) && entry.cost > 0, "{entry:?} after {newest}");
            (newest, sum, count) = (entry.time, sum + u128::from(entry.cost), count + 1);
        }
        assert!(sum <= 2 * u128::from(MAX_AMOUNT), "{sum}");
        assert_eq!(limiter.entries().map_or(0, Entries::len), count);
        assert_survives_encoding(&limiter.quota());
    }
    let mut recreated = MemoryKey::default();
    for effect in recreate(value) {
        apply(&mut recreated, &effect);
    }
    assert_eq!(recreated.value.as_ref(), Some(value));
    assert!(value.resets_at(MAX_TIME) <= MAX_TIME + 2 * LONGEST, "{value:?}");
    assert!(value.bytes() <= 4_096_usize.saturating_add(read.saturating_mul(16)), "{} for {read}", value.bytes());
}

fn assert_survives_encoding(quota: &Quota) {
    let mut bytes = Vec::new();
    quota.encode(&mut bytes);
    assert_eq!(Quota::decode(&mut Reader::new(&bytes)).as_ref(), Some(quota));
}

/// A message is one short line of printable characters.
fn assert_readable(message: &str) {
    assert!(message.len() < 500 && message.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{message:?}");
}
