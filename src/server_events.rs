//! What the module does on server events, and several times a second.

use redis_module::raw;

use crate::policies;
use crate::replication::consumers;
use crate::server::events::{self, Event};
use crate::server::{log, timer, Context};

/// Subscribes to events.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that, when nothing can fail any more: if the module
/// is not loaded after all, Redis 7.0 keeps the subscriptions, and would call what is not there any more.
pub unsafe fn subscribe(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the caller vouches for the context.
    unsafe {
        consumers::set_subscribed(events::subscribe(ctx, on_event));
        if !timer::on_every_cron(ctx, policies::events::on_cron) {
            log::warning("redis-ratelimit: the server has no cron event, only RL.POLICY LOAD reads the policy file");
        }
    }
}

fn on_event(ctx: &Context, event: Event) {
    consumers::invalidate();
    policies::events::on_event(ctx, event);
}
