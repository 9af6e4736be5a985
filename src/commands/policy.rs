//! `RL.POLICY SET|GET|DEL|LIST|LOAD|SAVE|HELP`: manages the policies that `RL.CHECK` uses.

use crate::error::Error;
use crate::policies::{self, parse_name, Policy, PolicyFileError};
use crate::server::{Args, Command, Context};

const HELP: [&str; 15] = [
    "RL.POLICY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "SET <name> <ALGORITHM> <a> <b> [<ALGORITHM> <a> <b> ...]",
    "    Create or replace a policy with these limits.",
    "GET <name>",
    "    Return the limits of a policy, in the form that SET takes.",
    "DEL <name>",
    "    Delete a policy.",
    "LIST",
    "    Return the names of all policies.",
    "LOAD",
    "    Reload the policies from the policy file.",
    "SAVE",
    "    Save the policies to the policy file.",
    "HELP",
    "    Print this help.",
];

/// `RL.POLICY SET name ALGORITHM a b [ALGORITHM a b …]`
pub struct Set;

impl Command for Set {
    const NAME: &'static str = "POLICY SET";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let name = args.get(2).ok_or(Error::WrongArity)?.bytes();
        let name = parse_name(name).map_err(Error::invalid)?;
        let policy = Policy::parse(args.bytes_from(3)).map_err(Error::invalid)?;
        change(ctx, || {
            policies::set(name, policy);
            true
        });
        ctx.reply_with_ok();
        Ok(())
    }
}

/// `RL.POLICY DEL name`
pub struct Del;

impl Command for Del {
    const NAME: &'static str = "POLICY DEL";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let name = args.get(2).ok_or(Error::WrongArity)?.bytes();
        let removed = change(ctx, || policies::remove(name));
        ctx.reply_with_integer(removed.into());
        Ok(())
    }
}

/// Changes the policies, and replicates the command if anything has changed. With a policy file, policies are local: the
/// command is not replicated, and is ignored if it comes from a primary.
fn change(ctx: &Context, change: impl FnOnce() -> bool) -> bool {
    let is_in_file = policies::is_in_file();
    let changed = !(is_in_file && ctx.is_replicated_or_loading()) && change();
    if changed && !is_in_file {
        ctx.replicate_verbatim();
    }
    changed
}

/// `RL.POLICY GET name`
pub struct Get;

impl Command for Get {
    const NAME: &'static str = "POLICY GET";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let name = args.get(2).ok_or(Error::WrongArity)?.bytes();
        match policies::definition(name) {
            None => ctx.reply_with_null(),
            Some(definition) => reply_with_texts(ctx, definition.split(' ')),
        }
        Ok(())
    }
}

/// `RL.POLICY LIST`
pub struct List;

impl Command for List {
    const NAME: &'static str = "POLICY LIST";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), Error> {
        reply_with_texts(ctx, policies::names(usize::MAX).iter().map(String::as_str));
        Ok(())
    }
}

/// `RL.POLICY LOAD`
pub struct Load;

impl Command for Load {
    const NAME: &'static str = "POLICY LOAD";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), Error> {
        policies::load_file().map_err(|error| match error {
            PolicyFileError::NoFile => Error::NoPolicyFile,
            PolicyFileError::Invalid(problem) => Error::invalid(format_args!("{problem}; the policies stay")),
        })?;
        ctx.reply_with_ok();
        Ok(())
    }
}

/// `RL.POLICY SAVE`
pub struct Save;

impl Command for Save {
    const NAME: &'static str = "POLICY SAVE";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), Error> {
        policies::save_file().map_err(|error| match error {
            PolicyFileError::NoFile => Error::NoPolicyFile,
            PolicyFileError::Invalid(problem) => Error::Invalid(problem),
        })?;
        ctx.reply_with_ok();
        Ok(())
    }
}

/// `RL.POLICY HELP`
pub struct Help;

impl Command for Help {
    const NAME: &'static str = "POLICY HELP";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), Error> {
        reply_with_texts(ctx, HELP.into_iter());
        Ok(())
    }
}

fn reply_with_texts<'a>(ctx: &Context, texts: impl Iterator<Item = &'a str> + Clone) {
    ctx.reply_with_array(texts.clone().count());
    for text in texts {
        ctx.reply_with_text(text);
    }
}
