//! The outcome of a request: recorded in the statistics, and replied.

use limiter::{Decision, Micros, ValueDecision, Verdict};

use crate::server::{Arg, Context};
use crate::stats::{self, Counters, Outcome};

/// The keyspace event of a denied request.
const DENIED: &std::ffi::CStr = c"rl.denied";

/// Records the outcome of a request to a key: in the counters, and a denial also for `RL.TOP` and as a keyspace event.
#[inline(always)]
pub fn record(ctx: &mut Context, counters: &Counters, key: Arg<'_>, outcome: Outcome, now: Micros) {
    counters.request(outcome);
    if !outcome.allowed {
        record_denial(ctx, key, now);
    }
}

#[inline(never)]
fn record_denial(ctx: &mut Context, key: Arg<'_>, now: Micros) {
    stats::top().denied(ctx.selected_db(), key.bytes(), now);
    ctx.notify(DENIED, key);
}

/// Replies with the integers of a decision.
#[inline(always)]
pub fn reply(ctx: &Context, decision: Decision) {
    let reply = decision.to_reply();
    ctx.reply_with_integers(reply.five, reply.delay);
}

/// Replies with the decision on several limits: `allowed`, `retry_after_ms`, and the decision of each limit.
pub fn reply_with_all(ctx: &Context, verdict: Verdict, decisions: &[Decision]) {
    ctx.reply_with_array(2 + decisions.len());
    ctx.reply_with_integer(verdict.allowed.into());
    ctx.reply_with_integer(verdict.retry.to_millis());
    for decision in decisions {
        reply(ctx, *decision);
    }
}

/// Replies as the command that the value belongs to; null if the key does not exist.
pub fn reply_for_value(ctx: &Context, decided: Option<ValueDecision>) {
    match decided {
        None => ctx.reply_with_null(),
        Some(ValueDecision::One(decision)) => reply(ctx, decision),
        Some(ValueDecision::All(verdict, decisions)) => reply_with_all(ctx, verdict, &decisions),
    }
}
