//! What is done without anybody having asked: on events of the server, and as time goes by.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis_module::raw;

use crate::policies;
use crate::server::entry::fail_child;
use crate::server::events::{self, Event};
use crate::server::{info, listeners, log, timer, Context};

/// The policy file is looked at once a second. A server that calls just as often may be a little early each time.
const LOOK_EVERY: Duration = Duration::from_millis(900);

/// When the policy file was last looked at, by a clock that nobody sets.
static LAST_LOOK: Mutex<Option<Instant>> = Mutex::new(None);

/// Whether the policies have yet to be set once more, behind an append-only file that is being rewritten.
static SET_AGAIN: AtomicBool = AtomicBool::new(false);

/// Begins with it.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that, when nothing can fail any more: Redis 7.0
/// takes back everything but this when it does not load the module after all, and would call what is no longer there.
pub unsafe fn start(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the caller vouches for the context.
    unsafe {
        listeners::are_watched(events::watch(ctx, on_event));
        if !timer::regularly(ctx, from_time_to_time) {
            log::warning(
                "redis-ratelimit: the server calls for no upkeep: a policy file is read by RL.POLICY LOAD alone",
            );
        }
    }
}

fn from_time_to_time(ctx: &Context) {
    set_policies_again(ctx);
    if policies::are_in_a_file() && is_time_to_look() {
        look_at_file();
    }
}

fn is_time_to_look() -> bool {
    let mut last = LAST_LOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let is_time = last.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
    if is_time {
        *last = Some(Instant::now());
    }
    is_time
}

fn on_event(ctx: &Context, event: Event) {
    listeners::forget();
    match event {
        Event::Forked => after_fork(ctx),
        Event::RewriteStarts => policies::rewrite_starts(),
        Event::FileEnds => after_writing(ctx),
        Event::LoadingStarts => policies::loading_starts(),
        Event::LoadingEnds => policies::loading_ends(),
        Event::ArrivalStarts => policies::arrival_starts(),
        Event::ArrivalEnds { complete } => policies::arrival_ends(complete),
        Event::Other => {}
    }
}

/// Policies are no keys, and a server that rewrites its append-only file without the snapshot format writes keys only. So
/// they are set once more right after the fork: in the file that follows the rewritten one. That happens before the
/// server can take the rewritten file for complete, or at the latest when it has just done so, before it does anything
/// else: it calls for [`from_time_to_time`] at the end of the housekeeping in which it takes it.
///
/// Not at once, because the fork may be part of a command, which would then be replicated as well.
fn after_fork(ctx: &Context) {
    let rewrites = info::section(ctx, c"persistence", |info| info.number(c"aof_rewrite_in_progress") == Some(1));
    if rewrites && !policies::are_in_a_file() {
        SET_AGAIN.store(true, Ordering::Relaxed);
        timer::soon(ctx, set_policies_again);
    }
}

/// In the child: a rewritten file without policies is good only if they can be set behind it. They cannot while clients are
/// paused; so that the server may even be killed then, the old file stays, which has them.
fn after_writing(ctx: &Context) {
    if policies::are_left_out() && ctx.must_not_replicate() {
        log::warning(
            "redis-ratelimit: the append-only file is not rewritten while clients are paused: without the preamble it \
             would be without the policies",
        );
        fail_child();
    }
}

fn set_policies_again(ctx: &Context) {
    if !SET_AGAIN.load(Ordering::Relaxed) || ctx.must_not_replicate() {
        return;
    }
    SET_AGAIN.store(false, Ordering::Relaxed);
    for (name, definition) in policies::all() {
        let words = ["SET", &name].into_iter().chain(definition.split(' '));
        ctx.replicate_words(c"RL.POLICY", words.map(str::as_bytes));
    }
}

fn look_at_file() {
    match policies::load_changed_file() {
        None => {}
        Some(Ok(count)) => log::notice(&format!("redis-ratelimit: the policy file has changed, policies now: {count}")),
        Some(Err(problem)) => {
            log::warning(&format!(
                "redis-ratelimit: the policy file is refused, the policies in force stay: {problem}"
            ));
        }
    }
}
