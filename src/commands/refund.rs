//! `RL.REFUND key n`: gives back what was taken and not used.

use super::wrong_type::WRONG_TYPE;
use super::{reply, WRONG_ARITY};
use crate::datatype::Key;
use crate::limiter::parse_amount;
use crate::replication::FactBytes;
use crate::server::{clock, Args, Command, Context};

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
        let refunded = key.held().and_then(|held| held.refund(amount, now).then(|| held.idle_at()));
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
