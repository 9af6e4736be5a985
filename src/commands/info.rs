//! `RL.INFO key`: what the key holds, as a map.

use super::wrong_type::WRONG_TYPE;
use super::WRONG_ARITY;
use crate::datatype::look_at;
use crate::limiter::{write_duration, write_rate, Held, Limiter, Micros, Quota};
use crate::server::{clock, Args, Command, Context};

/// The command.
pub struct Info;

impl Command for Info {
    const NAME: &'static str = "INFO";

    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String> {
        let key = args.get(1).ok_or(WRONG_ARITY)?;
        let now = clock::now();
        match look_at(ctx, key, |held| describe(held, now)).map_err(|_| WRONG_TYPE)? {
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

fn describe(held: &Held, now: Micros) -> Fields {
    match held {
        Held::Limiter(limiter) => describe_limiter(limiter, now),
        Held::Policy(limits) => {
            vec![
                ("policy", Field::Text(limits.policy().to_string())),
                ("algorithms", Field::Words(held.algorithms())),
                ("limits", Field::Maps(held.limiters().iter().map(|limiter| describe_limiter(limiter, now)).collect())),
            ]
        }
    }
}

fn describe_limiter(limiter: &Limiter, now: Micros) -> Fields {
    let seen = limiter.peek_as_it_is(1, now);
    let mut fields = vec![("algorithm", Field::Text(limiter.algorithm().name().to_owned()))];
    match limiter.quota() {
        Quota::TokenBucket(quota) | Quota::LeakyBucket(quota) => {
            fields.push(("capacity", Field::Integer(quota.capacity())));
            fields.push(("rate", Field::Text(write_rate(quota.rate()))));
        }
        Quota::FixedWindow(quota) | Quota::SlidingLog(quota) | Quota::SlidingCounter(quota) => {
            fields.push(("limit", Field::Integer(quota.limit())));
            fields.push(("window", Field::Text(write_duration(quota.window()))));
        }
    }
    fields.extend([
        ("used", Field::Integer(limiter.used(now))),
        ("remaining", Field::Integer(seen.remaining)),
        ("reset_after_ms", Field::Integer(seen.reset_after.div_ceil(1_000))),
        ("reset_at_ms", Field::Integer((now + seen.reset_after).div_ceil(1_000))),
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
                ctx.reply_with_list(words.len());
                for word in words {
                    ctx.reply_with_text(word);
                }
            }
            Field::Maps(maps) => {
                ctx.reply_with_list(maps.len());
                for map in maps {
                    reply_with_fields(ctx, map);
                }
            }
        }
    }
}
