//! What the server tells of by itself.

use std::ffi::c_void;
use std::sync::OnceLock;

use redis_module::raw;

use super::api::OK;
use super::entry::guard;
use super::{api, Context};

/// Something that happened to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A child was forked, to write a file or to send a snapshot.
    Forked,
    /// The append-only file is about to be rewritten: told in the child that does so.
    RewriteStarts,
    /// A file has been written, or could not be: told in the child that did so.
    FileEnds,
    /// Data is about to be loaded, in place of what is there.
    LoadingStarts,
    /// That data has been loaded. (Not told if it could not be.)
    LoadingEnds,
    /// A primary's data is about to be loaded, beside what is there.
    ArrivalStarts,
    /// That data has replaced what was there, or has come to nothing.
    ArrivalEnds {
        /// Which of the two.
        complete: bool,
    },
    /// Something else of what was asked for: another role, replicas, settings, the end of what began above.
    Other,
}

/// What is called with an event.
pub type Listener = fn(&Context, Event);

static LISTENER: OnceLock<Listener> = OnceLock::new();

const EVENTS: [u64; 7] = [
    raw::REDISMODULE_EVENT_FORK_CHILD,
    raw::REDISMODULE_EVENT_CONFIG,
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    raw::REDISMODULE_EVENT_LOADING,
    raw::REDISMODULE_EVENT_PERSISTENCE,
    raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
];

/// Asks the server to tell of events; returns whether it knows them all.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn watch(ctx: *mut raw::RedisModuleCtx, listener: Listener) -> bool {
    let _ = LISTENER.set(listener);
    EVENTS.into_iter().all(|id| {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the caller vouches for the context; the callback is a function.
        unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx, event, Some(on_event)) == OK }
    })
}

/// Called by the server on each of [`EVENTS`].
unsafe extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    guard("event", (), || {
        // SAFETY: the server passes the context for this call.
        let ctx = unsafe { Context::new(ctx) };
        if let Some(listener) = LISTENER.get() {
            listener(&ctx, named(event.id, subevent));
        }
    });
}

fn named(id: u64, subevent: u64) -> Event {
    let is = |expected: u64| subevent == expected;
    match id {
        raw::REDISMODULE_EVENT_FORK_CHILD if is(raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN) => Event::Forked,
        raw::REDISMODULE_EVENT_PERSISTENCE if is(raw::REDISMODULE_SUBEVENT_PERSISTENCE_AOF_START) => {
            Event::RewriteStarts
        }
        raw::REDISMODULE_EVENT_PERSISTENCE if is(raw::REDISMODULE_SUBEVENT_PERSISTENCE_ENDED) => Event::FileEnds,
        raw::REDISMODULE_EVENT_LOADING
            if is(raw::REDISMODULE_SUBEVENT_LOADING_RDB_START)
                || is(raw::REDISMODULE_SUBEVENT_LOADING_AOF_START)
                || is(raw::REDISMODULE_SUBEVENT_LOADING_REPL_START) =>
        {
            Event::LoadingStarts
        }
        raw::REDISMODULE_EVENT_LOADING if is(raw::REDISMODULE_SUBEVENT_LOADING_ENDED) => Event::LoadingEnds,
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD if is(raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED) => {
            Event::ArrivalStarts
        }
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD => {
            Event::ArrivalEnds { complete: is(raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED) }
        }
        _ => Event::Other,
    }
}
