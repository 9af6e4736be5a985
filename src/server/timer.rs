//! Work that the server is to call for later, on the thread that runs the commands.

use std::ffi::c_void;
use std::mem;
use std::sync::OnceLock;

use redis_module::raw;

use super::api::OK;
use super::entry::guard;
use super::{api, Context};

/// What is called.
pub type Work = fn(&Context);

/// Has the server call `work` when it is done with what it is doing. A server whose clock is turned back in that moment
/// calls it only when the clock is where it was.
pub fn soon(ctx: &Context, work: Work) {
    // SAFETY: the context is valid; what comes back with the call is the function.
    unsafe { api!(RedisModule_CreateTimer)(ctx.as_ptr(), 0, Some(on_time), work as *mut c_void) };
}

unsafe extern "C" fn on_time(ctx: *mut raw::RedisModuleCtx, work: *mut c_void) {
    guard("timer", (), || {
        // SAFETY: the server passes the context for this call, and what `soon` gave it: a function of this type.
        let (ctx, work) = unsafe { (Context::new(ctx), mem::transmute::<*mut c_void, Work>(work)) };
        work(&ctx);
    });
}

static REGULARLY: OnceLock<Work> = OnceLock::new();

/// Has the server call `work` several times a second (its `hz` says how often), whatever the wall clock does: unlike the
/// timers of modules, its own housekeeping goes by a clock that nobody sets. Returns whether the server does so.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn regularly(ctx: *mut raw::RedisModuleCtx, work: Work) -> bool {
    let _ = REGULARLY.set(work);
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
        if let Some(work) = REGULARLY.get() {
            work(&ctx);
        }
    });
}
