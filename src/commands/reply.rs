//! How decisions are told.

use crate::limiter::{Answer, Decision, Verdict};
use crate::server::Context;

/// Replies with the five integers of a decision, or six.
#[inline(always)]
pub fn decision(ctx: &Context, decision: Decision) {
    let reply = decision.to_reply();
    ctx.reply_with_integers(reply.five, reply.delay);
}

/// Replies with the decision on several limits: whether it is allowed, the wait, and what each of them says.
pub fn verdict(ctx: &Context, verdict: Verdict, decisions: &[Decision]) {
    ctx.reply_with_list(2 + decisions.len());
    ctx.reply_with_integer(verdict.allowed.into());
    ctx.reply_with_integer(verdict.retry.to_millis());
    for it in decisions {
        decision(ctx, *it);
    }
}

/// Replies as the command would have to which the key belongs; nothing for a key that does not exist.
pub fn answer(ctx: &Context, answer: Option<Answer>) {
    match answer {
        None => ctx.reply_with_null(),
        Some(Answer::One(it)) => decision(ctx, it),
        Some(Answer::All(all, each)) => verdict(ctx, all, &each),
    }
}
