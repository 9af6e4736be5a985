//! `RL.APPLY key fact [key fact …]`: what was decided elsewhere is made so here. It arrives from a primary, from the
//! append-only file, or from a server that hands over slots, and does the same in each case.

use super::wrong_type::cannot_open;
use super::WRONG_ARITY;
use crate::datatype::Key;
use crate::limiter::{PerLimit, MAX_LIMITS};
use crate::replication::{Fact, Unfit};
use crate::server::{Arg, Args, Command, Context};

/// The command.
pub struct Apply;

impl Command for Apply {
    const NAME: &'static str = "APPLY";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let (names, facts) = parse(args)?;
        let mut keys =
            Key::open_all(ctx, names.iter().copied(), |place| facts[place].replaces()).map_err(cannot_open)?;
        // All of it, or nothing.
        if !keys.iter_mut().zip(&facts).all(|(key, fact)| fact.fits(key.held().as_deref())) {
            return Err(format!("ERR {Unfit}"));
        }
        for (key, fact) in keys.iter_mut().zip(facts) {
            let (moves_expiry_at, policy) = (fact.moves_expiry_at(), fact.policy());
            if let Some(held) = fact.apply(key.held()).map_err(|unfit| format!("ERR {unfit}"))? {
                key.set(held);
            }
            if let Some(policy) = policy {
                key.put_under_named(policy);
            }
            if let (Some(at), Some(held)) = (moves_expiry_at, key.held()) {
                let idle_at = held.idle_at(at);
                key.keep_until(idle_at.max(at));
            }
        }
        Key::all_changed_by_this_command(&keys);
        drop(keys);
        ctx.reply_with_ok();
        Ok(())
    }
}

fn parse(args: Args<'_>) -> Result<(PerLimit<Arg<'_>>, PerLimit<Fact<'_>>), String> {
    let (mut names, mut facts) = (PerLimit::new(), PerLimit::new());
    if args.len() > 1 + 2 * MAX_LIMITS {
        return Err(format!("ERR more than {MAX_LIMITS} facts at once"));
    }
    for place in (1..args.len()).step_by(2) {
        let (Some(name), Some(fact)) = (args.get(place), args.get(place + 1)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        names.push(name);
        facts.push(Fact::decode(fact.bytes()).ok_or("ERR the fact is damaged or of an unknown version")?);
    }
    Ok((names, facts))
}
