//! Whether anybody listens to what is replicated: a replica, or the append-only file.
//!
//! Building a fact costs the server as much as a third of a request, and is for nothing when nobody is there to be
//! told. So a fact is built only if somebody may listen. Asking the server each time would cost more than it saves;
//! it is asked once, and again after anything that can change the answer.
//!
//! # Why no listener can miss anything
//!
//! The answer "nobody" is given only while all of this was true when the server was asked: it is a primary, it has no
//! replicas and no replication backlog, the append-only file is off, and it is not part of a cluster, where slots may
//! be streamed to another server. Suppose a listener appears after that.
//!
//! - **A replica** starts from a snapshot or from the backlog. There is no backlog; one that is made later starts with
//!   a new replication id, at the earliest offset that any replica can have, which is that of a snapshot. Snapshots for
//!   replicas, to disk or to a socket, are taken by a forked child, and a replica joins a child that is already there
//!   only if another replica was there when it was forked. So every replica's past ends with a fork after the answer.
//!   What came before the fork is in the snapshot; at the fork [`forget`] is called, before the server runs another
//!   command, and from then on it is asked anew, and says that there is a replica.
//! - **The append-only file**, switched on, starts from a snapshot too, taken by a forked child: the same argument. If
//!   another child is in the way, the fork comes later, and until then the server drops what it is given to append.
//!   Besides, switching it on is a change of the configuration, after which [`forget`] is called as well.
//! - **Another role**: [`forget`] is called when a primary becomes a replica and when a replica becomes a primary; also
//!   when a replica comes or goes, and when the server has loaded its data anew.
//!
//! Events come on the thread that runs the commands, so none falls between the question and its use. Should a server
//! all the same have a listener that this does not know of, it is sent the command itself rather than nothing, see
//! [`Context::count_change`].

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::info::section;
use super::Context;

/// What is known: one of the three below.
static KNOWN: AtomicU8 = AtomicU8::new(NOTHING);
const NOTHING: u8 = 0;
const NOBODY: u8 = 1;
const SOMEBODY: u8 = 2;

/// Whether the server tells of all events after which there may be another answer.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// Says whether [`forget`] is called on all events: a server that does not know them is taken to have listeners always.
pub fn are_watched(all: bool) {
    WATCHING.store(all, Ordering::Relaxed);
}

/// Something happened after which there may be another answer.
pub fn forget() {
    KNOWN.store(NOTHING, Ordering::Relaxed);
}

/// Whether anybody may listen now.
pub fn may_be_there(ctx: &Context) -> bool {
    match KNOWN.load(Ordering::Relaxed) {
        NOBODY => false,
        SOMEBODY => true,
        _ => ask(ctx),
    }
}

#[cold]
fn ask(ctx: &Context) -> bool {
    let nobody = WATCHING.load(Ordering::Relaxed)
        && section(ctx, c"replication", |info| {
            info.text(c"role") == Some(c"master")
                && info.number(c"connected_slaves") == Some(0)
                && info.number(c"repl_backlog_active") == Some(0)
        })
        && section(ctx, c"persistence", |info| info.number(c"aof_enabled") == Some(0))
        && section(ctx, c"cluster", |info| info.number(c"cluster_enabled") == Some(0));
    KNOWN.store(if nobody { NOBODY } else { SOMEBODY }, Ordering::Relaxed);
    !nobody
}
