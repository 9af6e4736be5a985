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

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let (Some(name), Some(fact)) = (args.get(1), args.get(2)) else {
            return Err(WRONG_ARITY.to_owned());
        };
        let fact = Fact::decode(fact.bytes()).ok_or("ERR the fact is damaged or of an unknown version")?;

        let mut key = Key::open(ctx, name).map_err(|_| WRONG_TYPE)?;
        // Taking moves the expiry, here as it did where it was decided. With a state comes its own: as a command.
        let moves_expiry = matches!(fact, Fact::Taken { .. });
        if let Some(limiter) = fact.apply(key.limiter()).map_err(|unfit| format!("ERR {unfit}"))? {
            key.set(limiter);
        }
        if let Some(idle_at) = key.limiter().filter(|_| moves_expiry).map(|limiter| limiter.idle_at()) {
            key.keep_until(idle_at);
        }
        key.changed_by_this_command();
        drop(key);
        ctx.reply_with_ok();
        Ok(())
    }
}
