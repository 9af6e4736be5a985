//! The commands. Each file shows the whole life of a request: parse, decide, replicate, record, reply. The table of
//! commands is in `table.rs`.

mod all;
mod apply;
mod check;
mod info;
mod limit;
mod options;
mod outcome;
mod peek;
mod policy;
mod refund;
mod stats;
mod table;
pub mod throttle;
mod top;

use std::ffi::CStr;

use redis_module::raw;

use crate::server::{log, CommandSpec};

pub use options::{Options, REQUEST as REQUEST_OPTIONS};

/// The ACL category of the commands that applications use, on servers where modules can add one.
const CATEGORY: &CStr = c"ratelimit";

/// Registers the commands: all of them, or none with an error. If another module has `CL.THROTTLE`, all others.
///
/// # Errors
/// When the server refuses one.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that, after the configuration is known.
pub unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: the caller vouches for the context.
    unsafe {
        let category = CommandSpec::add_category(ctx, CATEGORY);
        table::COMMANDS.iter().try_for_each(|command| command.register(ctx, category))?;
        let enabled = throttle::is_enabled();
        let registered = enabled && table::THROTTLE.register_if_free(ctx, category)?;
        if enabled && !registered {
            log::notice("redis-ratelimit: CL.THROTTLE belongs to another module and is not registered");
        }
        throttle::set_loaded(registered);
    }
    Ok(())
}
