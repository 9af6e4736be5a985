//! `RL.ALL numlimits ALGORITHM key a b [ALGORITHM key a b …] [COST n]`: a request to several limits on several keys.

use limiter::{Decision, PerLimit, Quota, Request, Verdict, MAX_LIMITS};

use super::options::{CommandOption, WithOptions};
use super::outcome;
use crate::datatype::Key;
use crate::error::Error;
use crate::policies::parse_limit;
use crate::replication::{apply, consumers, EffectBytes};
use crate::server::{self, Arg, Args, Command, Context};
use crate::stats;

/// The position of the first limit, and the number of arguments of each limit. The server finds the keys by these numbers
/// ([`crate::server::Keys::Fours`]), which is right as long as at most three words follow the limits.
const FIRST: usize = 2;
const STEP: usize = 4;

/// `RL.ALL`
pub struct All;

impl WithOptions for All {
    const OPTIONS: &'static [CommandOption] = &[CommandOption::Cost];
}

impl Command for All {
    const NAME: &'static str = "ALL";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let count = parse_numlimits(args)?;
        let options = Self::parse_options(args.bytes_from(FIRST + STEP * count))?;
        let mut limits = PerLimit::with_capacity(count);
        for index in 0..count {
            limits.push(parse_one(args, index)?);
        }
        let (mut decisions, now) = (PerLimit::new(), server::now());
        let verdict = decide(ctx, &limits, options.request(now), &mut decisions)?;
        for ((name, quota), decision) in limits.iter().zip(&decisions) {
            // A limit that allowed a request which others denied has nothing to record.
            if decision.allowed == verdict.allowed {
                outcome::record(ctx, stats::of(quota.algorithm()), *name, (*decision).into(), now);
            }
        }
        outcome::reply_with_all(ctx, verdict, &decisions);
        Ok(())
    }
}

#[inline(always)]
fn parse_numlimits(args: Args<'_>) -> Result<usize, Error> {
    let given = args.get(1).map_or(&b""[..], |arg| arg.bytes());
    // As clients read it that look for the keys: no sign, and no leading zero.
    let text = std::str::from_utf8(given).ok().filter(|text| text.starts_with(|c: char| ('1'..='9').contains(&c)));
    let count = text.and_then(|text| text.parse().ok()).filter(|count| (1..=MAX_LIMITS).contains(count));
    let invalid = || Error::InvalidInteger { name: "numlimits", given: given.to_vec(), min: 1, max: MAX_LIMITS as u64 };
    let count = count.ok_or_else(invalid)?;
    let found = args.len().saturating_sub(FIRST) / STEP;
    if found < count {
        return Err(Error::MissingLimits { expected: count, found });
    }
    Ok(count)
}

#[inline(always)]
fn parse_one(args: Args<'_>, index: usize) -> Result<(Arg<'_>, Quota), Error> {
    let at = FIRST + STEP * index;
    let limit = (args.get(at), args.get(at + 1), args.get(at + 2), args.get(at + 3));
    let (Some(algorithm), Some(name), Some(a), Some(b)) = limit else { return Err(Error::WrongArity) };
    let quota = parse_limit(algorithm.bytes(), a.bytes(), b.bytes());
    Ok((name, quota.map_err(|error| Error::invalid(format_args!("limit {}: {error}", index + 1)))?))
}

/// Decides on a request, and replicates what it took.
fn decide(
    ctx: &mut Context,
    limits: &[(Arg<'_>, Quota)],
    request: Request,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, Error> {
    let names = limits.iter().map(|(name, _)| *name);
    let mut keys = Key::open_all(ctx, names.clone(), |_| false)?;
    let taken = apply::take_all(&mut keys, limits, request, decisions);
    let verdict = taken.map_err(|(index, error)| error.with_key(limits[index].0.bytes()))?;
    if verdict.taken {
        if let Some(ctx) = keys.first().map(Key::context) {
            let effect = |index: usize| EffectBytes::take(&limits[index].1, request.cost, request.now);
            consumers::all_changed(ctx, names, effect);
        }
    }
    Ok(verdict)
}
