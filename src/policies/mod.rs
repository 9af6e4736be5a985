//! Named policies.
//!
//! Without a policy file, policies are data of the server, as functions are: they are replicated, saved in RDB files and
//! in the append-only file, and replaced by what a full sync or a file of the server brings. With a policy file, the file
//! is the truth, as an ACL file is: what is set by command is local, until the file is read again.
//!
//! - [`policy`](Policy): a policy and its limits, parsed from words.
//! - [`collection`](Policies): policies by name, and as text.
//! - `store`: the policies in force, and what happens to them when the server loads data.
//! - [`rdb`]: how they are saved in RDB files.
//! - [`events`]: what happens on server events: loading, rewriting the append-only file, changes of the policy file.
//! - `file`, `atomic_replace`: the policy file, and how it is replaced without losing an edit.

mod atomic_replace;
mod collection;
pub mod events;
mod file;
mod policy;
pub mod rdb;
mod store;

pub use collection::{Policies, PolicyTextError};
pub use policy::{parse_limit, parse_name, CountedLimits, LimitError, Policy, PolicyError};
pub use store::{
    count, counts, definition, find, is_in_file, load_file, names, remove, reset_counts, save_file, set, use_file,
    PolicyFileError,
};
