//! Callbacks on the thread that runs the commands: once, soon, and at regular intervals.

use std::ffi::c_void;
use std::mem;
use std::sync::OnceLock;

use redis_module::raw;

use super::api::OK;
use super::panic_guard::guard;
use super::{api, Context};

/// What is called.
pub type Work = fn(&Context);

/// Calls `work` after the running command or event. If the clock steps back in between, the call waits until the clock
/// has caught up.
pub fn soon(ctx: &Context, work: Work) {
    // SAFETY: the context is valid; the callback gets the function back.
    unsafe { api!(RedisModule_CreateTimer)(ctx.as_ptr(), 0, Some(on_time), work as *mut c_void) };
}

unsafe extern "C" fn on_time(ctx: *mut raw::RedisModuleCtx, work: *mut c_void) {
    guard("timer", (), || {
        // SAFETY: the server passes the context for this call, and what `soon` passed: a function of this type.
        let (ctx, work) = unsafe { (Context::new(ctx), mem::transmute::<*mut c_void, Work>(work)) };
        work(&ctx);
    });
}

static CRON: OnceLock<Work> = OnceLock::new();

/// Calls `work` `hz` times a second, whatever the wall clock does: the server's cron uses a monotonic clock, unlike the
/// timers of modules. Returns false if the server has no such event.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn on_every_cron(ctx: *mut raw::RedisModuleCtx, work: Work) -> bool {
    let _ = CRON.set(work);
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CRON_LOOP, dataver: 1 };
    // SAFETY: the caller vouches for the context; the callback is a function.
    unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx, event, Some(on_cron)) == OK }
}

unsafe extern "C" fn on_cron(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    guard("cron", (), || {
        // SAFETY: the server passes the context for this call.
        let ctx = unsafe { Context::new(ctx) };
        if let Some(work) = CRON.get() {
            work(&ctx);
        }
    });
}
