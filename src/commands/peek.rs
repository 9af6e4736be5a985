//! `RL.PEEK key [COST n]`: the decision on a request, without taking anything.

use super::options::{self, CommandOption, Options};
use super::outcome;
use crate::datatype::read;
use crate::error::Error;
use crate::server::{self, Args, ArgumentSpec, Command, Context};

const OPTIONS: &[CommandOption] = &[CommandOption::Cost];

/// `RL.PEEK`
pub struct Peek;

impl Command for Peek {
    const NAME: &'static str = "PEEK";

    fn options() -> Vec<ArgumentSpec> {
        options::docs(OPTIONS)
    }

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let key = args.get(1).ok_or(Error::WrongArity)?;
        let options = Options::parse(OPTIONS, args.bytes_from(2))?;
        let now = server::now();
        let decided = read(ctx, key, |value| value.peek(options.cost, now))?;
        outcome::reply_for_value(ctx, decided);
        Ok(())
    }
}
