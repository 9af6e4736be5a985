//! The layouts of everything that stands in RDB files, append-only files, `DUMP` payloads and replication streams, with
//! their version numbers and tags. Those of values are defined by the limiter crate, in the files that are named below; all
//! others here. Once released, a number and its layout never change: a new layout gets a new version, and the decoder gets
//! an arm for it and keeps the old ones. A later version is refused with a message that names both.
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

/// The kind of an effect, which is its first byte: a cost was taken from a limiter.
pub const TAKE: u8 = 1;
/// A cost was taken from the limits of a policy.
pub const TAKE_POLICY: u8 = 2;
/// An amount was given back.
pub const REFUND: u8 = 3;
/// A key holds a value.
pub const SET: u8 = 4;
/// A log has further entries.
pub const APPEND: u8 = 5;

/// Every kind of effect with the version that is written, which is the effect's second byte. The decoder
/// ([`crate::replication::effect`]) reads this version and all earlier ones.
pub const EFFECTS: [(u8, u8); 5] = [(TAKE, 1), (TAKE_POLICY, 1), (REFUND, 1), (SET, 1), (APPEND, 1)];

/// The version of a kind of effect that is written; `None` for an unknown kind.
pub const fn effect_version(kind: u8) -> Option<u8> {
    let mut index = 0;
    while index < EFFECTS.len() {
        if EFFECTS[index].0 == kind {
            return Some(EFFECTS[index].1);
        }
        index += 1;
    }
    None
}
