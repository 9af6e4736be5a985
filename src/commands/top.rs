//! `RL.TOP [count]`: the keys that were denied most often, in the last minute and since it is counted.

use super::WRONG_ARITY;
use crate::limiter::Quoted;
use crate::server::{clock, Args, Command, Context, Sender};
use crate::stats::{self, DeniedKey, Ranking, Top as Denials};

/// How many keys are shown unless somebody wants another number.
const SHOWN: u16 = 10;
/// What the name of a key ends with that was too long to be kept.
const CUT: &[u8] = b"...";

/// The command.
pub struct Top;

impl Command for Top {
    const NAME: &'static str = "TOP";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let count = match args.get(1) {
            None => SHOWN,
            Some(_) if args.len() > 2 => return Err(WRONG_ARITY.to_owned()),
            Some(word) => parse_count(word.bytes())?,
        };
        // Nobody is shown the name of a key that they may not read.
        let sender = Sender::of(ctx);
        // Of a name that was cut a pattern may want to see the end.
        let may_see = |key: &DeniedKey| {
            if key.is_cut {
                sender.may_read_all(key.db)
            } else {
                sender.may_read(key.db, &key.name)
            }
        };
        let shown = |mut ranking: Ranking| {
            ranking.keys = ranking.keys.into_iter().filter(may_see).take(count.into()).collect();
            ranking
        };
        let (last_minute, ever) = {
            let mut top = stats::top();
            (top.last_minute(clock::now()), top.ever())
        };
        ctx.reply_with_map(2);
        for (name, ranking) in [("last_minute", shown(last_minute)), ("since_start", shown(ever))] {
            ctx.reply_with_text(name);
            reply_with_ranking(ctx, &ranking);
        }
        Ok(())
    }
}

fn parse_count(word: &[u8]) -> Result<u16, String> {
    let count = std::str::from_utf8(word).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let count = count.and_then(|text| text.parse().ok()).filter(|count| (1..=Denials::MAX_PLACES).contains(count));
    count.ok_or_else(|| {
        format!("ERR invalid count {}: expected an integer from 1 to {}", Quoted(word), Denials::MAX_PLACES)
    })
}

fn reply_with_ranking(ctx: &Context, ranking: &Ranking) {
    ctx.reply_with_map(3);
    for (name, number) in [("denials", ranking.denials), ("error", ranking.error)] {
        ctx.reply_with_text(name);
        ctx.reply_with_integer(number.cast_signed());
    }
    ctx.reply_with_text("keys");
    ctx.reply_with_list(ranking.keys.len());
    for DeniedKey { db, name, is_cut, count } in &ranking.keys {
        ctx.reply_with_list(3);
        ctx.reply_with_bytes(&[name.as_slice(), if *is_cut { CUT } else { b"" }].concat());
        ctx.reply_with_integer(count.cast_signed());
        ctx.reply_with_integer((*db).into());
    }
}
