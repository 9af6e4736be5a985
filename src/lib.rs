//! redis-ratelimit: rate-limit commands for Redis and Valkey, as a module.

#[forbid(unsafe_code)]
pub mod limiter;
#[forbid(unsafe_code)]
pub mod replication;
