//! `CL.THROTTLE key max_burst count period [quantity]`: redis-cell's command, reply for reply, on the token bucket.

use std::sync::atomic::{AtomicBool, Ordering};

use super::counting::count;
use super::limit::decide;
use super::wrong_type::{holds_policy, other_algorithm, WRONG_TYPE};
use super::{Options, WRONG_ARITY};
use crate::datatype::{look_at, text_that_expires, Foreign, Key};
use crate::limiter::{Algorithm, BucketQuota, Decision, Held, Limiter, Micros, Quota, Quoted, Rate, Retry, MAX_AMOUNT};
use crate::server::{clock, Arg, Args, Command, Context};
use crate::stats;

/// Whether the command is to answer, if it is ours.
static ON: AtomicBool = AtomicBool::new(false);
/// Whether the server has it from us, once the module is loaded; and whether it is.
static OURS: AtomicBool = AtomicBool::new(false);
static LOADED: AtomicBool = AtomicBool::new(false);

/// Whether the command is to answer, if it is ours.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Switches the command on or off. Once the module is loaded, a server takes no more commands.
///
/// # Errors
/// When it cannot be switched on.
pub fn switch(on: bool) -> Result<(), &'static str> {
    if on && !is_on() && LOADED.load(Ordering::Relaxed) && !OURS.load(Ordering::Relaxed) {
        return Err(
            "CL.THROTTLE was off when the module was loaded, or is another module's: a restart can change that",
        );
    }
    ON.store(on, Ordering::Relaxed);
    Ok(())
}

/// The module is loaded, with the command or without it.
pub fn loaded(ours: bool) {
    OURS.store(ours, Ordering::Relaxed);
    LOADED.store(true, Ordering::Relaxed);
}

/// The command.
pub struct Throttle;

impl Command for Throttle {
    const NAME: &'static str = "THROTTLE";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let (Some(key), Some(max_burst), Some(count), Some(period)) =
            (args.get(1), args.get(2), args.get(3), args.get(4))
        else {
            return Err(WRONG_ARITY.to_owned());
        };
        if args.len() > 6 {
            return Err(WRONG_ARITY.to_owned());
        }
        if !is_on() {
            return Err("ERR CL.THROTTLE is switched off, by the setting ratelimit.cl-throttle".to_owned());
        }
        let quota = parse_quota(max_burst, count, period)?;
        let quantity = args.get(5).map_or(Ok(1), |it| parse("quantity", it, 0, MAX_AMOUNT))?;
        let now = clock::now();
        let decision =
            if quantity == 0 { look(ctx, key, &quota, now)? } else { request(ctx, key, &quota, quantity, now)? };
        ctx.reply_with_integers(reply(decision), None);
        Ok(())
    }
}

fn parse_quota(max_burst: Arg<'_>, count: Arg<'_>, period: Arg<'_>) -> Result<Quota, String> {
    let capacity = parse("max_burst", max_burst, 0, MAX_AMOUNT - 1)? + 1;
    let count = parse("count", count, 1, MAX_AMOUNT)?;
    let period = parse("period", period, 1, MAX_AMOUNT)?;
    let rate = period.checked_mul(1_000_000).and_then(|period| Rate::new(count, period)).ok_or(
        "ERR invalid count and period: expected a rate from 1 per 10 years to 1000000000 per second, period in seconds",
    )?;
    let quota = BucketQuota::new(capacity, rate);
    quota.map(Quota::TokenBucket).ok_or_else(|| {
        format!("ERR invalid count and period: a bucket of {capacity} would take longer than 100 years to fill")
    })
}

fn parse(name: &str, word: Arg<'_>, min: u64, max: u64) -> Result<u64, String> {
    let number = std::str::from_utf8(word.bytes()).ok().and_then(|text| text.parse().ok());
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("ERR invalid {name} {}: expected an integer from {min} to {max}", Quoted(word.bytes())))
}

/// Its five integers: limited or not, the limit, what remains, and in seconds the wait, -1 if there is none to tell, and
/// the time until the key is as good as new.
fn reply(decision: Decision) -> [i64; 5] {
    let wait = match decision.retry {
        Retry::After(wait) => to_seconds(wait),
        Retry::Now | Retry::Never => -1,
    };
    [
        i64::from(!decision.allowed),
        decision.limit.cast_signed(),
        decision.remaining.cast_signed(),
        wait,
        to_seconds(decision.reset_after),
    ]
}

/// Seconds, rounded up from whole milliseconds, of which redis-cell drops the rest.
fn to_seconds(time: Micros) -> i64 {
    (time / 1_000).div_ceil(1_000).cast_signed()
}

/// What a request for nothing is told: how things stand.
fn look(ctx: &mut Context, key: Arg<'_>, quota: &Quota, now: Micros) -> Result<Decision, String> {
    let peek = |limiter: &Limiter| limiter.peek(quota, 0, now).map_err(|other| other_algorithm(None, other));
    let found = look_at(ctx, key, |held| match held {
        Held::Limiter(limiter) => peek(limiter),
        Held::Policy(_) => Err(holds_policy(None, held, Algorithm::TokenBucket)),
    });
    match found {
        Ok(Some(seen)) => seen,
        Ok(None) => peek(&Limiter::new(quota)),
        Err(Foreign) => peek(&left_by_redis_cell(ctx, key, quota, now)?),
    }
}

fn request(ctx: &mut Context, key: Arg<'_>, quota: &Quota, cost: u64, now: Micros) -> Result<Decision, String> {
    let options = Options { cost, force: false };
    let decided = Key::open(ctx, key).map(|key| decide(key, quota, options, now));
    let decision = if let Ok(decided) = decided {
        decided?
    } else {
        let limiter = left_by_redis_cell(ctx, key, quota, now)?;
        let seen = limiter.peek(quota, cost, now).map_err(|other| other_algorithm(None, other))?;
        if seen.allowed {
            decide(Key::replace(ctx, key, Held::Limiter(limiter)), quota, options, now)?
        } else {
            seen
        }
    };
    // What redis-cell wrote into an append-only file is the command itself, which has been answered long ago.
    if !ctx.is_following() {
        count(ctx, stats::of(Algorithm::TokenBucket), key, decision.into(), now);
    }
    Ok(decision)
}

/// redis-cell keeps the time when a key will be as good as new, in nanoseconds since the epoch, in a string that expires
/// then. Whoever loads its data with this module finds such strings, and nobody is to get a new limit for that. What is
/// another number, or expires at another time, belongs to somebody else.
fn left_by_redis_cell(ctx: &mut Context, key: Arg<'_>, quota: &Quota, now: Micros) -> Result<Limiter, String> {
    // From the year 2001 on, and for longer than a signed number can hold.
    const DIGITS: usize = 19;
    const FIRST: u64 = 1_000_000_000_000_000_000;
    // It sets the two one after the other, and a replica may have set the expiry by another clock.
    const MILLIS_APART: u64 = 2_000;
    let nanoseconds = |text: &[u8], expires_at: u64| {
        let number = std::str::from_utf8(text).ok()?.parse::<i64>().ok()?;
        let number = u64::try_from(number).ok().filter(|&number| number >= FIRST)?;
        ((number / 1_000_000).abs_diff(expires_at) <= MILLIS_APART).then_some(number)
    };
    let full_at = text_that_expires(ctx, key, DIGITS, nanoseconds).flatten().ok_or(WRONG_TYPE)?;
    Limiter::of_bucket_full_at(quota, full_at.div_ceil(1_000), now).ok_or_else(|| WRONG_TYPE.to_owned())
}
