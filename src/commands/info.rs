//! `RL.INFO key`: the value of a key, as a map.

use limiter::{DurationDisplay, Limiter, Micros, Quota, Value};

use crate::datatype::read;
use crate::error::Error;
use crate::server::{self, Args, Command, Context};

/// `RL.INFO`
pub struct Info;

impl Command for Info {
    const NAME: &'static str = "INFO";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error> {
        let key = args.get(1).ok_or(Error::WrongArity)?;
        let now = server::now();
        match read(ctx, key, |value| describe(value, now))? {
            None => ctx.reply_with_null(),
            Some(fields) => reply_with_fields(ctx, &fields),
        }
        Ok(())
    }
}

type Fields = Vec<(&'static str, Field)>;

enum Field {
    Integer(u64),
    Text(String),
    Words(Vec<&'static str>),
    Maps(Vec<Fields>),
}

fn describe(value: &Value, now: Micros) -> Fields {
    match value {
        Value::Limiter(limiter) => describe_limiter(limiter, now),
        Value::Policy(limits) => {
            let each = value.limiters().iter().map(|limiter| describe_limiter(limiter, now)).collect();
            vec![
                ("policy", Field::Text(limits.policy().to_string())),
                ("algorithms", Field::Words(value.algorithms())),
                ("limits", Field::Maps(each)),
            ]
        }
    }
}

fn describe_limiter(limiter: &Limiter, now: Micros) -> Fields {
    let decision = limiter.peek_current(1, now);
    let mut fields = vec![("algorithm", Field::Text(limiter.algorithm().name().to_owned()))];
    match limiter.quota() {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => {
            fields.push(("capacity", Field::Integer(quota.capacity())));
            fields.push(("rate", Field::Text(quota.rate().to_string())));
        }
        Quota::FixedWindow(quota) | Quota::SlidingLog(quota) | Quota::SlidingCounter(quota) => {
            fields.push(("limit", Field::Integer(quota.limit())));
            fields.push(("window", Field::Text(DurationDisplay(quota.window()).to_string())));
        }
    }
    fields.extend([
        ("used", Field::Integer(limiter.used(now))),
        ("remaining", Field::Integer(decision.remaining)),
        ("reset_after_ms", Field::Integer(decision.reset_after.div_ceil(1_000))),
        ("reset_at_ms", Field::Integer((now + decision.reset_after).div_ceil(1_000))),
    ]);
    fields.extend(limiter.last_changed().map(|time| ("changed_at_ms", Field::Integer(time / 1_000))));
    if let Some(entries) = limiter.entries() {
        fields.push(("entries", Field::Integer(entries.len() as u64)));
        fields.push(("bytes", Field::Integer(limiter.bytes() as u64)));
    }
    fields
}

fn reply_with_fields(ctx: &Context, fields: &Fields) {
    ctx.reply_with_map(fields.len());
    for (name, field) in fields {
        ctx.reply_with_text(name);
        match field {
            Field::Integer(integer) => ctx.reply_with_integer(integer.cast_signed()),
            Field::Text(text) => ctx.reply_with_text(text),
            Field::Words(words) => {
                ctx.reply_with_array(words.len());
                for word in words {
                    ctx.reply_with_text(word);
                }
            }
            Field::Maps(maps) => {
                ctx.reply_with_array(maps.len());
                for map in maps {
                    reply_with_fields(ctx, map);
                }
            }
        }
    }
}
