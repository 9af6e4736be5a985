//! `RL.REFUND key n`: gives back what was taken and not used.

use super::wrong_type::WRONG_TYPE;
use super::{reply, WRONG_ARITY};
use crate::datatype::Key;
use crate::limiter::{parse_amount, Held};
use crate::policies;
use crate::replication::FactBytes;
use crate::server::{clock, Args, Command, Context};
use crate::stats;

/// The command.
pub struct Refund;

impl Command for Refund {
    const NAME: &'static str = "REFUND";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let (Some(name), Some(amount)) = (args.get(1), args.get(2)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        let amount = parse_amount("n", amount.bytes()).map_err(|bad| format!("ERR {bad}"))?;
        let now = clock::now();

        let mut key = Key::open(ctx, name).map_err(|_| WRONG_TYPE)?;
        let refunded = key.held().and_then(|held| held.refund(amount, now).then_some(held));
        let refunded = refunded.map(|held| {
            count(held);
            held.idle_at(now)
        });
        if let Some(idle_at) = refunded {
            key.keep_until(idle_at.max(now));
            key.changed(|| FactBytes::refunded(amount, now));
        }
        let answer = key.held().map(|held| held.peek(1, now));
        drop(key);
        reply::answer(ctx, answer);
        Ok(())
    }
}

/// Counts a refund, for the policy or the algorithm. A policy that is not in force any more is not counted.
fn count(held: &Held) {
    match held {
        Held::Limiter(limiter) => stats::of(limiter.algorithm()).refund(),
        Held::Policy(limits) => {
            if let Some((_, limits)) = policies::find(limits.policy().as_bytes()) {
                limits.tally.refund();
            }
        }
    }
}
