//! Access to the functions that the server offers, and its constants in the types that they are used with.

use std::ffi::c_int;

use redis_module::raw;

/// What most functions answer when they did what they were asked to.
#[allow(clippy::cast_possible_truncation)] // it is 0
pub const OK: c_int = raw::REDISMODULE_OK as c_int;
/// What they answer when they did not.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const ERR: c_int = raw::REDISMODULE_ERR as c_int;
/// The type of a key that does not exist.
#[allow(clippy::cast_possible_truncation)] // it is 0
pub const KEYTYPE_EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;

/// A function of the module API that every supported server has. The server fills them in before it calls anything
/// of ours; should one be missing nevertheless, the panic is caught at the entry point.
macro_rules! api {
    ($name:ident) => {
        redis_module::raw::$name.expect(concat!("the server has no ", stringify!($name)))
    };
}

pub(crate) use api;
