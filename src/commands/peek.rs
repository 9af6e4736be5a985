//! `RL.PEEK key [COST n]`: what a request would be told, without taking anything.

use super::wrong_type::WRONG_TYPE;
use super::{reply, Options, WRONG_ARITY};
use crate::datatype::look_at;
use crate::server::{clock, Args, Command, Context};

/// The command.
pub struct Peek;

impl Command for Peek {
    const NAME: &'static str = "PEEK";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let key = args.get(1).ok_or(WRONG_ARITY)?;
        let cost = Options::parse_cost(args.bytes_from(2))?;
        let now = clock::now();
        let answer = look_at(ctx, key, |held| held.peek(cost, now)).map_err(|_| WRONG_TYPE)?;
        reply::answer(ctx, answer);
        Ok(())
    }
}
