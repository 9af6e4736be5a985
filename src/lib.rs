//! redis-ratelimit: rate-limit commands for Redis and Valkey, as a module.
//!
//! The limiters are a crate of their own, [`limiter`], which knows no Redis. A key of the native type holds one, or those
//! of a policy ([`datatype`]); a command decides on a request ([`commands`]); and what it took is replicated as an effect,
//! not as the command ([`replication`]). [`policies`] have names and are kept outside the keys. [`stats`] count. Everything
//! that touches Redis's C API is in [`server`], in [`datatype`] and here; the functions that register commands, configuration
//! and events only hand on the context while the module is being loaded.

pub mod commands;
pub mod config;
pub mod datatype;
#[forbid(unsafe_code)]
pub mod error;
#[forbid(unsafe_code)]
pub mod formats;
#[forbid(unsafe_code)]
pub mod policies;
#[forbid(unsafe_code)]
pub mod replication;
pub mod server;
pub mod server_events;
#[forbid(unsafe_code)]
pub mod stats;

use std::ffi::{c_int, CStr};

use redis_module::raw;

use server::api::{ERR, OK};
use server::info_section::Sections;
use server::{api, info, info_section, log, panic_guard, Args, Context, ServerAllocator};
use stats::Snapshot;

#[global_allocator]
static ALLOCATOR: ServerAllocator = ServerAllocator;

const NAME: &CStr = c"ratelimit";

/// Lets Valkey 9 and later move slots as a stream, which it refuses otherwise while the module is loaded. Redis has no option
/// with this number.
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
    // Fills in the functions of the API, including the allocator's: before this nothing may be allocated. It only fails if
    // the name is taken.
    // SAFETY: the server passed the context for this call.
    let initialised =
        unsafe { raw::Export_RedisModule_Init(ctx, NAME.as_ptr(), version(), raw::REDISMODULE_APIVER_1.cast_signed()) };
    if initialised != OK {
        log::warning("redis-ratelimit cannot be loaded: a module named ratelimit is loaded already");
        return ERR;
    }
    panic_guard::log_panics();
    // SAFETY: the server passed the context and the arguments for this call.
    let loaded = panic_guard::guard("load", Err("a bug".to_owned()), || unsafe { load(ctx, Args::new(argv, count)) });
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
        return Err(format!("the server lacks {function}, Redis 7.0 or Valkey 7.2 is required"));
    }
    // SAFETY: the caller vouches for the context.
    unsafe {
        api!(RedisModule_SetModuleOptions)(ctx, options(&Context::new(ctx)).cast_signed());
        datatype::register(ctx)?;
        config::register(ctx, args)?;
        commands::register(ctx)?;
        info_section::register(ctx, add_info_sections)?;
    }
    stats::start(server::now());
    if let Some(path) = config::policy_file() {
        policies::use_file(path)?;
    }
    // SAFETY: the caller vouches for the context, and nothing can fail any more.
    unsafe { server_events::subscribe(ctx) };
    Ok(())
}

fn add_info_sections(sections: &Sections) {
    Snapshot::take(policies::counts()).add_to(sections);
}

/// The options of the module.
fn options(ctx: &Context) -> u32 {
    // Corrupt files are refused by the module instead of aborting the server. Changes are signalled by the module, so that a
    // denied request does not invalidate WATCH and caches. And a replica may load its primary's data while it still serves
    // its own: the policies, which are kept outside the keys, are kept apart until then.
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // Keys may exist of a slot that is still arriving: no command lists them, and statistics count them as what they are,
    // memory in use.
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
