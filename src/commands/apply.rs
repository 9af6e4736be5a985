//! `RL.APPLY key effect [key effect …]`: applies effects that were decided elsewhere. They come from a primary, from the
//! append-only file, or from a server that hands over slots.

use limiter::{PerLimit, MAX_LIMITS};

use crate::datatype::Key;
use crate::error::Error;
use crate::replication::{apply, consumers, Effect};
use crate::server::{Arg, Args, Command, Context};

/// `RL.APPLY`
pub struct Apply;

impl Command for Apply {
    const NAME: &'static str = "APPLY";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let (names, effects) = parse(args)?;
        let mut keys = Key::open_all(ctx, names.iter().copied(), |index| effects[index].replaces())?;
        // All of them, or none.
        if !keys.iter_mut().zip(&effects).all(|(key, effect)| apply::is_applicable(effect, key)) {
            return Err(Error::EffectMismatch);
        }
        for (key, effect) in keys.iter_mut().zip(effects) {
            apply::apply(effect, key)?;
        }
        if let Some(ctx) = keys.first().map(Key::context) {
            consumers::all_changed_by_effects(ctx, names.iter().copied());
        }
        drop(keys);
        ctx.reply_with_ok();
        Ok(())
    }
}

fn parse(args: Args<'_>) -> Result<(PerLimit<Arg<'_>>, PerLimit<Effect<'_>>), Error> {
    let (mut names, mut effects) = (PerLimit::new(), PerLimit::new());
    if args.len() > 1 + 2 * MAX_LIMITS {
        return Err(Error::TooManyEffects(MAX_LIMITS));
    }
    for at in (1..args.len()).step_by(2) {
        let (name, effect) = args.get(at).zip(args.get(at + 1)).ok_or(Error::WrongArity)?;
        let decoded = Effect::decode(effect.bytes());
        names.push(name);
        effects.push(decoded.map_err(|error| Error::invalid(format_args!("cannot apply the effect: {error}")))?);
    }
    Ok((names, effects))
}
