//! What redis-cell leaves in a server.

use super::{Client, Server};

/// Puts a string where redis-cell would have left it: the time, in nanoseconds, at which the key is as good as new, and
/// so many milliseconds to live.
pub fn leave(client: &mut Client, key: &str, full_at: u64, live: u64) {
    client.get::<()>(&format!("SET {key} {full_at} PX {live}"));
}

/// So many milliseconds from now on by the server's clock, in nanoseconds.
pub fn nanoseconds(server: &mut Server, millis: u64) -> u64 {
    server.clock().now() * 1_000 + millis * 1_000_000
}
