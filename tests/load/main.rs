//! Real servers under heavy load, and measurements of them: `cargo test --test load cluster` runs one topic.
//!
//! Every test is `#[serial]`, in a separate program: each uses all processors of a small machine, and would disturb
//! tests that run beside it. Cargo runs test programs one after the other.

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod concurrency;
mod defrag;
mod hostile_input;
mod io_threads;
mod memory;
