//! What is noted of an answer once it has been decided: it is counted, and a denial is told to those who want to know.

use crate::limiter::Micros;
use crate::server::{Arg, Context};
use crate::stats::{self, Outcome, Tally};

/// The event by which people can watch who is being limited.
const DENIED: &std::ffi::CStr = c"rl.denied";

/// Counts a request to this key.
#[inline(always)]
pub fn count(ctx: &mut Context, tally: &Tally, key: Arg<'_>, outcome: Outcome, now: Micros) {
    tally.request(outcome);
    if !outcome.allowed {
        denied(ctx, key, now);
    }
}

#[inline(never)]
fn denied(ctx: &mut Context, key: Arg<'_>, now: Micros) {
    stats::top().denied(ctx.selected_db(), key.bytes(), now);
    ctx.notify(DENIED, key);
}
