//! `RL.PEEK key [COST n]`: the decision on a request, without taking anything.

use super::options::{CommandOption, WithOptions};
use super::outcome;
use crate::datatype::read;
use crate::error::Error;
use crate::server::{self, Args, Command, Context};

/// `RL.PEEK`
pub struct Peek;

impl WithOptions for Peek {
    const OPTIONS: &'static [CommandOption] = &[CommandOption::Cost];
}

impl Command for Peek {
    const NAME: &'static str = "PEEK";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let key = args.get(1).ok_or(Error::WrongArity)?;
        let options = Self::parse_options(args.bytes_from(2))?;
        let now = server::now();
        let decided = read(ctx, key, |value| value.peek(options.cost, now))?;
        outcome::reply_for_value(ctx, decided);
        Ok(())
    }
}
