//! The native type `ratelimit`: keys that hold a limiter, or the limits of a policy.

mod auxiliary;
mod callbacks;
mod defrag;
mod key;

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use limiter::Value;
use redis_module::raw;

use crate::formats::TYPE_VERSION;
use crate::server::api::{self, api};
use crate::stats::keys;

pub use key::{expiring_string, read, Key, OpenError, WrongType};

/// The name of the type, by which RDB files and dumps know it.
const NAME: &std::ffi::CStr = c"ratelimit";

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// The callbacks of the type.
const METHODS: raw::RedisModuleTypeMethods = raw::RedisModuleTypeMethods {
    version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
    rdb_load: Some(callbacks::rdb_load),
    rdb_save: Some(callbacks::rdb_save),
    // For append-only files without an RDB preamble. The server calls it unchecked.
    aof_rewrite: Some(callbacks::aof_rewrite),
    mem_usage: Some(callbacks::mem_usage),
    digest: Some(callbacks::digest),
    free: Some(callbacks::free),
    // The policies, before the keys that use them.
    aux_load: Some(auxiliary::aux_load),
    aux_save: Some(auxiliary::aux_save),
    aux_save_triggers: api::BEFORE_KEYS,
    // Long logs are freed in the background.
    free_effort: Some(callbacks::free_effort),
    // Nothing else refers to a value, so nothing has to know that its key is gone.
    unlink: None,
    copy: Some(callbacks::copy),
    defrag: Some(defrag::defrag),
    // The second forms also get the key and the database, which are not needed.
    mem_usage2: None,
    free_effort2: None,
    unlink2: None,
    copy2: None,
    // On servers with this form, a file without policies and keys of the module can be loaded without the module.
    aux_save2: Some(auxiliary::aux_save2),
};

/// Makes a value of the type, which the server owns until it calls `free`.
fn into_raw(mut value: Value) -> *mut Value {
    keys::added(&mut value);
    Box::into_raw(Box::new(value))
}

/// Frees a value.
///
/// # Safety
/// It came from [`into_raw`], and is not used any more.
unsafe fn free_raw(value: *mut Value) {
    // SAFETY: the caller vouches for it.
    let value = unsafe { Box::from_raw(value) };
    keys::removed(&value);
}

/// Registers the type.
///
/// # Errors
/// When the server refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    let mut methods = METHODS;
    // SAFETY: the caller vouches for the context; the server copies the table.
    let created = unsafe { api!(RedisModule_CreateDataType)(ctx, NAME.as_ptr(), TYPE_VERSION, &raw mut methods) };
    if created.is_null() {
        return Err("the server refuses the data type ratelimit".to_owned());
    }
    TYPE.store(created, Ordering::Relaxed);
    Ok(())
}
