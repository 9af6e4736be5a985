//! Work that the server is to call for later, on the thread that runs the commands.

use std::ffi::c_void;
use std::mem;

use redis_module::raw;

use super::entry::guard;
use super::{api, Context};

/// What is called.
pub type Work = fn(&Context);

/// Has the server call `work` after so many milliseconds.
pub fn after(ctx: &Context, millis: i64, work: Work) {
    // SAFETY: the context is valid; what comes back with the call is the function.
    unsafe { api!(RedisModule_CreateTimer)(ctx.as_ptr(), millis, Some(on_time), work as *mut c_void) };
}

unsafe extern "C" fn on_time(ctx: *mut raw::RedisModuleCtx, work: *mut c_void) {
    guard("timer", (), || {
        // SAFETY: the server passes the context for this call, and what `after` gave it: a function of this type.
        let (ctx, work) = unsafe { (Context::new(ctx), mem::transmute::<*mut c_void, Work>(work)) };
        work(&ctx);
    });
}
