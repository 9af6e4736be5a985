//! What the server calls to save, load, copy, measure and free a value.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use redis_module::raw::{RedisModuleDigest, RedisModuleIO, RedisModuleString};

use super::{free_value, make_value};
use crate::limiter::{Entries, Held, Limiter, Save, Saved, FORMAT_VERSION};
use crate::replication::{state_facts, APPLY};
use crate::server::entry::{guard, guard_saving};
use crate::server::{api, log};

/// # Safety
/// `value` is a value of our type that the server keeps alive and unchanged as long as the reference is used.
unsafe fn held<'a>(value: *const c_void) -> &'a Held {
    // SAFETY: the values of our type are boxed ones of this.
    unsafe { &*value.cast::<Held>() }
}

/// The file that the server is writing or reading: made by the callbacks below alone, of what the server passed to them,
/// and gone when they return.
pub struct Rdb(pub *mut RedisModuleIO);

/// Saves a value.
pub unsafe extern "C" fn rdb_save(rdb: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes a value of our type.
    guard_saving("rdb_save", || unsafe { held(value) }.save(&mut Rdb(rdb)));
}

impl Save for Rdb {
    fn number(&mut self, number: u64) {
        // SAFETY: the server passed the file to the callback that is running.
        unsafe { api!(RedisModule_SaveUnsigned)(self.0, number) };
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above; the server copies the bytes.
        unsafe { api!(RedisModule_SaveStringBuffer)(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }
}

/// Loads a value; null, with a line in the log, for anything that is not one.
pub unsafe extern "C" fn rdb_load(rdb: *mut RedisModuleIO, version: c_int) -> *mut c_void {
    guard("rdb_load", ptr::null_mut(), || {
        let loaded = if version == c_int::from(FORMAT_VERSION) {
            Held::load(&mut Rdb(rdb))
        } else {
            Err("a ratelimit key was saved by a version of the module that is not known here")
        };
        match loaded {
            Ok(held) => make_value(held).cast(),
            Err(problem) => {
                // SAFETY: the server passed the file to this call.
                unsafe { log::load_error(rdb, problem) };
                ptr::null_mut()
            }
        }
    })
}

impl Saved for Rdb {
    fn number(&mut self) -> Option<u64> {
        // SAFETY: the server passed the file to the callback that is running.
        unsafe {
            let number = api!(RedisModule_LoadUnsigned)(self.0);
            (api!(RedisModule_IsIOError)(self.0) == 0).then_some(number)
        }
    }

    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut len = 0;
        // SAFETY: as above. The server returns null or a buffer of `len` bytes that is ours to free.
        unsafe {
            let buffer = api!(RedisModule_LoadStringBuffer)(self.0, &raw mut len);
            if buffer.is_null() {
                return None;
            }
            let result = read(slice::from_raw_parts(buffer.cast(), len));
            api!(RedisModule_Free)(buffer.cast());
            result
        }
    }
}

/// Writes the commands that make the value anew.
pub unsafe extern "C" fn aof_rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    guard_saving("aof_rewrite", || {
        // SAFETY: the server passes a value of our type.
        for fact in state_facts(unsafe { held(value) }) {
            // SAFETY: the server passed `aof` and `key` to this call; the format announces a string of the server's
            // and a buffer with its length, and that is what follows.
            unsafe {
                api!(RedisModule_EmitAOF)(aof, APPLY.as_ptr(), c"sb".as_ptr(), key, fact.as_ptr(), fact.len());
            }
        }
    });
}

/// The bytes a value takes.
pub unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guard("mem_usage", 0, || {
        // SAFETY: the server passes a value of our type.
        unsafe { held(value) }.bytes()
    })
}

/// Adds what a value holds to a digest: equal states, however they came about, have equal digests.
pub unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard("digest", (), || {
        // SAFETY: the server passes a value of our type.
        let held = unsafe { held(value) };
        let mut bytes = Vec::new();
        held.encode(&mut bytes);
        for entry in held.limiters().iter().filter_map(Limiter::entries).flat_map(Entries::iter) {
            bytes.extend_from_slice(&entry.time.to_le_bytes());
            bytes.extend_from_slice(&entry.cost.to_le_bytes());
        }
        // SAFETY: the server passed `digest` to this call and only reads the bytes.
        unsafe {
            api!(RedisModule_DigestAddStringBuffer)(digest, bytes.as_ptr().cast(), bytes.len());
            api!(RedisModule_DigestEndSequence)(digest);
        }
    });
}

/// Frees a value, perhaps in another thread.
pub unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server passes a value of our type and uses it no more.
    guard("free", (), || unsafe { free_value(value.cast()) });
}

/// How many allocations are to be freed; many are freed in the background.
pub unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    guard("free_effort", 1, || {
        // SAFETY: the server passes a value of our type.
        unsafe { held(value) }.allocations()
    })
}

/// Copies a value, for `COPY`.
pub unsafe extern "C" fn copy(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard("copy", ptr::null_mut(), || {
        // SAFETY: the server passes a value of our type.
        make_value(unsafe { held(value) }.clone()).cast()
    })
}
