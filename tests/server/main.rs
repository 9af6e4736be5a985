//! Tests on real servers, a module for each topic: `cargo test --test server stats` runs one of them.
//!
//! The tests of this program run in parallel. Those that need all processors are in `tests/load`.

mod acl;
mod algorithms;
mod arguments;
mod check;
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod config;
mod corruption;
mod crash;
mod failover;
mod fixtures;
mod keyspace;
mod loading;
mod metrics;
#[path = "../../limiter/tests/models/mod.rs"]
mod models;
mod multi;
mod notifications;
mod peek_and_refund;
mod persistence;
mod policies;
mod replication;
mod stats;
mod test_servers;
mod throttle;
mod top;
mod top_view;
