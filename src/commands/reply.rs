//! How decisions are told.

use crate::limiter::Decision;
use crate::server::Context;

/// Replies with the five integers of a decision, or six.
#[inline(always)]
pub fn decision(ctx: &Context, decision: Decision) {
    let reply = decision.to_reply();
    ctx.reply_with_integers(reply.five, reply.delay);
}
