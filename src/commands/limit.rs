//! `RL.TOKENBUCKET`, `RL.LEAKYBUCKET`, `RL.FIXEDWINDOW`, `RL.SLIDINGLOG`, `RL.SLIDINGCOUNTER`: one request to one
//! limiter, `key a b [COST n] [FORCE]`.

use super::{Options, WRONG_ARITY, WRONG_TYPE};
use crate::datatype::Key;
use crate::limiter::{Algorithm, Decision, Limiter, Micros, OtherAlgorithm, Quota};
use crate::replication::TakenBytes;
use crate::server::{clock, Arg, Args, Command, Context};

/// The command of the algorithm with this number.
pub struct Limit<const ALGORITHM: usize>;

impl<const ALGORITHM: usize> Command for Limit<ALGORITHM> {
    const NAME: &'static str = Algorithm::ALL[ALGORITHM].name();

    #[inline(always)]
    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        // The server has checked the arity already.
        let (Some(key), Some(a), Some(b)) = (args.get(1), args.get(2), args.get(3)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        // Most requests have none, and are spared the reading.
        let options = if args.get(4).is_none() { Options::default() } else { Options::parse(args.bytes_from(4))? };
        let quota =
            Quota::parse(Algorithm::ALL[ALGORITHM], a.bytes(), b.bytes()).map_err(|bad| format!("ERR {bad}"))?;
        let decision = decide(ctx, key, &quota, options, clock::now())?;
        let reply = decision.to_reply();
        ctx.reply_with_integers(reply.five, reply.delay);
        Ok(())
    }
}

/// Decides, and stores and replicates what was taken.
// Inlined, like all that it calls, so that each command is compiled as the code of its algorithm alone.
#[inline(always)]
fn decide(ctx: &mut Context, key: Arg<'_>, quota: &Quota, options: Options, now: Micros) -> Result<Decision, String> {
    let Options { cost, force } = options;
    let mut key = Key::open(ctx, key).map_err(|_| WRONG_TYPE)?;
    let decision = if let Some(limiter) = key.limiter() {
        limiter.request(quota, cost, force, now).map_err(other_algorithm)?
    } else {
        let (limiter, decision) = decide_first(quota, options, now).map_err(other_algorithm)?;
        if decision.taken {
            key.set(limiter);
        }
        decision
    };
    if decision.taken {
        key.keep_until(now + decision.reset_after);
        key.changed(|| TakenBytes::new(quota, cost, now));
    }
    Ok(decision)
}

/// Decides on the first request to a key that holds nothing.
#[inline(never)]
fn decide_first(quota: &Quota, options: Options, now: Micros) -> Result<(Limiter, Decision), OtherAlgorithm> {
    let mut limiter = Limiter::new(quota);
    let decision = limiter.request(quota, options.cost, options.force, now)?;
    Ok((limiter, decision))
}

#[cold]
fn other_algorithm(OtherAlgorithm { held, asked }: OtherAlgorithm) -> String {
    format!("WRONGTYPE the key holds a {} limiter, not a {} one; DEL it to start afresh", held.name(), asked.name())
}
