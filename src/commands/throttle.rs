//! `CL.THROTTLE key max_burst count period [quantity]`: redis-cell's command, with the same replies, on a token bucket.

use std::sync::atomic::{AtomicBool, Ordering};

use limiter::{Algorithm, BucketQuota, Decision, Limiter, Micros, Quota, Rate, Request, Retry, Value, MAX_AMOUNT};

use super::limit::decide;
use super::outcome;
use crate::datatype::{expiring_string, read, Key, WrongType};
use crate::error::Error;
use crate::server::{self, Arg, Args, Command, Context};
use crate::stats;

/// Whether the command is enabled.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// Whether this module has registered the command, and whether it has been loaded, after which it cannot.
static REGISTERED: AtomicBool = AtomicBool::new(false);
static LOADED: AtomicBool = AtomicBool::new(false);

/// Whether the command is enabled.
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Enables or disables the command.
///
/// # Errors
/// When it cannot be enabled.
pub fn set_enabled(enabled: bool) -> Result<(), &'static str> {
    if enabled && !is_enabled() && LOADED.load(Ordering::Relaxed) && !REGISTERED.load(Ordering::Relaxed) {
        return Err(
            "CL.THROTTLE was disabled when the module was loaded, or belongs to another module; restart to enable it",
        );
    }
    ENABLED.store(enabled, Ordering::Relaxed);
    Ok(())
}

/// Tells that the module has been loaded, and whether it has registered the command.
pub fn set_loaded(registered: bool) {
    REGISTERED.store(registered, Ordering::Relaxed);
    LOADED.store(true, Ordering::Relaxed);
}

/// `CL.THROTTLE`
pub struct Throttle;

impl Command for Throttle {
    const NAME: &'static str = "THROTTLE";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let (Some(key), Some(max_burst), Some(count), Some(period)) =
            (args.get(1), args.get(2), args.get(3), args.get(4))
        else {
            return Err(Error::WrongArity);
        };
        if args.len() > 6 {
            return Err(Error::WrongArity);
        }
        if !is_enabled() {
            return Err(Error::ThrottleDisabled);
        }
        let quota = parse_quota(max_burst, count, period)?;
        let quantity = args.get(5).map_or(Ok(1), |it| parse("quantity", it, 0, MAX_AMOUNT))?;
        let now = server::now();
        let decision = if quantity == 0 {
            peek(ctx, key, &quota, now)?
        } else {
            request(ctx, key, &quota, Request::new(quantity, now))?
        };
        ctx.reply_with_integers(reply(decision), None);
        Ok(())
    }
}

fn parse_quota(max_burst: Arg<'_>, count: Arg<'_>, period: Arg<'_>) -> Result<Quota, Error> {
    const RATE: &str =
        "invalid count and period: expected a rate from 1 per 10 years to 1000000000 per second, period in seconds";
    let capacity = parse("max_burst", max_burst, 0, MAX_AMOUNT - 1)? + 1;
    let count = parse("count", count, 1, MAX_AMOUNT)?;
    let period = parse("period", period, 1, MAX_AMOUNT)?;
    let rate = period.checked_mul(1_000_000).and_then(|period| Rate::new(count, period));
    let quota = BucketQuota::new(capacity, rate.ok_or_else(|| Error::invalid(RATE))?);
    quota.map(Quota::TokenBucket).ok_or_else(|| {
        Error::invalid(format_args!(
            "invalid count and period: a bucket of {capacity} would take longer than 100 years to fill"
        ))
    })
}

fn parse(name: &'static str, word: Arg<'_>, min: u64, max: u64) -> Result<u64, Error> {
    let number = std::str::from_utf8(word.bytes()).ok().and_then(|text| text.parse().ok());
    let in_range = number.filter(|number| (min..=max).contains(number));
    in_range.ok_or_else(|| Error::InvalidInteger { name, given: word.bytes().to_vec(), min, max })
}

/// Whether the request is limited, the limit, the remaining quota, and in seconds the time until a retry, -1 if there is
/// none, and the time until the limit fully resets.
fn reply(decision: Decision) -> [i64; 5] {
    let retry_after = match decision.retry {
        Retry::After(wait) => to_seconds(wait),
        Retry::Now | Retry::Never => -1,
    };
    [
        i64::from(!decision.allowed),
        decision.limit.cast_signed(),
        decision.remaining.cast_signed(),
        retry_after,
        to_seconds(decision.reset_after),
    ]
}

/// Whole milliseconds, of which redis-cell drops the rest, in seconds, rounded up.
fn to_seconds(time: Micros) -> i64 {
    (time / 1_000).div_ceil(1_000).cast_signed()
}

/// The decision on a request with quantity 0, which only reports the state.
fn peek(ctx: &mut Context, key: Arg<'_>, quota: &Quota, now: Micros) -> Result<Decision, Error> {
    let peek = |limiter: &Limiter| limiter.peek(quota, 0, now).map_err(Error::from);
    let found = read(ctx, key, |value| match value {
        Value::Limiter(limiter) => peek(limiter),
        Value::Policy(_) => Err(Error::holds_policy(value, Algorithm::TokenBucket)),
    });
    match found {
        Ok(Some(decided)) => decided,
        Ok(None) => peek(&Limiter::new(quota)),
        Err(WrongType) => peek(&left_by_redis_cell(ctx, key, quota, now)?),
    }
}

fn request(ctx: &mut Context, key: Arg<'_>, quota: &Quota, request: Request) -> Result<Decision, Error> {
    let decided = Key::open(ctx, key).map(|key| decide(key, quota, request));
    let decision = if let Ok(decided) = decided {
        decided?
    } else {
        let limiter = left_by_redis_cell(ctx, key, quota, request.now)?;
        let decision = limiter.peek(quota, request.cost, request.now)?;
        if decision.allowed {
            decide(Key::replace(ctx, key, Value::Limiter(limiter)), quota, request)?
        } else {
            decision
        }
    };
    // redis-cell replicates the command itself: what it has left in an append-only file was decided and recorded before.
    if !ctx.is_replicated_or_loading() {
        outcome::record(ctx, stats::of(Algorithm::TokenBucket), key, decision.into(), request.now);
    }
    Ok(decision)
}

/// The bucket of a key that redis-cell has left: a string of the time when the limit resets, in nanoseconds since the epoch,
/// which expires at that time. Such keys are in data files of redis-cell's users, whose limits must not start over. Another
/// number, or another expiry, is not redis-cell's.
fn left_by_redis_cell(ctx: &mut Context, key: Arg<'_>, quota: &Quota, now: Micros) -> Result<Limiter, Error> {
    // From the year 2001 on, and for longer than a signed integer can hold.
    const DIGITS: usize = 19;
    const FIRST: u64 = 1_000_000_000_000_000_000;
    // It sets the string and the expiry one after the other, and a replica may have set the expiry by another clock.
    const MILLIS_APART: u64 = 2_000;
    let nanoseconds = |text: &[u8], expires_at: u64| {
        let number = std::str::from_utf8(text).ok()?.parse::<i64>().ok()?;
        let number = u64::try_from(number).ok().filter(|&number| number >= FIRST)?;
        ((number / 1_000_000).abs_diff(expires_at) <= MILLIS_APART).then_some(number)
    };
    let full_at = expiring_string(ctx, key, DIGITS, nanoseconds).flatten().ok_or(WrongType)?;
    Ok(Limiter::token_bucket_full_at(quota, full_at.div_ceil(1_000), now).ok_or(WrongType)?)
}
