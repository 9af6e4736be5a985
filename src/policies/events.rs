//! What happens to the policies on server events and as time passes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::store;
use crate::server::events::Event;
use crate::server::panic_guard::fail_child;
use crate::server::{info, log, timer, Context};

/// How often the policy file is checked: once a second. With `hz 1` a call may come a little early.
const CHECK_INTERVAL: Duration = Duration::from_millis(900);

/// When the policy file was last checked, by a monotonic clock.
static LAST_CHECK: Mutex<Option<Instant>> = Mutex::new(None);

/// Whether the policies are to be set again, after the append-only file was rewritten.
static SET_AGAIN: AtomicBool = AtomicBool::new(false);

/// Called on every server event.
pub fn on_event(ctx: &Context, event: Event) {
    match event {
        Event::Forked => on_fork(ctx),
        Event::AofRewriteStarted => store::aof_rewrite_started(),
        Event::SaveEnded => on_save_ended(ctx),
        Event::LoadingStarted => store::loading_started(),
        Event::LoadingEnded => store::loading_ended(),
        Event::AsyncLoadStarted => store::async_load_started(),
        Event::AsyncLoadEnded { completed } => store::async_load_ended(completed),
        Event::Other => {}
    }
}

/// Called several times a second.
pub fn on_cron(ctx: &Context) {
    set_again(ctx);
    if store::is_in_file() && is_check_due() {
        check_file();
    }
}

fn is_check_due() -> bool {
    let mut last = LAST_CHECK.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = last.is_none_or(|last| last.elapsed() >= CHECK_INTERVAL);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

fn check_file() {
    match store::load_changed_file() {
        None => {}
        Some(Ok(count)) => log::notice(&format!("redis-ratelimit: reloaded the policy file, {count} policies")),
        Some(Err(problem)) => {
            log::warning(&format!("redis-ratelimit: cannot load the policy file, the policies stay: {problem}"));
        }
    }
}

/// Without an RDB preamble a rewritten append-only file has keys only, and policies are no keys. So the policies are set
/// again right after the fork: that is appended to the file that follows the rewritten one. It happens before the server
/// can use the rewritten file, or at the latest right after that, before anything else: [`on_cron`] is called at the end of
/// the cron run that starts to use the file.
///
/// It does not happen at once, because the fork may be part of a command, which would then be replicated as well.
fn on_fork(ctx: &Context) {
    let rewrites = info::section(ctx, c"persistence", |info| info.number(c"aof_rewrite_in_progress") == Some(1));
    if rewrites && !store::is_in_file() {
        SET_AGAIN.store(true, Ordering::Relaxed);
        timer::soon(ctx, set_again);
    }
}

fn set_again(ctx: &Context) {
    if !SET_AGAIN.load(Ordering::Relaxed) || ctx.must_not_replicate() {
        return;
    }
    SET_AGAIN.store(false, Ordering::Relaxed);
    for (name, definition) in store::all() {
        let words = ["SET", &name].into_iter().chain(definition.split(' '));
        ctx.replicate_words(c"RL.POLICY", words.map(str::as_bytes));
    }
}

/// In the child: a rewritten file without policies is only good if they can be set again after it, which is not possible
/// while clients are paused. The server may be killed meanwhile, so then the old file stays, which has them.
fn on_save_ended(ctx: &Context) {
    if store::is_missing_in_aof() && ctx.must_not_replicate() {
        log::warning(
            "redis-ratelimit: the append-only file is not rewritten while clients are paused: without an RDB preamble it \
             would lack the policies",
        );
        fail_child();
    }
}
