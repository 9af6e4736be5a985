//! `RL.APPLY key fact`: what was decided elsewhere is made so here. It arrives from a primary, from the append-only
//! file, or from a server that hands over slots, and does the same in each case.

use super::{WRONG_ARITY, WRONG_TYPE};
use crate::datatype::Key;
use crate::replication::Fact;
use crate::server::{Args, Command, Context};

/// The command.
pub struct Apply;

impl Command for Apply {
    const NAME: &'static str = "APPLY";

    fn run(ctx: &Context, args: Args<'_>) -> Result<(), String> {
        let (Some(name), Some(fact)) = (args.get(1), args.get(2)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        let fact = Fact::decode(fact.bytes()).ok_or("ERR the fact is damaged or of an unknown version")?;

        let mut key = Key::open(ctx, name).map_err(|_| WRONG_TYPE)?;
        if let Some(limiter) = fact.apply(key.limiter()).map_err(|unfit| format!("ERR {unfit}"))? {
            key.set(limiter);
        }

        if let Some(idle_at) = key.limiter().map(|limiter| limiter.idle_at()) {
            key.keep_until(idle_at);
        }
        ctx.signal_modified(name);
        ctx.replicate_verbatim();
        ctx.reply_with_ok();
        Ok(())
    }
}
