//! Active defragmentation: the server decides which allocations to move, and where to.

use std::collections::VecDeque;
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::{self, ManuallyDrop};
use std::ptr;

use limiter::{Entries, Limiter, Value};
use redis_module::raw::{RedisModuleDefragCtx, RedisModuleString};

use crate::server::api;
use crate::server::panic_guard::guard;

/// The results of the callback.
const DONE: c_int = 0;
const MORE: c_int = 1;

/// Moves the allocations of a value. A long log takes several calls: the cursor counts the buffers that are done.
pub unsafe extern "C" fn defrag(
    ctx: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard("defrag", DONE, || {
        let mut done: c_ulong = 0;
        // SAFETY: the server passed `ctx` to this call, and in `value` a value of the type that nothing else uses now.
        unsafe {
            // Fails, and leaves 0, where the value has to be moved in one call.
            api!(RedisModule_DefragCursorGet)(ctx, &raw mut done);
            if done == 0 {
                *value = moved(ctx, *value);
            }
            let value = &mut *(*value).cast::<Value>();
            if done == 0 {
                move_all_but_buffers(ctx, value);
            }
            let logs =
                value.limiters_mut().iter_mut().filter_map(Limiter::unpacked_mut).filter_map(|it| it.entries_mut());
            let buffers = logs.flat_map(Entries::buffers_mut);
            for buffer in buffers.skip(usize::try_from(done).unwrap_or(usize::MAX)) {
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

/// # Safety
/// `ctx` is the running callback's; the memory of the value is the server's.
unsafe fn move_all_but_buffers(ctx: *mut RedisModuleDefragCtx, value: &mut Value) {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        if let Value::Policy(limits) = value {
            move_slice(ctx, limits.box_mut());
        }
        for unpacked in value.limiters_mut().iter_mut().filter_map(Limiter::unpacked_mut) {
            move_box(ctx, unpacked);
            if let Some(queue) = unpacked.entries_mut().and_then(|entries| entries.queue_mut()) {
                move_box(ctx, queue);
                move_queue(ctx, queue.chunks_mut());
            }
        }
    }
}

/// The new address of an allocation, or the old one if the server does not move it.
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
unsafe fn move_slice<T>(ctx: *mut RedisModuleDefragCtx, slice: &mut Box<[T]>) {
    // A slice and a vector that is no larger turn into each other without another allocation.
    let mut vec = Vec::from(mem::take(slice));
    // SAFETY: the caller vouches for it.
    unsafe { move_vec(ctx, &mut vec) };
    *slice = vec.into_boxed_slice();
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

/// Few servers are built with defragmentation, so here a mock does it, in the worst way: it moves everything, and stops
/// after every step.
#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serial_test::serial;

    use super::*;
    use limiter::{Algorithm, Decision, PerLimit, PolicyLimits, PolicyName, Quota, Request};

    static CURSOR: AtomicU64 = AtomicU64::new(0);
    static MOVED: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" fn always_move(_ctx: *mut RedisModuleDefragCtx, memory: *mut c_void) -> *mut c_void {
        MOVED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: without a server all memory is the C library's, which knows its size.
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

    /// Installs the mock.
    fn set_up() {
        // SAFETY: no other test that uses these functions runs at the same time.
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
    struct Owned(*mut c_void);

    impl Owned {
        fn new(value: Value) -> Self {
            Self(Box::into_raw(Box::new(value)).cast())
        }

        /// Moves a part of it; returns whether it was the last.
        fn step(&mut self) -> bool {
            // SAFETY: the functions ignore the context; nothing else uses the value.
            unsafe { defrag(ptr::null_mut(), ptr::null_mut(), &raw mut self.0) == DONE }
        }

        fn value(&mut self) -> &mut Value {
            // SAFETY: it was boxed as one, and is only moved as a whole.
            unsafe { &mut *self.0.cast() }
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            // SAFETY: as above; it is not used any more.
            drop(unsafe { Box::from_raw(self.0.cast::<Value>()) });
        }
    }

    const NOW: u64 = 1_790_000_000_000_000;
    /// Between two requests.
    const PAUSE: u64 = 1_000_003;

    fn limiter(quota: &Quota, requests: u64) -> Limiter {
        let mut limiter = Limiter::new(quota);
        for request in 0..requests {
            limiter.request(quota, Request::new(1, NOW + request * PAUSE)).expect("its own algorithm");
        }
        limiter
    }

    fn policy(quotas: &[Quota], requests: u64) -> Value {
        let mut limits = PolicyLimits::new(PolicyName::new(b"policy").expect("a name"), quotas);
        for request in 0..requests {
            limits.request(quotas, Request::new(1, NOW + request * PAUSE), &mut PerLimit::new());
        }
        Value::Policy(limits)
    }

    fn quota(algorithm: Algorithm, limit: &str, pace: &str) -> Quota {
        Quota::parse(algorithm, limit.as_bytes(), pace.as_bytes()).expect("a quota")
    }

    /// The number of allocations of a value.
    fn allocations(value: &mut Value) -> u64 {
        // Itself, and the list of a policy's limiters.
        let outer = 1 + u64::from(matches!(value, Value::Policy(_)));
        let of_limiter = |limiter: &mut Limiter| {
            let segments = limiter.entries().map_or(0, |entries| entries.segment_count() as u64);
            // The unpacked form, the queue of a longer log with its content, and the buffers.
            let Some(unpacked) = limiter.unpacked_mut() else { return 0 };
            let has_queue = unpacked.entries_mut().is_some_and(|entries| entries.queue_mut().is_some());
            1 + 2 * u64::from(has_queue) + segments
        };
        outer + value.limiters_mut().iter_mut().map(of_limiter).sum::<u64>()
    }

    /// Takes from every limiter, and returns the decisions.
    fn use_it(value: &mut Value, now: u64) -> Vec<Decision> {
        let request = |limiter: &mut Limiter| {
            let quota = limiter.quota();
            limiter.request(&quota, Request::forced(1, now)).expect("its own algorithm")
        };
        value.limiters_mut().iter_mut().map(request).collect()
    }

    #[test]
    #[serial(functions)]
    fn a_moved_value_works_and_can_be_freed() {
        let long_log = quota(Algorithm::SlidingLog, "1000000", "1d");
        let bucket = quota(Algorithm::TokenBucket, "1000000", "1");
        let huge = quota(Algorithm::LeakyBucket, "9007199254740991", "1000000000");
        for (what, mut unmoved, has_long_log) in [
            ("packed", Value::Limiter(limiter(&quota(Algorithm::TokenBucket, "10", "1"), 3)), false),
            ("unpacked", Value::Limiter(limiter(&huge, 3)), false),
            ("window", Value::Limiter(limiter(&quota(Algorithm::FixedWindow, "10", "60"), 3)), false),
            (
                "counter",
                Value::Limiter(limiter(&quota(Algorithm::SlidingCounter, "9007199254740991", "3650d"), 3)),
                false,
            ),
            ("empty log", Value::Limiter(limiter(&long_log, 0)), false),
            ("short log", Value::Limiter(limiter(&long_log, 3)), false),
            ("long log", Value::Limiter(limiter(&long_log, 5_000)), true),
            ("policy of one", policy(&[bucket], 3), false),
            ("policy", policy(&[bucket, long_log, huge, long_log], 5_000), true),
        ] {
            set_up();
            let mut value = Owned::new(unmoved.clone());
            let mut steps = 1;
            while !value.step() {
                steps += 1;
            }
            let moved = value.value();
            assert_eq!(MOVED.load(Ordering::Relaxed), allocations(moved), "{what}");
            assert_eq!(steps > 10, has_long_log, "{what}: {steps} steps");
            assert_eq!(*moved, unmoved);
            for later in [NOW + 5_000_000_000, NOW + 80_000_000_000, NOW + 91_400_000_000] {
                assert_eq!(use_it(moved, later), use_it(&mut unmoved, later));
                assert_eq!(*moved, unmoved);
            }
        }
    }

    #[test]
    #[serial(functions)]
    fn logs_can_grow_shrink_and_be_freed_while_they_are_moved() {
        let log = quota(Algorithm::SlidingLog, "1000000", "1d");
        // The time between two steps: none of the entries leave, some, or all of them.
        for pause in [PAUSE, 4_000_000_000, 90_000_000_000] {
            // Fewer requests than fill what a step moves, or there would be no end.
            for (mut unmoved, requests) in
                [(Value::Limiter(limiter(&log, 5_000)), 300), (policy(&[log, log], 2_000), 100)]
            {
                set_up();
                let mut value = Owned::new(unmoved.clone());
                let mut now = NOW + 5_000 * PAUSE;
                while !value.step() {
                    for _ in 0..requests {
                        assert_eq!(use_it(value.value(), now), use_it(&mut unmoved, now));
                        now += PAUSE;
                    }
                    assert_eq!(*value.value(), unmoved);
                    now += pause;
                    if now > NOW + 500_000_000_000 {
                        break; // It is freed with a part of it moved.
                    }
                }
            }
        }
    }
}
