//! `RL.CHECK policy key [COST n] [FORCE]`: one request to all limits of a policy, which one key holds.

use super::counting::count;
use super::wrong_type::{holds_no_policy, WRONG_TYPE};
use super::{reply, Options, WRONG_ARITY};
use crate::datatype::Key;
use crate::limiter::{Decision, Held, Micros, PerLimit, PolicyLimits, PolicyName, Quota, Quoted, Verdict};
use crate::policies;
use crate::replication::PolicyFactBytes;
use crate::server::{clock, Arg, Args, Command, Context};

/// How many of the known policies are named to somebody who asked for one that is not.
const NAMED: usize = 20;

/// The command.
pub struct Check;

impl Command for Check {
    const NAME: &'static str = "CHECK";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let (Some(policy), Some(key)) = (args.get(1), args.get(2)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        let options = if args.get(3).is_none() { Options::default() } else { Options::parse(args.bytes_from(3))? };
        let (name, limits) = policies::find(policy.bytes()).ok_or_else(|| unknown(policy))?;
        let (mut decisions, now) = (PerLimit::new(), clock::now());
        let asked = Asked { policy: &name, quotas: &limits.quotas, options };
        let verdict = decide(ctx, key, &asked, now, &mut decisions)?;
        count(ctx, &limits.tally, key, verdict.into(), now);
        reply::verdict(ctx, verdict, &decisions);
        Ok(())
    }
}

/// What a key is asked.
struct Asked<'a> {
    policy: &'a PolicyName,
    quotas: &'a [Quota],
    options: Options,
}

/// Decides, and stores and replicates what was taken. What is replicated says what the policy is: a replica needs none.
fn decide(
    ctx: &mut Context,
    key: Arg<'_>,
    asked: &Asked<'_>,
    now: Micros,
    decisions: &mut PerLimit<Decision>,
) -> Result<Verdict, String> {
    let Asked { policy, quotas, options: Options { cost, force } } = *asked;
    let mut key = Key::open(ctx, key).map_err(|_| WRONG_TYPE)?;
    let verdict = match key.held() {
        Some(Held::Policy(limits)) => limits.request(quotas, cost, force, now, decisions),
        Some(Held::Limiter(limiter)) => return Err(holds_no_policy(limiter)),
        None => {
            let mut limits = PolicyLimits::new(policy.clone(), quotas);
            let verdict = limits.request(quotas, cost, force, now, decisions);
            if verdict.taken {
                key.set(Held::Policy(limits));
            }
            verdict
        }
    };
    if verdict.taken {
        key.keep_until(now + verdict.reset_after);
        key.put_under(policy);
        key.changed(|| PolicyFactBytes::taken(policy, quotas, cost, now));
    }
    Ok(verdict)
}

#[cold]
fn unknown(policy: Arg<'_>) -> String {
    let names = policies::names(NAMED);
    let known = match policies::count().saturating_sub(names.len()) {
        _ if names.is_empty() => "there are none yet, RL.POLICY SET makes one".to_owned(),
        0 => format!("known are {}", names.join(", ")),
        more => format!("known are {} and {more} more", names.join(", ")),
    };
    format!("ERR unknown policy {}: {known}", Quoted(policy.bytes()))
}
