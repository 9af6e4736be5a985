//! `RL.TOP [count]`: the keys that are denied most often, in the last minute and since counting started.

use crate::error::Error;
use crate::server::{self, Args, Command, Context, Sender};
use crate::stats::{self, DeniedKey, Ranking, Top as Denials};

/// The default number of keys.
const DEFAULT_COUNT: u16 = 10;
/// Follows a name that is cut.
const ELLIPSIS: &[u8] = b"...";

/// `RL.TOP`
pub struct Top;

impl Command for Top {
    const NAME: &'static str = "TOP";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let count = match args.get(1) {
            None => DEFAULT_COUNT,
            Some(_) if args.len() > 2 => return Err(Error::WrongArity),
            Some(word) => parse_count(word.bytes())?,
        };
        let sender = Sender::of(ctx);
        // Users only see keys that they may read. A pattern may depend on the end of a name, which a cut name lacks.
        let may_see = |key: &DeniedKey| {
            if key.is_cut {
                sender.may_read_all(key.db)
            } else {
                sender.may_read(key.db, &key.name)
            }
        };
        let visible = |mut ranking: Ranking| {
            ranking.keys = ranking.keys.into_iter().filter(may_see).take(count.into()).collect();
            ranking
        };
        let (last_minute, all_time) = {
            let mut top = stats::top();
            (top.last_minute(server::now()), top.all_time())
        };
        ctx.reply_with_map(2);
        for (name, ranking) in [("last_minute", visible(last_minute)), ("since_start", visible(all_time))] {
            ctx.reply_with_text(name);
            reply_with_ranking(ctx, &ranking);
        }
        Ok(())
    }
}

fn parse_count(word: &[u8]) -> Result<u16, Error> {
    let text = std::str::from_utf8(word).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let count = text.and_then(|text| text.parse().ok()).filter(|count| (1..=Denials::MAX_PLACES).contains(count));
    let max = Denials::MAX_PLACES.into();
    count.ok_or_else(|| Error::InvalidInteger { name: "count", given: word.to_vec(), min: 1, max })
}

fn reply_with_ranking(ctx: &Context, ranking: &Ranking) {
    ctx.reply_with_map(3);
    for (name, number) in [("denials", ranking.denials), ("error", ranking.error)] {
        ctx.reply_with_text(name);
        ctx.reply_with_integer(number.cast_signed());
    }
    ctx.reply_with_text("keys");
    ctx.reply_with_array(ranking.keys.len());
    for DeniedKey { db, name, is_cut, count } in &ranking.keys {
        ctx.reply_with_array(3);
        ctx.reply_with_bytes(&[name.as_slice(), if *is_cut { ELLIPSIS } else { b"" }].concat());
        ctx.reply_with_integer(count.cast_signed());
        ctx.reply_with_integer((*db).into());
    }
}
