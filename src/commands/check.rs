//! `RL.CHECK policy key [COST n] [FORCE]`: a request to all limits of a policy, in one key.

use limiter::{Decision, PerLimit, PolicyName, Quota, Request, Verdict};

use super::options::{self, CommandOption, Options, WithOptions};
use super::outcome;
use crate::datatype::Key;
use crate::error::Error;
use crate::policies;
use crate::replication::{apply, consumers, PolicyEffectBytes};
use crate::server::{self, Arg, Args, Command, Context};

/// How many policies the error for an unknown policy names.
const NAMED: usize = 20;

/// `RL.CHECK`
pub struct Check;

impl WithOptions for Check {
    const OPTIONS: &'static [CommandOption] = options::REQUEST;
}

impl Command for Check {
    const NAME: &'static str = "CHECK";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let (Some(policy), Some(key)) = (args.get(1), args.get(2)) else { return Err(Error::WrongArity) };
        let options = if args.get(3).is_none() { Options::default() } else { Self::parse_options(args.bytes_from(3))? };
        let (name, limits) = policies::find(policy.bytes()).ok_or_else(|| unknown(policy))?;
        let (mut decisions, now) = (PerLimit::new(), server::now());
        let open = Key::open(ctx, key)?;
        let verdict = decide(open, &name, &limits.quotas, options.request(now), &mut decisions)?;
        outcome::record(ctx, &limits.counters, key, verdict.into(), now);
        outcome::reply_with_all(ctx, verdict, &decisions);
        Ok(())
    }
}

/// Decides on a request, and replicates what it took, together with the limits: a replica does not need the policy.
fn decide(
    mut key: Key<'_>,
    policy: &PolicyName,
    quotas: &[Quota],
    request: Request,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, Error> {
    let verdict = apply::take_policy(&mut key, policy, quotas, request, decisions)?;
    if verdict.taken {
        let effect = || PolicyEffectBytes::take(policy, quotas, request.cost, request.now);
        consumers::changed(key.context(), key.name(), effect);
    }
    Ok(verdict)
}

#[cold]
fn unknown(policy: Arg<'_>) -> Error {
    let known = policies::names(NAMED);
    let more = policies::count().saturating_sub(known.len());
    Error::UnknownPolicy { name: policy.bytes().to_vec(), known, more }
}
