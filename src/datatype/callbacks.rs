//! What the server calls to save, load, copy, measure and free a value.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use redis_module::raw::{RedisModuleDigest, RedisModuleIO, RedisModuleString};

use crate::limiter::{decode_piece, encode_piece, Entries, Limiter, FORMAT_VERSION};
use crate::replication::{state_facts, APPLY};
use crate::server::entry::{guard, guard_saving};
use crate::server::{api, log};

/// # Safety
/// `value` is a value of our type that the server keeps alive and unchanged as long as the reference is used.
unsafe fn limiter<'a>(value: *const c_void) -> &'a Limiter {
    // SAFETY: the values of our type are boxed limiters.
    unsafe { &*value.cast::<Limiter>() }
}

/// Saves a value: the limiter, and for a log the number of its pieces and each of them.
pub unsafe extern "C" fn rdb_save(rdb: *mut RedisModuleIO, value: *mut c_void) {
    guard_saving("rdb_save", || {
        // SAFETY: the server passes a value of our type.
        let limiter = unsafe { limiter(value) };
        let mut bytes = Vec::new();
        limiter.encode(&mut bytes);
        // SAFETY: the server passed `rdb` to this call.
        unsafe { save_bytes(rdb, &bytes) };
        let Some(entries) = limiter.entries() else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_SaveUnsigned)(rdb, entries.piece_count() as u64) };
        for piece in entries.pieces() {
            bytes.clear();
            encode_piece(piece, &mut bytes);
            // SAFETY: as above.
            unsafe { save_bytes(rdb, &bytes) };
        }
    });
}

/// # Safety
/// `rdb` is what the server passed to the callback that is running.
unsafe fn save_bytes(rdb: *mut RedisModuleIO, bytes: &[u8]) {
    // SAFETY: the caller vouches for `rdb`; the server copies the bytes.
    unsafe { api!(RedisModule_SaveStringBuffer)(rdb, bytes.as_ptr().cast(), bytes.len()) };
}

/// Loads a value; null, with a line in the log, for anything that `rdb_save` has not written.
pub unsafe extern "C" fn rdb_load(rdb: *mut RedisModuleIO, version: c_int) -> *mut c_void {
    guard("rdb_load", ptr::null_mut(), || {
        // SAFETY: the server passed `rdb` to this call.
        match unsafe { load(rdb, version) } {
            Ok(limiter) => Box::into_raw(Box::new(limiter)).cast(),
            Err(problem) => {
                // SAFETY: as above.
                unsafe { log::load_error(rdb, problem) };
                ptr::null_mut()
            }
        }
    })
}

/// # Safety
/// `rdb` is what the server passed to the callback that is running.
unsafe fn load(rdb: *mut RedisModuleIO, version: c_int) -> Result<Limiter, &'static str> {
    if version != c_int::from(FORMAT_VERSION) {
        return Err("a ratelimit key was saved by a version of the module that is not known here");
    }
    // SAFETY: the caller vouches for `rdb`.
    let mut limiter =
        unsafe { with_loaded_bytes(rdb, |bytes| Limiter::decode(bytes).ok()) }.ok_or("a ratelimit key is damaged")?;
    if limiter.entries().is_none() {
        return Ok(limiter);
    }
    // The count is only a number of turns: a wrong one runs into the end of what there is to load.
    // SAFETY: as above.
    let (pieces, failed) = unsafe { (api!(RedisModule_LoadUnsigned)(rdb), api!(RedisModule_IsIOError)(rdb) != 0) };
    if failed {
        return Err("the log of a ratelimit key is damaged");
    }
    for _ in 0..pieces {
        // SAFETY: as above.
        unsafe { with_loaded_bytes(rdb, |bytes| limiter.append(decode_piece(bytes)?).ok()) }
            .ok_or("the log of a ratelimit key is damaged")?;
    }
    Ok(limiter)
}

/// Passes the next saved bytes to `read`; `None` if there are none, or if it returns that.
///
/// # Safety
/// `rdb` is what the server passed to the callback that is running.
unsafe fn with_loaded_bytes<T>(rdb: *mut RedisModuleIO, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let mut len = 0;
    // SAFETY: the caller vouches for `rdb`. The server returns null or a buffer of `len` bytes that is ours to free.
    unsafe {
        let buffer = api!(RedisModule_LoadStringBuffer)(rdb, &raw mut len);
        if buffer.is_null() {
            return None;
        }
        let result = read(slice::from_raw_parts(buffer.cast(), len));
        api!(RedisModule_Free)(buffer.cast());
        result
    }
}

/// Writes the commands that make the value anew.
pub unsafe extern "C" fn aof_rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    guard_saving("aof_rewrite", || {
        // SAFETY: the server passes a value of our type.
        for fact in state_facts(unsafe { limiter(value) }) {
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
        unsafe { limiter(value) }.bytes()
    })
}

/// Adds what a value holds to a digest: equal states, however they came about, have equal digests.
pub unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard("digest", (), || {
        // SAFETY: the server passes a value of our type.
        let limiter = unsafe { limiter(value) };
        let mut bytes = Vec::new();
        limiter.encode(&mut bytes);
        for entry in limiter.entries().into_iter().flat_map(Entries::iter) {
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
    guard("free", (), || drop(unsafe { Box::from_raw(value.cast::<Limiter>()) }));
}

/// How many allocations are to be freed; many are freed in the background.
pub unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    guard("free_effort", 1, || {
        // SAFETY: the server passes a value of our type.
        let limiter = unsafe { limiter(value) };
        1 + limiter.entries().map_or(0, Entries::piece_count)
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
        Box::into_raw(Box::new(unsafe { limiter(value) }.clone())).cast()
    })
}
