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

/// Few servers defragment, so here a made-up one does, in the most trying way: it moves everything it is shown, and stops
/// after every step.
#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serial_test::serial;

    use super::*;
    use crate::limiter::{Algorithm, Quota};

    static CURSOR: AtomicU64 = AtomicU64::new(0);
    static MOVED: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" fn always_move(_ctx: *mut RedisModuleDefragCtx, memory: *mut c_void) -> *mut c_void {
        MOVED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: without a server all memory is the C library's, which knows how much it is.
        unsafe {
            let size = libc::malloc_usable_size(memory);
            let new = libc::malloc(size);
            libc::memcpy(new, memory, size);
            libc::free(memory);
            new
        }
    }

    unsafe extern "C" fn cursor_get(_ctx: *mut RedisModuleDefragCtx, cursor: *mut c_ulong) -> c_int {
        // SAFETY: the callback passes a place to write to.
        unsafe { *cursor = CURSOR.load(Ordering::Relaxed) };
        0
    }

    unsafe extern "C" fn cursor_set(_ctx: *mut RedisModuleDefragCtx, cursor: c_ulong) -> c_int {
        CURSOR.store(cursor, Ordering::Relaxed);
        0
    }

    unsafe extern "C" fn always_stop(_ctx: *mut RedisModuleDefragCtx) -> c_int {
        1
    }

    /// Makes the made-up server the one that is asked.
    fn set_up() {
        // SAFETY: no other test that looks at these functions runs at the same time.
        unsafe {
            redis_module::raw::RedisModule_DefragAlloc = Some(always_move);
            redis_module::raw::RedisModule_DefragCursorGet = Some(cursor_get);
            redis_module::raw::RedisModule_DefragCursorSet = Some(cursor_set);
            redis_module::raw::RedisModule_DefragShouldStop = Some(always_stop);
        }
        CURSOR.store(0, Ordering::Relaxed);
        MOVED.store(0, Ordering::Relaxed);
    }

    /// A value as the server holds it.
    struct Value(*mut c_void);

    impl Value {
        fn new(limiter: Limiter) -> Self {
            Self(Box::into_raw(Box::new(limiter)).cast())
        }

        /// Moves a part of it, and says whether that was the last.
        fn step(&mut self) -> bool {
            // SAFETY: the functions ignore the context; the value is ours, and used by nobody else.
            unsafe { defrag(ptr::null_mut(), ptr::null_mut(), &raw mut self.0) == DONE }
        }

        fn limiter(&mut self) -> &mut Limiter {
            // SAFETY: it was boxed as one, and moved as a whole since.
            unsafe { &mut *self.0.cast() }
        }
    }

    impl Drop for Value {
        fn drop(&mut self) {
            // SAFETY: as above; nobody uses it any more.
            drop(unsafe { Box::from_raw(self.0.cast::<Limiter>()) });
        }
    }

    const NOW: u64 = 1_790_000_000_000_000;
    /// Between two requests.
    const PAUSE: u64 = 1_000_003;

    fn limiter(quota: &Quota, requests: u64) -> Limiter {
        let mut limiter = Limiter::new(quota);
        for request in 0..requests {
            limiter.request(quota, 1, false, NOW + request * PAUSE).expect("its own algorithm");
        }
        limiter
    }

    /// How many allocations a limiter consists of.
    fn allocations(limiter: &mut Limiter) -> u64 {
        let pieces = limiter.entries().map_or(0, |entries| entries.piece_count() as u64);
        // Itself, its state, the queue of a longer log with its content, and what the entries are in.
        let Some(state) = limiter.whole_mut() else { return 1 };
        let has_queue = state.entries_mut().is_some_and(|entries| entries.queue_mut().is_some());
        2 + 2 * u64::from(has_queue) + pieces
    }

    #[test]
    #[serial(functions)]
    fn everything_is_moved_and_can_be_used_and_freed() {
        for (algorithm, limit, pace, requests) in [
            (Algorithm::TokenBucket, "10", "1", 3),
            (Algorithm::LeakyBucket, "9007199254740991", "1000000000", 3),
            (Algorithm::FixedWindow, "10", "60", 3),
            (Algorithm::SlidingCounter, "9007199254740991", "3650d", 3),
            (Algorithm::SlidingLog, "1000000", "1d", 0),
            (Algorithm::SlidingLog, "1000000", "1d", 3),
            (Algorithm::SlidingLog, "1000000", "1d", 5_000),
        ] {
            set_up();
            let quota = Quota::parse(algorithm, limit.as_bytes(), pace.as_bytes()).expect("a quota");
            let mut unmoved = limiter(&quota, requests);
            let mut value = Value::new(unmoved.clone());
            let mut steps = 1;
            while !value.step() {
                steps += 1;
            }
            let moved = value.limiter();
            assert_eq!(MOVED.load(Ordering::Relaxed), allocations(moved), "{algorithm:?}, {requests} requests");
            assert_eq!(steps > 10, requests == 5_000, "{algorithm:?}: {steps} steps");
            assert_eq!(*moved, unmoved);
            for later in [NOW + 5_000_000_000, NOW + 80_000_000_000, NOW + 91_400_000_000] {
                assert_eq!(moved.request(&quota, 1, true, later), unmoved.request(&quota, 1, true, later));
                assert_eq!(*moved, unmoved);
            }
        }
    }

    #[test]
    #[serial(functions)]
    fn a_log_can_grow_shrink_and_go_while_it_is_moved() {
        let quota = Quota::parse(Algorithm::SlidingLog, b"1000000", b"1d").expect("a quota");
        // How much time passes between two steps: none of the entries leave, some, or all of them.
        for pause in [PAUSE, 4_000_000_000, 90_000_000_000] {
            set_up();
            let mut unmoved = limiter(&quota, 5_000);
            let mut value = Value::new(unmoved.clone());
            let mut now = NOW + 5_000 * PAUSE;
            while !value.step() {
                for _ in 0..300 {
                    assert_eq!(value.limiter().request(&quota, 1, true, now), unmoved.request(&quota, 1, true, now));
                    now += PAUSE;
                }
                assert_eq!(*value.limiter(), unmoved);
                now += pause;
                if now > NOW + 500_000_000_000 {
                    break; // It goes, having been moved in part.
                }
            }
        }
    }
}
