//! The native type `ratelimit`: a key that holds a limiter, or the limits of a policy.

mod callbacks;
mod defrag;
mod key;
pub mod live;
mod policies;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use crate::limiter::{Held, FORMAT_VERSION};
use crate::server::api::{self, api};

pub use key::{look_at, text_that_expires, CannotOpen, Foreign, Key};

/// The type's name, by which snapshots and dumps know it.
const NAME: &std::ffi::CStr = c"ratelimit";

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// What the server calls on a value.
const METHODS: raw::RedisModuleTypeMethods = raw::RedisModuleTypeMethods {
    version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
    rdb_load: Some(callbacks::rdb_load),
    rdb_save: Some(callbacks::rdb_save),
    // Only for an append-only file without the snapshot preamble. The server calls it unchecked.
    aof_rewrite: Some(callbacks::aof_rewrite),
    mem_usage: Some(callbacks::mem_usage),
    digest: Some(callbacks::digest),
    free: Some(callbacks::free),
    // What is kept outside the keys: the policies, which are there before the keys that use them.
    aux_load: Some(policies::aux_load),
    aux_save: Some(policies::aux_save),
    aux_save_triggers: api::BEFORE_KEYS,
    // Long logs are freed in the background.
    free_effort: Some(callbacks::free_effort),
    // Nothing else refers to a value, so nothing has to know that its key is gone.
    unlink: None,
    copy: Some(callbacks::copy),
    defrag: Some(defrag::defrag),
    // The second forms also tell the key and the database, which make no difference here.
    mem_usage2: None,
    free_effort2: None,
    unlink2: None,
    copy2: None,
    // Where the server has this form of `aux_save`, a snapshot without policies says nothing of them, and so does not need
    // the module as long as it has no keys of ours either.
    aux_save2: Some(policies::aux_save2),
};

/// Makes a value of the type, for the server to keep until it has it freed.
fn make_value(mut held: Held) -> *mut Held {
    live::added(&mut held);
    Box::into_raw(Box::new(held))
}

/// Frees a value.
///
/// # Safety
/// It was made by [`make_value`], and nobody uses it any more.
unsafe fn free_value(value: *mut Held) {
    // SAFETY: the caller vouches for it.
    let held = unsafe { Box::from_raw(value) };
    live::removed(&held);
}

/// Makes the type known to the server.
///
/// # Errors
/// When the server refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    let mut methods = METHODS;
    let version = c_int::from(FORMAT_VERSION);
    // SAFETY: the caller vouches for the context; the server copies the table.
    let created = unsafe { api!(RedisModule_CreateDataType)(ctx, NAME.as_ptr(), version, &raw mut methods) };
    if created.is_null() {
        return Err("the server refuses the data type ratelimit".to_owned());
    }
    TYPE.store(created, Ordering::Relaxed);
    Ok(())
}
