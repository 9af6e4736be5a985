//! Real servers under heavy load, and what is measured of servers that are so busy: `cargo test --test load cluster` runs
//! one topic.
//!
//! A program of its own, in which every test is `#[serial]`. Each takes all processors of a small machine, most of them
//! without a pause: whatever runs beside it waits, or measures the other one as well. Cargo runs programs one after the
//! other, so nothing of `tests/server` is beside them either.

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod concurrency;
mod defrag;
mod hostile_input;
mod io_threads;
mod memory;
