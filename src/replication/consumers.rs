//! The consumers of effects, replicas and the append-only file: whether there are any, and how they are told.
//!
//! Building an effect costs up to a third of a request, and is useless without a consumer. Asking the server on each
//! request would cost more than that, so it is asked once, and again after every event that can change the answer.
//!
//! # Why no consumer misses an effect
//!
//! The answer is "none" only if, when the server was asked, it was a primary without replicas and replication backlog, the
//! append-only file was off, and it was not part of a cluster, where slots may be streamed to another server. Suppose that
//! a consumer appears afterwards.
//!
//! - **A replica** starts from a snapshot or from the backlog. There is no backlog; one that is created later starts with a
//!   new replication id, at the earliest offset that any replica can have, which is that of a snapshot. A forked child takes
//!   the snapshots for replicas, and a replica joins a running child only if another replica was there when it was forked.
//!   So the past of each replica ends with a fork after the answer. The snapshot has what came before the fork; at the fork
//!   [`invalidate`] is called, before the server runs another command, so from then on the server is asked again, and says
//!   that there is a replica.
//! - **The append-only file**, when it is enabled, starts from a snapshot of a forked child too: the same argument. If
//!   another child is running, the fork comes later, and until then the server drops what it should append. Enabling it is
//!   also a change of the configuration, which calls [`invalidate`] as well.
//! - **Another role**: [`invalidate`] is called when the role changes, when a replica connects or disconnects, and when the
//!   server has loaded its data.
//!
//! Events run on the thread of the commands, so none comes between the question and the use of the answer. If a server has
//! an unknown consumer in spite of all this, it gets the command itself, see [`changed`].

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::APPLY;
use crate::server::info::section;
use crate::server::{Arg, Context};

/// The last answer, one of the three below.
static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

/// Whether the server sends all events that can change the answer.
static IS_SUBSCRIBED: AtomicBool = AtomicBool::new(false);

/// Tells whether [`invalidate`] is called on all events. A server without them is taken to have consumers always.
pub fn set_subscribed(subscribed: bool) {
    IS_SUBSCRIBED.store(subscribed, Ordering::Relaxed);
}

/// The answer may have changed.
pub fn invalidate() {
    ANSWER.store(UNKNOWN, Ordering::Relaxed);
}

/// Whether there may be a consumer now.
pub fn may_exist(ctx: &Context) -> bool {
    match ANSWER.load(Ordering::Relaxed) {
        NONE => false,
        SOME => true,
        _ => ask(ctx),
    }
}

#[cold]
fn ask(ctx: &Context) -> bool {
    let none = IS_SUBSCRIBED.load(Ordering::Relaxed)
        && section(ctx, c"replication", |info| {
            info.text(c"role") == Some(c"master")
                && info.number(c"connected_slaves") == Some(0)
                && info.number(c"repl_backlog_active") == Some(0)
        })
        && section(ctx, c"persistence", |info| info.number(c"aof_enabled") == Some(0))
        && section(ctx, c"cluster", |info| info.number(c"cluster_enabled") == Some(0));
    ANSWER.store(if none { NONE } else { SOME }, Ordering::Relaxed);
    !none
}

/// Tells that the key has changed by `effect`, which is only built if there is a consumer.
#[inline]
pub fn changed<E: AsRef<[u8]>>(ctx: &Context, key: Arg<'_>, effect: impl FnOnce() -> E) {
    ctx.signal_modified(key);
    if may_exist(ctx) {
        ctx.replicate(APPLY, key, effect().as_ref());
    } else {
        ctx.replicate_verbatim();
    }
}

/// Tells replicas and the append-only file that the value of the key, of whatever type, is replaced by the one that
/// `effects` recreate.
pub fn replaced<I: Iterator<Item = Vec<u8>>>(ctx: &Context, key: Arg<'_>, effects: impl FnOnce() -> I) {
    if may_exist(ctx) {
        for effect in effects() {
            ctx.replicate(APPLY, key, &effect);
        }
    }
}

/// As [`changed`], for several keys that have changed together; `effect` builds the effect on the key at an index.
pub fn all_changed<'a, E: AsRef<[u8]>>(
    ctx: &Context,
    keys: impl ExactSizeIterator<Item = Arg<'a>> + Clone,
    effect: impl Fn(usize) -> E,
) {
    for key in keys.clone() {
        ctx.signal_modified(key);
    }
    if !may_exist(ctx) {
        return ctx.replicate_verbatim();
    }
    let effects: Vec<E> = (0..keys.len()).map(effect).collect();
    let words = keys.zip(&effects).flat_map(|(key, effect)| [key.bytes(), effect.as_ref()]);
    ctx.replicate_words(APPLY, words);
}

/// As [`changed`], when the running command already is [`APPLY`].
pub fn all_changed_by_effects<'a>(ctx: &Context, keys: impl Iterator<Item = Arg<'a>>) {
    for key in keys {
        ctx.signal_modified(key);
    }
    ctx.replicate_verbatim();
}
