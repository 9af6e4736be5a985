//! All version numbers and tags that stand in RDB files, append-only files, `DUMP` payloads and replication streams, with
//! the layout of each. Once released, a number and its layout never change: a new layout gets a new version, and the
//! decoder gets an arm for it. A version that is later than the ones below is refused with a message that names both.
//!
//! `varint` is a variable-length integer ([`limiter::varint`]); `string` is a varint length and as many bytes. RDB integers
//! and strings are the server's own.
//!
//! ```text
//! key in an RDB file or a DUMP payload        encoding version of the type: TYPE_VERSION
//!   RDB string     value
//!   for each log in the value, in order:
//!     RDB integer    number of segments
//!     RDB strings    segments
//!
//! value                                       VALUE_VERSION (limiter/src/encoding.rs)
//!   byte           version
//!   then           limiter                    of a key with a single limiter
//!   or byte 64     policy: string name, quotas' number as varint, a limiter each
//!
//! limiter
//!   byte           tag of the algorithm       (limiter/src/algorithms/mod.rs)
//!   varints        parameters: capacity, count, period of a bucket; limit, window of a window
//!   varints        state: last taking, missing parts (high, low) of a bucket; last taking, count of a fixed window;
//!                  nothing of a log; last taking, previous, current of a sliding counter
//!
//! segment
//!   varint         time before the first entry
//!   entries        varint 2 * (time since the entry before) + (cost is not 1), then the cost as varint if it is not 1
//!
//! policies in an RDB file                     POLICIES_VERSION
//!   RDB integer    version
//!   RDB string     a policy each line: name ALGORITHM a b [ALGORITHM a b ...]
//!
//! effect, an argument of RL.APPLY             one of EFFECTS
//!   byte           kind
//!   byte           version
//!   1 take         tag and parameters of the quota; varint cost, time
//!   2 take policy  string policy; varint number of quotas; tag and parameters of each; varint cost, time
//!   3 refund       varint amount, time
//!   4 set          value
//!   5 append       varint index of the limiter; segment
//! ```

use std::ffi::c_int;

pub use limiter::VALUE_VERSION;

/// The encoding version of the data type, which the server stores with each key and with the policies.
pub const TYPE_VERSION: c_int = 1;

/// The version of the policies in an RDB file.
pub const POLICIES_VERSION: u64 = 1;

/// A kind of effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectFormat {
    /// The first byte.
    pub kind: u8,
    /// The second byte.
    pub version: u8,
}

/// A cost was taken from a limiter.
pub const TAKE: EffectFormat = EffectFormat { kind: 1, version: 1 };
/// A cost was taken from the limits of a policy.
pub const TAKE_POLICY: EffectFormat = EffectFormat { kind: 2, version: 1 };
/// An amount was given back.
pub const REFUND: EffectFormat = EffectFormat { kind: 3, version: 1 };
/// A key holds a value.
pub const SET: EffectFormat = EffectFormat { kind: 4, version: 1 };
/// A log has further entries.
pub const APPEND: EffectFormat = EffectFormat { kind: 5, version: 1 };

/// All kinds of effects.
pub const EFFECTS: [EffectFormat; 5] = [TAKE, TAKE_POLICY, REFUND, SET, APPEND];
