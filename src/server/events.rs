//! Server events.

use std::ffi::c_void;
use std::sync::OnceLock;

use redis_module::raw;

use super::api::OK;
use super::panic_guard::guard;
use super::{api, Context};

/// A server event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A child was forked, to write a file or to send a snapshot.
    Forked,
    /// A child starts to rewrite the append-only file: told in the child.
    AofRewriteStarted,
    /// A child has written a file, or has failed to: told in the child.
    SaveEnded,
    /// Loading starts, in place of the current data.
    LoadingStarted,
    /// Loading has succeeded. A failure is not told.
    LoadingEnded,
    /// A replica starts to load its primary's data beside its own, which it still serves.
    AsyncLoadStarted,
    /// The primary's data has replaced the replica's own, or was dropped.
    AsyncLoadEnded {
        /// Whether it has replaced the replica's own.
        completed: bool,
    },
    /// Another event: the role, the replicas or the configuration changed, or something above ended.
    Other,
}

/// What is called with each event.
pub type Handler = fn(&Context, Event);

static HANDLER: OnceLock<Handler> = OnceLock::new();

const EVENTS: [u64; 7] = [
    raw::REDISMODULE_EVENT_FORK_CHILD,
    raw::REDISMODULE_EVENT_CONFIG,
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    raw::REDISMODULE_EVENT_LOADING,
    raw::REDISMODULE_EVENT_PERSISTENCE,
    raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
];

/// Subscribes to events. Returns false if the server does not know all of them.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn subscribe(ctx: *mut raw::RedisModuleCtx, handler: Handler) -> bool {
    let _ = HANDLER.set(handler);
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
        if let Some(handler) = HANDLER.get() {
            handler(&ctx, classify(event.id, subevent));
        }
    });
}

fn classify(id: u64, subevent: u64) -> Event {
    let is = |expected: u64| subevent == expected;
    match id {
        raw::REDISMODULE_EVENT_FORK_CHILD if is(raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN) => Event::Forked,
        raw::REDISMODULE_EVENT_PERSISTENCE if is(raw::REDISMODULE_SUBEVENT_PERSISTENCE_AOF_START) => {
            Event::AofRewriteStarted
        }
        raw::REDISMODULE_EVENT_PERSISTENCE if is(raw::REDISMODULE_SUBEVENT_PERSISTENCE_ENDED) => Event::SaveEnded,
        raw::REDISMODULE_EVENT_LOADING
            if is(raw::REDISMODULE_SUBEVENT_LOADING_RDB_START)
                || is(raw::REDISMODULE_SUBEVENT_LOADING_AOF_START)
                || is(raw::REDISMODULE_SUBEVENT_LOADING_REPL_START) =>
        {
            Event::LoadingStarted
        }
        raw::REDISMODULE_EVENT_LOADING if is(raw::REDISMODULE_SUBEVENT_LOADING_ENDED) => Event::LoadingEnded,
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD if is(raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED) => {
            Event::AsyncLoadStarted
        }
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD => {
            Event::AsyncLoadEnded { completed: is(raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED) }
        }
        _ => Event::Other,
    }
}
