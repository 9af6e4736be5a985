//! The callbacks that save, load, copy, measure and free a value.

use std::ffi::{c_int, c_void};
use std::ptr;

use limiter::{DecodeError, Value};
use redis_module::raw::{RedisModuleDigest, RedisModuleIO, RedisModuleString};

use super::{free_raw, into_raw};
use crate::formats::TYPE_VERSION;
use crate::replication::{effect, APPLY};
use crate::server::panic_guard::{guard, guard_saving};
use crate::server::{api, Rdb};

/// # Safety
/// `value` is a value of the type, which stays alive and unchanged as long as the reference is used.
unsafe fn as_value<'a>(value: *const c_void) -> &'a Value {
    // SAFETY: values of the type come from `into_raw`.
    unsafe { &*value.cast::<Value>() }
}

/// Saves a value.
pub unsafe extern "C" fn rdb_save(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes the file, and a value of the type.
    guard_saving("rdb_save", || unsafe { as_value(value).save(&mut Rdb::new(io)) });
}

/// Loads a value; null, with a line in the log, if it is corrupt or of a later version.
pub unsafe extern "C" fn rdb_load(io: *mut RedisModuleIO, version: c_int) -> *mut c_void {
    guard("rdb_load", ptr::null_mut(), || {
        // SAFETY: the server passes the file.
        let mut rdb = unsafe { Rdb::new(io) };
        let loaded = check_type_version(version).and_then(|()| Value::load(&mut rdb));
        match loaded {
            Ok(value) => into_raw(value).cast(),
            Err(error) => {
                rdb.log_error(&format!("cannot load a ratelimit key: {error}"));
                ptr::null_mut()
            }
        }
    })
}

/// Checks the encoding version that the server has stored for the type.
pub(super) fn check_type_version(version: c_int) -> Result<(), DecodeError> {
    let version = u64::try_from(version).unwrap_or(0);
    DecodeError::check_version("type encoding version", version, TYPE_VERSION.unsigned_abs().into())
}

/// Writes the commands that recreate the value.
pub unsafe extern "C" fn aof_rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    guard_saving("aof_rewrite", || {
        // SAFETY: the server passes a value of the type.
        for effect in effect::recreate(unsafe { as_value(value) }) {
            // SAFETY: the server passed `aof` and `key` to this call; the format announces a string of the server's
            // and a buffer with its length, and these follow.
            unsafe {
                api!(RedisModule_EmitAOF)(aof, APPLY.as_ptr(), c"sb".as_ptr(), key, effect.as_ptr(), effect.len());
            }
        }
    });
}

/// The bytes of memory that a value takes.
pub unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guard("mem_usage", 0, || {
        // SAFETY: the server passes a value of the type.
        unsafe { as_value(value) }.bytes()
    })
}

/// Adds a value to a digest. Equal values have equal digests, however they came about.
pub unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard("digest", (), || {
        // SAFETY: the server passes a value of the type.
        let bytes = unsafe { as_value(value) }.canonical_bytes();
        // SAFETY: the server passed `digest` to this call and only reads the bytes.
        unsafe {
            api!(RedisModule_DigestAddStringBuffer)(digest, bytes.as_ptr().cast(), bytes.len());
            api!(RedisModule_DigestEndSequence)(digest);
        }
    });
}

/// Frees a value, in any thread.
pub unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server passes a value of the type and does not use it any more.
    guard("free", (), || unsafe { free_raw(value.cast()) });
}

/// The number of allocations to free; values with many are freed in the background.
pub unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    guard("free_effort", 1, || {
        // SAFETY: the server passes a value of the type.
        unsafe { as_value(value) }.allocations()
    })
}

/// Copies a value, for `COPY`.
pub unsafe extern "C" fn copy(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard("copy", ptr::null_mut(), || {
        // SAFETY: the server passes a value of the type.
        into_raw(unsafe { as_value(value) }.clone()).cast()
    })
}
