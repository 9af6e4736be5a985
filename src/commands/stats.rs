//! `RL.STATS [RESET]`: the statistics, as a map.

use super::options::{CommandOption, WithOptions};
use crate::error::Error;
use crate::policies;
use crate::server::{self, Args, Command, Context, Sender};
use crate::stats::{self, Row, Snapshot, VERSION};

/// Users who may reset the server's statistics may reset these.
const RESET_NEEDS: [&std::ffi::CStr; 2] = [c"CONFIG", c"RESETSTAT"];

/// `RL.STATS`
pub struct Stats;

impl WithOptions for Stats {
    const OPTIONS: &'static [CommandOption] = &[CommandOption::Reset];
}

impl Command for Stats {
    const NAME: &'static str = "STATS";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        if !Self::parse_options(args.bytes_from(1))?.reset {
            reply_with(ctx, &Snapshot::take(policies::counts()));
            return Ok(());
        }
        if !Sender::of(ctx).may_run(RESET_NEEDS) {
            return Err(Error::MayNotReset);
        }
        stats::start(server::now());
        policies::reset_counts();
        ctx.reply_with_ok();
        Ok(())
    }
}

fn reply_with(ctx: &Context, snapshot: &Snapshot) {
    ctx.reply_with_map(6);
    ctx.reply_with_text("version");
    ctx.reply_with_text(VERSION);
    let numbers =
        [("counted_since_ms", snapshot.since_millis), ("keys", snapshot.keys), ("log_bytes", snapshot.log_bytes)];
    for (name, number) in numbers {
        ctx.reply_with_text(name);
        ctx.reply_with_integer(number.cast_signed());
    }
    ctx.reply_with_text("algorithms");
    reply_with_rows(ctx, snapshot.algorithms.iter().map(|(name, row)| (*name, row)));
    ctx.reply_with_text("policies");
    reply_with_rows(ctx, snapshot.policies.iter().map(|(name, row)| (name.as_str(), row)));
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
