//! Active defragmentation: the server says which memory is worth moving, and where to.

use std::collections::VecDeque;
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::{self, ManuallyDrop};
use std::ptr;

use redis_module::raw::{RedisModuleDefragCtx, RedisModuleString};

use crate::limiter::Limiter;
use crate::server::api;
use crate::server::entry::guard;

/// The callback's answers.
const DONE: c_int = 0;
const MORE: c_int = 1;

/// Moves a value's memory. A long log is moved in steps: the cursor counts the buffers that are done.
pub unsafe extern "C" fn defrag(
    ctx: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard("defrag", DONE, || {
        let mut done: c_ulong = 0;
        // SAFETY: the server passed `ctx` to this call, and in `value` a value of our type that nobody else uses now.
        unsafe {
            // Refused, and no step, where the value is moved at once.
            api!(RedisModule_DefragCursorGet)(ctx, &raw mut done);
            if done == 0 {
                *value = moved(ctx, *value);
            }
            let limiter = &mut *(*value).cast::<Limiter>();
            let Some(state) = limiter.whole_mut() else { return DONE };
            if done == 0 {
                move_box(ctx, state);
            }
            let Some(entries) = state.entries_mut() else { return DONE };
            if let Some(queue) = entries.queue_mut().filter(|_| done == 0) {
                move_box(ctx, queue);
                move_queue(ctx, queue);
            }
            for buffer in entries.buffers_mut(usize::try_from(done).unwrap_or(usize::MAX)) {
                move_vec(ctx, buffer);
                done += 1;
                if api!(RedisModule_DefragShouldStop)(ctx) != 0 {
                    api!(RedisModule_DefragCursorSet)(ctx, done);
                    return MORE;
                }
            }
        }
        DONE
    })
}

/// The new place of an allocation, or the old one where the server leaves it.
///
/// # Safety
/// `ctx` is the running callback's, and `memory` an allocation of the server's.
unsafe fn moved<T>(ctx: *mut RedisModuleDefragCtx, memory: *mut T) -> *mut T {
    // SAFETY: the caller vouches for both; the server copies the bytes and frees the old place if it moves them.
    let new = unsafe { api!(RedisModule_DefragAlloc)(ctx, memory.cast()) };
    if new.is_null() {
        memory
    } else {
        new.cast()
    }
}

/// # Safety
/// `ctx` is the running callback's; the memory of boxes is the server's in a server.
unsafe fn move_box<T>(ctx: *mut RedisModuleDefragCtx, it: &mut Box<T>) {
    // SAFETY: the old box is overwritten without being dropped by one of the same value, perhaps in another place of
    // the same size and allocator; nothing in between can panic.
    unsafe { ptr::write(it, Box::from_raw(moved(ctx, ptr::from_mut(&mut **it)))) };
}

/// # Safety
/// `ctx` is the running callback's; the memory of vectors is the server's in a server.
unsafe fn move_vec<T>(ctx: *mut RedisModuleDefragCtx, vec: &mut Vec<T>) {
    if vec.capacity() == 0 {
        return;
    }
    let mut old = ManuallyDrop::new(mem::take(vec));
    // SAFETY: the parts are those of a vector that is not dropped, its memory perhaps in another place of the same
    // size and allocator.
    *vec = unsafe { Vec::from_raw_parts(moved(ctx, old.as_mut_ptr()), old.len(), old.capacity()) };
}

/// # Safety
/// As for [`move_vec`].
unsafe fn move_queue<T>(ctx: *mut RedisModuleDefragCtx, queue: &mut VecDeque<T>) {
    // A queue and a vector turn into each other without another allocation.
    let mut vec = Vec::from(mem::take(queue));
    // SAFETY: the caller vouches for it.
    unsafe { move_vec(ctx, &mut vec) };
    *queue = VecDeque::from(vec);
}
