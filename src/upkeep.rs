//! What is done without anybody having asked: on events of the server, and by the clock.

use redis_module::raw;

use crate::policies;
use crate::server::entry::fail_child;
use crate::server::events::{self, Event};
use crate::server::{info, listeners, log, timer, Context};

/// How often the policy file is looked at, in milliseconds.
const LOOK_EVERY: i64 = 1_000;
/// How soon to try again what cannot be replicated now, in milliseconds.
const TRY_AGAIN_AFTER: i64 = 10;

/// Begins with it.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that, when nothing can fail any more: Redis 7.0
/// takes back everything but this when it does not load the module after all, and would call what is no longer there.
pub unsafe fn start(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the caller vouches for the context.
    let ctx = unsafe {
        listeners::are_watched(events::watch(ctx, on_event));
        Context::new(ctx)
    };
    if policies::are_in_a_file() {
        timer::after(&ctx, LOOK_EVERY, look_at_file);
    }
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
/// server can take the rewritten file for complete, which it also does by the clock, and later.
///
/// Not at once, because the fork may be part of a command, which would then be replicated as well.
fn after_fork(ctx: &Context) {
    let rewrites = info::section(ctx, c"persistence", |info| info.number(c"aof_rewrite_in_progress") == Some(1));
    if rewrites && !policies::are_in_a_file() {
        timer::after(ctx, 0, set_policies_again);
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
    if ctx.must_not_replicate() {
        timer::after(ctx, TRY_AGAIN_AFTER, set_policies_again);
        return;
    }
    for (name, definition) in policies::all() {
        let words = ["SET", &name].into_iter().chain(definition.split(' '));
        ctx.replicate_words(c"RL.POLICY", words.map(str::as_bytes));
    }
}

fn look_at_file(ctx: &Context) {
    timer::after(ctx, LOOK_EVERY, look_at_file);
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
