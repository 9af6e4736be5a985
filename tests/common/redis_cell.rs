//! Keys of redis-cell.

use super::{Client, Server};

/// Sets a string like redis-cell: the time of the full reset in nanoseconds, with a time to live in milliseconds.
pub fn set_cell_key(client: &mut Client, key: &str, full_at: u64, live: u64) {
    client.get::<()>(&format!("SET {key} {full_at} PX {live}"));
}

/// The time in this many milliseconds by the server's clock, in nanoseconds.
pub fn nanoseconds(server: &mut Server, millis: u64) -> u64 {
    server.clock().now() * 1_000 + millis * 1_000_000
}
