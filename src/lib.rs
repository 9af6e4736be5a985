//! redis-ratelimit: rate-limit commands for Redis and Valkey, as a module.
//!
//! The limiters are values without any knowledge of Redis ([`limiter`]). A key of the native type holds one, or those of
//! a policy ([`datatype`]), a command decides on a request and stores the outcome ([`commands`]), and replicas are told
//! what was taken rather than what was asked ([`replication`]). Policies have names and live outside the keys
//! ([`policies`]); some things happen by themselves ([`upkeep`]). What became of requests is counted ([`stats`]), and
//! told together with the number of keys ([`report`]). All that touches Redis's C API lies in [`server`], in
//! [`datatype`] and here, where the module is loaded.

pub mod commands;
pub mod datatype;
#[forbid(unsafe_code)]
pub mod limiter;
#[forbid(unsafe_code)]
pub mod policies;
#[forbid(unsafe_code)]
pub mod replication;
pub mod report;
pub mod server;
pub mod settings;
#[forbid(unsafe_code)]
pub mod stats;
pub mod upkeep;

use std::ffi::{c_int, CStr};

use redis_module::raw;

use report::Report;
use server::api::{ERR, OK};
use server::{api, clock, entry, info, log, section, Args, Context, ServerAllocator};

#[global_allocator]
static ALLOCATOR: ServerAllocator = ServerAllocator;

const NAME: &CStr = c"ratelimit";

/// Lets Valkey from 9 on move slots as a stream, which it otherwise refuses as long as the module is loaded. In Redis the
/// number has no meaning, or may once have another.
const VALKEY_HANDLES_SLOT_STREAMS: u32 = 1 << 5;

/// Called by the server when the module is loaded.
///
/// # Safety
/// To be called by a server only, with its context and the module's arguments.
#[no_mangle]
#[allow(non_snake_case)] // the name that servers look for
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    // Fills in the functions of the API, the allocator's among them: before this nothing may be allocated. It fails only
    // where the name is taken.
    // SAFETY: the server passed the context for this call.
    let initialised =
        unsafe { raw::Export_RedisModule_Init(ctx, NAME.as_ptr(), version(), raw::REDISMODULE_APIVER_1.cast_signed()) };
    if initialised != OK {
        log::warning("redis-ratelimit cannot be loaded: the server has a module ratelimit already");
        return ERR;
    }
    entry::log_panics();
    // SAFETY: the server passed the context and the arguments for this call.
    let loaded = entry::guard("load", Err("a bug".to_owned()), || unsafe { load(ctx, Args::new(argv, count)) });
    match loaded {
        Ok(()) => OK,
        Err(problem) => {
            log::warning(&format!("redis-ratelimit cannot be loaded: {problem}"));
            ERR
        }
    }
}

/// # Safety
/// To be called while the module is being loaded, with the context of that.
unsafe fn load(ctx: *mut raw::RedisModuleCtx, args: Args<'_>) -> Result<(), String> {
    if let Some(function) = server::api::missing() {
        return Err(format!("the server has no {function}; Redis 7.0 or Valkey 7.2 is the oldest that does"));
    }
    // SAFETY: the caller vouches for the context.
    unsafe {
        api!(RedisModule_SetModuleOptions)(ctx, options(&Context::new(ctx)).cast_signed());
        datatype::register(ctx)?;
        settings::register(ctx, args)?;
        commands::register(ctx)?;
        section::register::<Report>(ctx)?;
    }
    stats::start(clock::now());
    if let Some(path) = settings::policy_file() {
        policies::use_file(path)?;
    }
    // SAFETY: the caller vouches for the context, and nothing can fail any more.
    unsafe { upkeep::start(ctx) };
    Ok(())
}

/// What the module tells the server about itself.
fn options(ctx: &Context) -> u32 {
    // Files that are damaged are refused by us rather than aborted on. A change is signalled where there is one, so that
    // a denied request disturbs neither WATCH nor caches. And a replica may load its primary's data while it still serves
    // its own: of what is kept outside the keys, the policies, the new ones are put aside until then.
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // Keys may be there that belong to a slot which is still arriving: nothing lists them, and they count as what they are
    // already, memory in use.
    let is_valkey = info::section(ctx, c"server", |server| server.text(c"valkey_version").is_some());
    if is_valkey {
        options | VALKEY_HANDLES_SLOT_STREAMS
    } else {
        options
    }
}

/// The version as `MODULE LIST` shows it: 10203 for 1.2.3.
fn version() -> c_int {
    let parts = [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
    parts.iter().fold(0, |version, part| version * 100 + part.parse().unwrap_or(0))
}
