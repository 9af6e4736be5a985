//! Redis's module API, wrapped as thinly as safety allows. Unsafe code lives here, in the
//! data type and where the module is loaded.

mod alloc;
pub mod api;
mod args;
pub mod clock;
mod command;
mod context;
pub mod entry;
pub mod info;
pub mod listeners;
pub mod log;

pub use alloc::ServerAllocator;
pub(crate) use api::api;
pub use args::{Arg, Args};
pub use command::{ArgumentSpec, Command, CommandSpec};
pub use context::Context;
