//! `RL.POLICY SET|GET|DEL|LIST|LOAD|SAVE|HELP`: the named policies that `RL.CHECK` uses.

use super::WRONG_ARITY;
use crate::policies::{self, parse_name, NoFile, Policy};
use crate::server::{Args, Command, Context};

const NO_FILE: &str = "ERR there is no policy file: name one in the configuration, with ratelimit.policy-file";

const HELP: [&str; 14] = [
    "RL.POLICY <subcommand> [<arg> ...]. Subcommands are:",
    "SET <name> <ALGORITHM> <a> <b> [<ALGORITHM> <a> <b> ...]",
    "    Make a policy of these limits, or replace the one of this name.",
    "GET <name>",
    "    Return the limits of a policy, as SET takes them.",
    "DEL <name>",
    "    Remove a policy.",
    "LIST",
    "    Return the names of all policies.",
    "LOAD",
    "    Read the policy file again.",
    "SAVE",
    "    Write the policies in force to the policy file.",
    "HELP",
];

/// `RL.POLICY SET name ALGORITHM a b [ALGORITHM a b …]`
pub struct Set;

impl Command for Set {
    const NAME: &'static str = "POLICY SET";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let name = args.get(2).ok_or(WRONG_ARITY)?.bytes();
        let name = parse_name(name).map_err(|bad| format!("ERR {bad}"))?;
        let policy = Policy::parse(args.bytes_from(3)).map_err(|bad| format!("ERR {bad}"))?;
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

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let name = args.get(2).ok_or(WRONG_ARITY)?.bytes();
        let removed = change(ctx, || policies::remove(name));
        ctx.reply_with_integer(removed.into());
        Ok(())
    }
}

/// Changes the policies in force, and has it replicated if there was anything to change. Where policies are in a file,
/// they are this server's own: nobody else is told, and what others say does not count.
fn change(ctx: &Context, change: impl FnOnce() -> bool) -> bool {
    let in_a_file = policies::are_in_a_file();
    let changed = !(in_a_file && ctx.is_following()) && change();
    if changed && !in_a_file {
        ctx.replicate_verbatim();
    }
    changed
}

/// `RL.POLICY GET name`
pub struct Get;

impl Command for Get {
    const NAME: &'static str = "POLICY GET";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let name = args.get(2).ok_or(WRONG_ARITY)?.bytes();
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

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), String> {
        reply_with_texts(ctx, policies::names(usize::MAX).iter().map(String::as_str));
        Ok(())
    }
}

/// `RL.POLICY LOAD`
pub struct Load;

impl Command for Load {
    const NAME: &'static str = "POLICY LOAD";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), String> {
        let loaded = policies::load_file().map_err(|NoFile| NO_FILE)?;
        loaded.map_err(|problem| format!("ERR {problem}; the policies in force stay"))?;
        ctx.reply_with_ok();
        Ok(())
    }
}

/// `RL.POLICY SAVE`
pub struct Save;

impl Command for Save {
    const NAME: &'static str = "POLICY SAVE";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), String> {
        let saved = policies::save_file().map_err(|NoFile| NO_FILE)?;
        saved.map_err(|problem| format!("ERR {problem}"))?;
        ctx.reply_with_ok();
        Ok(())
    }
}

/// `RL.POLICY HELP`
pub struct Help;

impl Command for Help {
    const NAME: &'static str = "POLICY HELP";

    fn run(ctx: &mut Context, _args: Args<'_>) -> Result<(), String> {
        reply_with_texts(ctx, HELP.into_iter());
        Ok(())
    }
}

fn reply_with_texts<'a>(ctx: &Context, texts: impl Iterator<Item = &'a str> + Clone) {
    ctx.reply_with_list(texts.clone().count());
    for text in texts {
        ctx.reply_with_text(text);
    }
}
