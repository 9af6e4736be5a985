//! `RL.TOKENBUCKET`, `RL.LEAKYBUCKET`, `RL.FIXEDWINDOW`, `RL.SLIDINGLOG`, `RL.SLIDINGCOUNTER`: one request to one
//! limiter, `key a b [COST n] [FORCE]`.

use super::counting::count;
use super::wrong_type::{holds_policy, other_algorithm, WRONG_TYPE};
use super::{reply, Options, WRONG_ARITY};
use crate::datatype::Key;
use crate::limiter::{Algorithm, Decision, Held, Limiter, Micros, OtherAlgorithm, Quota};
use crate::replication::FactBytes;
use crate::server::{clock, Args, Command, Context};
use crate::stats;

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
        let now = clock::now();
        let decision = decide(Key::open(ctx, key).map_err(|_| WRONG_TYPE)?, &quota, options, now)?;
        count(ctx, stats::of(Algorithm::ALL[ALGORITHM]), key, decision.into(), now);
        reply::decision(ctx, decision);
        Ok(())
    }
}

/// Decides, and stores and replicates what was taken.
// Inlined, like all that it calls, so that each command is compiled as the code of its algorithm alone.
#[inline(always)]
pub fn decide(mut key: Key<'_>, quota: &Quota, options: Options, now: Micros) -> Result<Decision, String> {
    let Options { cost, force } = options;
    let decision = match key.held() {
        Some(Held::Limiter(limiter)) => {
            limiter.request(quota, cost, force, now).map_err(|other| other_algorithm(None, other))?
        }
        Some(held @ Held::Policy(_)) => return Err(holds_policy(None, held, quota.algorithm())),
        None => {
            let (limiter, decision) =
                decide_first(quota, options, now).map_err(|other| other_algorithm(None, other))?;
            if decision.taken {
                key.set(Held::Limiter(limiter));
            }
            decision
        }
    };
    if decision.taken {
        key.keep_until(now + decision.reset_after);
        key.changed(|| FactBytes::taken(quota, cost, now));
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
