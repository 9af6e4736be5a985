//! Replication of effects.
//!
//! A replica must not decide on a request again: its clock differs. So the command that a client sent is not replicated,
//! but its effect is: a cost was taken, or an amount given back, at a time of the primary's clock. [`RL.APPLY`](APPLY)
//! carries effects, to replicas and in the append-only file.
//!
//! - [`effect`]: what effects there are, and their encoding.
//! - [`apply`]: how requests and effects change a key, its expiry included: by the same functions, so that a primary and
//!   its replicas cannot disagree.
//! - [`consumers`]: whether there is a replica or an append-only file, and how it is told of a change.

pub mod apply;
pub mod consumers;
pub mod effect;

pub use apply::OpenKey;
pub use effect::{Effect, EffectBytes, PolicyEffectBytes, APPLY};
