//! No panic crosses into the server: everything that it calls runs inside [`guard`].

use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use redis_module::raw;

use super::{api, log};

/// Runs `body`. If it panics, this is logged with the name of the entry point, and the result is `on_panic`.
pub fn guard<T>(entry_point: &'static str, on_panic: T, body: impl FnOnce() -> T) -> T {
    // What a panic leaves behind is dropped, or is a limiter that was changed in steps that each leave it valid.
    let body = AssertUnwindSafe(|| {
        probe(entry_point);
        body()
    });
    panic::catch_unwind(body).unwrap_or_else(|_| {
        log_caught(entry_point);
        on_panic
    })
}

#[cold]
fn log_caught(entry_point: &str) {
    log::warning(&format!("redis-ratelimit: caught a panic in {entry_point}. This is a bug, please report it"));
}

/// As [`guard`], for what writes a file. A panic leaves the file incomplete: a child that was forked to write it exits with
/// an error, so that the last good file stays.
pub fn guard_saving(entry_point: &'static str, body: impl FnOnce()) {
    let saved = guard(entry_point, false, || {
        body();
        true
    });
    if !saved {
        guard("exit", (), fail_child);
    }
}

/// Exits with an error if this process is a child that was forked to write a file: then the last good file stays.
pub fn fail_child() {
    // SAFETY: reads flags, for which no context is needed, and exits as the server's own code does in a child that fails.
    unsafe {
        let flags = api!(RedisModule_GetContextFlags)(ptr::null_mut());
        if flags & raw::REDISMODULE_CTX_FLAGS_IS_CHILD.cast_signed() != 0 {
            libc::_exit(1);
        }
    }
}

/// Sends the messages of panics to the server's log instead of standard error.
pub fn log_panics() {
    panic::set_hook(Box::new(|info| log::warning(&format!("redis-ratelimit: {info}"))));
}

/// Panics in the entry point that the environment names, so that tests can see each of them caught.
#[cfg(feature = "panic-probe")]
fn probe(entry_point: &str) {
    let asked = std::env::var("RATELIMIT_PANIC_AT").is_ok_and(|asked| asked == entry_point);
    assert!(!asked, "asked to panic in {entry_point}");
}

#[cfg(not(feature = "panic-probe"))]
fn probe(_entry_point: &str) {}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn a_panic_becomes_the_given_result() {
        assert_eq!(guard("test", 1, || panic!("caught")), 1);
        assert_eq!(guard("test", 1, || 2), 2);
    }
}
