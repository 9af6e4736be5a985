//! `RL.TOKENBUCKET`, `RL.LEAKYBUCKET`, `RL.FIXEDWINDOW`, `RL.SLIDINGLOG`, `RL.SLIDINGCOUNTER`: one request to one
//! limiter, `key a b [COST n] [FORCE]`.

use super::{WRONG_ARITY, WRONG_TYPE};
use crate::datatype::Key;
use crate::limiter::{parse_amount, Algorithm, Decision, Limiter, Micros, OtherAlgorithm, Quota, Quoted, AMOUNT_FORM};
use crate::replication::TakenBytes;
use crate::server::{clock, Arg, Args, Command, Context};

/// The command of the algorithm with this number.
pub struct Limit<const ALGORITHM: usize>;

impl<const ALGORITHM: usize> Command for Limit<ALGORITHM> {
    const NAME: &'static str = Algorithm::ALL[ALGORITHM].name();

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let request = Request::parse(Algorithm::ALL[ALGORITHM], args)?;
        let decision = decide(ctx, &request, clock::now())?;
        ctx.reply_with_integers(decision.to_reply());
        Ok(())
    }
}

fn decide(ctx: &mut Context, request: &Request<'_>, now: Micros) -> Result<Decision, String> {
    let Request { key: name, quota, cost, force } = *request;
    let mut key = Key::open(ctx, name).map_err(|_| WRONG_TYPE)?;
    let decision = if let Some(limiter) = key.limiter() {
        limiter.request(&quota, cost, force, now).map_err(other_algorithm)?
    } else {
        let mut limiter = Limiter::new(&quota);
        let decision = limiter.request(&quota, cost, force, now).map_err(other_algorithm)?;
        if decision.taken {
            key.set(limiter);
        }
        decision
    };
    if decision.taken {
        key.keep_until(now + decision.reset_after);
        key.changed(TakenBytes::new(&quota, cost, now).as_slice());
    }
    Ok(decision)
}

fn other_algorithm(OtherAlgorithm { held, asked }: OtherAlgorithm) -> String {
    format!("WRONGTYPE the key holds a {} limiter, not a {} one; DEL it to start afresh", held.name(), asked.name())
}

/// What a client asks for.
struct Request<'a> {
    key: Arg<'a>,
    quota: Quota,
    cost: u64,
    force: bool,
}

impl<'a> Request<'a> {
    fn parse(algorithm: Algorithm, args: Args<'a>) -> Result<Self, String> {
        // The server has checked the arity already.
        let (Some(key), Some(a), Some(b)) = (args.get(1), args.get(2), args.get(3)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        let quota = Quota::parse(algorithm, a.bytes(), b.bytes()).map_err(|bad| format!("ERR {bad}"))?;
        let (mut cost, mut force) = (None, false);
        let mut next = 4;
        while let Some(option) = args.get(next) {
            let option = option.bytes();
            next += 1;
            if option.eq_ignore_ascii_case(b"COST") {
                let value = args.get(next).ok_or_else(|| format!("ERR COST needs a value: {AMOUNT_FORM}"))?;
                next += 1;
                let value = parse_amount("COST", value.bytes()).map_err(|bad| format!("ERR {bad}"))?;
                if cost.replace(value).is_some() {
                    return Err("ERR COST is given twice".to_owned());
                }
            } else if option.eq_ignore_ascii_case(b"FORCE") {
                if force {
                    return Err("ERR FORCE is given twice".to_owned());
                }
                force = true;
            } else {
                return Err(format!("ERR unknown option {}: expected COST n or FORCE", Quoted(option)));
            }
        }
        Ok(Self { key, quota, cost: cost.unwrap_or(1), force })
    }
}
