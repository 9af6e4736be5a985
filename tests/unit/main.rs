//! Tests that need no server: effects, heavy hitters, and hostile input for every decoder and parser.

#[path = "../../limiter/tests/models/mod.rs"]
mod models;
#[path = "../common/mutation.rs"]
mod mutation;
#[path = "../../fuzz/src/lib.rs"]
mod targets;

mod effects;
mod fuzz;
mod heavy_hitters;
