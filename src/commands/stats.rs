//! `RL.STATS [RESET]`: what was allowed and denied, as a map.

use super::WRONG_ARITY;
use crate::limiter::Quoted;
use crate::policies;
use crate::report::{Report, Row, VERSION};
use crate::server::{clock, Args, Command, Context, Sender};
use crate::stats;

/// Who may reset the server's own statistics may reset these: an administrator.
const NEEDED: [&std::ffi::CStr; 2] = [c"CONFIG", c"RESETSTAT"];

/// The command.
pub struct Stats;

impl Command for Stats {
    const NAME: &'static str = "STATS";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        match args.get(1) {
            None => reply_with(ctx, &Report::now()),
            Some(_) if args.len() > 2 => return Err(WRONG_ARITY.to_owned()),
            Some(word) if word.bytes().eq_ignore_ascii_case(b"RESET") => {
                if !Sender::of(ctx).may_run(NEEDED) {
                    return Err(
                        "NOPERM RL.STATS RESET is for users who may run CONFIG RESETSTAT, and not from a script"
                            .to_owned(),
                    );
                }
                stats::start(clock::now());
                policies::reset_counts();
                ctx.reply_with_ok();
            }
            Some(word) => return Err(format!("ERR unknown option {}: expected RESET", Quoted(word.bytes()))),
        }
        Ok(())
    }
}

fn reply_with(ctx: &Context, report: &Report) {
    ctx.reply_with_map(6);
    ctx.reply_with_text("version");
    ctx.reply_with_text(VERSION);
    let numbers = [("counted_since_ms", report.since_millis), ("keys", report.keys), ("log_bytes", report.log_bytes)];
    for (name, number) in numbers {
        ctx.reply_with_text(name);
        ctx.reply_with_integer(number.cast_signed());
    }
    ctx.reply_with_text("algorithms");
    reply_with_rows(ctx, report.algorithms.iter().map(|(name, row)| (*name, row)));
    ctx.reply_with_text("policies");
    reply_with_rows(ctx, report.policies.iter().map(|(name, row)| (name.as_str(), row)));
}

fn reply_with_rows<'a>(ctx: &Context, rows: impl ExactSizeIterator<Item = (&'a str, &'a Row)>) {
    ctx.reply_with_map(rows.len());
    for (name, row) in rows {
        ctx.reply_with_text(name);
        let fields = row.fields();
        ctx.reply_with_map(fields.len());
        for (name, number) in fields {
            ctx.reply_with_text(name);
            ctx.reply_with_integer(number.cast_signed());
        }
    }
}
