//! `RL.REFUND key n`: gives back what was taken.

use limiter::{parse_amount, Value};

use super::outcome;
use crate::datatype::Key;
use crate::error::Error;
use crate::policies;
use crate::replication::{apply, consumers, EffectBytes, OpenKey};
use crate::server::{self, Args, Command, Context};
use crate::stats;

/// `RL.REFUND`
pub struct Refund;

impl Command for Refund {
    const NAME: &'static str = "REFUND";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let (Some(name), Some(amount)) = (args.get(1), args.get(2)) else { return Err(Error::WrongArity) };
        let amount = parse_amount("n", amount.bytes())?;
        let now = server::now();

        let mut key = Key::open(ctx, name)?;
        if apply::refund(&mut key, amount, now) {
            if let Some(value) = key.value() {
                count(value);
            }
            consumers::changed(key.context(), name, || EffectBytes::refund(amount, now));
        }
        let decided = key.value().map(|value| value.peek(1, now));
        drop(key);
        outcome::reply_for_value(ctx, decided);
        Ok(())
    }
}

/// Counts a refund, for the policy or the algorithm. A policy that is not in force any more has no counters.
fn count(value: &Value) {
    match value {
        Value::Limiter(limiter) => stats::of(limiter.algorithm()).refund(),
        Value::Policy(limits) => {
            if let Some((_, limits)) = policies::find(limits.policy().as_bytes()) {
                limits.counters.refund();
            }
        }
    }
}
