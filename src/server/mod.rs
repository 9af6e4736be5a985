//! Redis's module API, wrapped as thinly as safety allows. Unsafe code is here, in the data type and where the module is
//! loaded, and nowhere else.
//!
//! Of the redis-module crate only the bindings are used ([`redis_module::raw`]), because its wrappers do not fit a module
//! that is on the path of every request of an application:
//!
//! - Its `#[command]` macro and its feature for Redis 7.0 need `RedisModule_SetCommandACLCategories`, which came with 7.2.
//!   With them the module does not load into Redis 7.0, or aborts it.
//! - It unwraps functions that a server may lack. Here [`mod@api`] checks all of them once, when the module is loaded.
//! - It catches no panic: a panic in a command aborts the server. Here every entry point runs in [`panic_guard`].
//! - It passes messages to the log as `printf` formats. [`log`] passes them as arguments.
//! - It allocates a vector for the arguments of each command and retains each of them, and builds a tree of values for each
//!   reply: about 0.2 µs a command. [`Args`] and [`Context`] allocate nothing.
//! - It cannot set an absolute expiry, and its string type panics on a NUL byte.
//! - Its allocator aborts outside a server, so no test could link the module. [`ServerAllocator`] falls back to the
//!   system's.

mod alloc;
pub mod api;
mod command;
mod command_info;
pub mod config;
mod context;
pub mod events;
pub mod info;
pub mod info_section;
pub mod log;
pub mod panic_guard;
mod rdb;
pub mod timer;
mod user;

pub use alloc::ServerAllocator;
pub(crate) use api::api;
pub use command::{Command, CommandSpec};
pub use command_info::{ArgumentSpec, Keys};
pub use context::{now, Arg, Args, Context};
pub use rdb::Rdb;
pub use user::Sender;
