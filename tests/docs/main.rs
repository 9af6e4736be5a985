//! The documents are true: their links, their pictures, and what they say of the usual Lua scripts.

#[path = "../common/mod.rs"]
mod common;
mod links;
#[path = "../../limiter/tests/models/mod.rs"]
mod models;
mod moving_from_lua;
mod pictures;
