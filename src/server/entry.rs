//! The border that no panic crosses: whatever the server calls runs inside [`guard`].

use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use redis_module::raw;

use super::{api, log};

/// Runs `body`; if it panics, the result is `on_panic` and the server goes on. `name` says which entry point it is.
pub fn guard<T>(name: &'static str, on_panic: T, body: impl FnOnce() -> T) -> T {
    // Whatever a panic leaves behind is dropped, or is a limiter that was changed in steps that each leave it valid.
    let body = AssertUnwindSafe(|| {
        probe(name);
        body()
    });
    panic::catch_unwind(body).unwrap_or(on_panic)
}

/// As [`guard`], for what writes a file. After a panic the file is not what it should be; a child that was forked to
/// write it ends as failed then, so that the last good file stays.
pub fn guard_saving(name: &'static str, body: impl FnOnce()) {
    let saved = guard(name, false, || {
        body();
        true
    });
    if !saved {
        guard("exit", (), fail_child);
    }
}

/// Ends the process as failed if it is a child that was forked to write a file: the last good file stays then.
pub fn fail_child() {
    // SAFETY: asks for flags that need no context, and ends a child as the server's own code does when it fails.
    unsafe {
        let flags = api!(RedisModule_GetContextFlags)(ptr::null_mut());
        if flags & raw::REDISMODULE_CTX_FLAGS_IS_CHILD.cast_signed() != 0 {
            libc::_exit(1);
        }
    }
}

/// Sends the message of a panic to the server's log, where an operator looks, rather than to standard error.
pub fn log_panics() {
    panic::set_hook(Box::new(|info| log::warning(&format!("redis-ratelimit: a bug was caught: {info}"))));
}

/// Panics in the entry point that the environment names, so that a test can see each of them caught.
#[cfg(feature = "panic-probe")]
fn probe(name: &str) {
    let asked = std::env::var("RATELIMIT_PANIC_AT").is_ok_and(|asked| asked == name);
    assert!(!asked, "asked to panic in {name}");
}

#[cfg(not(feature = "panic-probe"))]
fn probe(_name: &str) {}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn a_panic_becomes_the_given_result() {
        assert_eq!(guard("test", 1, || panic!("caught")), 1);
        assert_eq!(guard("test", 1, || 2), 2);
    }
}
