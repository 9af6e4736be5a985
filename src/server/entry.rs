//! The border that no panic crosses: whatever the server calls runs inside [`guard`].

use std::panic::{self, AssertUnwindSafe};

use super::log;

/// Runs `body`; if it panics, the result is `on_panic` and the server goes on. `name` says which entry point it is.
pub fn guard<T>(name: &'static str, on_panic: T, body: impl FnOnce() -> T) -> T {
    // Whatever a panic leaves behind is dropped, or is a limiter that was changed in steps that each leave it valid.
    let body = AssertUnwindSafe(|| {
        probe(name);
        body()
    });
    panic::catch_unwind(body).unwrap_or(on_panic)
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
