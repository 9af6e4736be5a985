//! Redis's module API, wrapped as thinly as safety allows. Unsafe code lives here, in the
//! data type and where the module is loaded.

mod alloc;
pub mod api;
mod args;
pub mod clock;
mod command;
mod context;
mod description;
pub mod entry;
pub mod events;
pub mod info;
pub mod listeners;
pub mod log;
pub mod section;
pub mod setting;
pub mod timer;
mod user;

pub use alloc::ServerAllocator;
pub(crate) use api::api;
pub use args::{Arg, Args};
pub use command::{Command, CommandSpec, CONTAINER};
pub use context::Context;
pub use description::{ArgumentSpec, Keys};
pub use user::Sender;
