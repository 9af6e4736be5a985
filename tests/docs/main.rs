//! Checks of the documentation: links, pictures, and the comparison with the usual Lua scripts.

#[path = "../common/mod.rs"]
mod common;
mod links;
#[path = "../../limiter/tests/models/mod.rs"]
mod models;
mod moving_from_lua;
mod pictures;
