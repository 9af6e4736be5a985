//! `RL.TOKENBUCKET`, `RL.LEAKYBUCKET`, `RL.FIXEDWINDOW`, `RL.SLIDINGLOG`, `RL.SLIDINGCOUNTER`: a request to one limiter,
//! `key a b [COST n] [FORCE]`.

use limiter::{Algorithm, Decision, Quota, Request};

use super::options::{self, CommandOption, Options, WithOptions};
use super::outcome;
use crate::datatype::Key;
use crate::error::Error;
use crate::replication::{apply, consumers, EffectBytes};
use crate::server::{self, Args, Command, Context};
use crate::stats;

/// The command of the algorithm with this index in [`Algorithm::ALL`].
pub struct Limit<const ALGORITHM: usize>;

impl<const ALGORITHM: usize> WithOptions for Limit<ALGORITHM> {
    const OPTIONS: &'static [CommandOption] = options::REQUEST;
}

impl<const ALGORITHM: usize> Command for Limit<ALGORITHM> {
    const NAME: &'static str = Algorithm::ALL[ALGORITHM].name();

    #[inline(always)]
    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        // The server has checked the arity.
        let (Some(key), Some(a), Some(b)) = (args.get(1), args.get(2), args.get(3)) else {
            return Err(Error::WrongArity);
        };
        // Most requests have no options.
        let options = if args.get(4).is_none() { Options::default() } else { Self::parse_options(args.bytes_from(4))? };
        let quota = Quota::parse(Algorithm::ALL[ALGORITHM], a.bytes(), b.bytes())?;
        let now = server::now();
        let open = Key::open(ctx, key)?;
        let decision = decide(open, &quota, options.request(now))?;
        outcome::record(ctx, stats::of(Algorithm::ALL[ALGORITHM]), key, decision.into(), now);
        outcome::reply(ctx, decision);
        Ok(())
    }
}

/// Decides on a request, and replicates what it took.
// Inlined, like everything it calls, so that each command is compiled as the code of its algorithm alone.
#[inline(always)]
pub fn decide(mut key: Key<'_>, quota: &Quota, request: Request) -> Result<Decision, Error> {
    let decision = apply::take(&mut key, quota, request)?;
    if decision.taken {
        consumers::changed(key.context(), key.name(), || EffectBytes::take(quota, request.cost, request.now));
    }
    Ok(decision)
}
