//! What a running command can ask of the server.

use std::ffi::{c_long, CStr, CString};
use std::ptr;

use redis_module::raw;

use super::{api, Arg};

/// The server's context of the call that is running.
pub struct Context {
    ctx: *mut raw::RedisModuleCtx,
}

impl Context {
    /// # Safety
    /// `ctx` is what the server passed to the call that is running, and the value does not outlive that call.
    pub const unsafe fn new(ctx: *mut raw::RedisModuleCtx) -> Self {
        Self { ctx }
    }

    /// The server's own context.
    pub const fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// Whether the command comes from a primary or from a file that is being loaded, rather than from a client.
    pub fn is_following(&self) -> bool {
        let following = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.ctx) };
        flags & following.cast_signed() != 0
    }

    /// The number of the database that the command is about.
    pub fn selected_db(&self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb)(self.ctx) }
    }

    /// Whether a script sent the command.
    pub fn is_in_script(&self) -> bool {
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.ctx) };
        flags & raw::REDISMODULE_CTX_FLAGS_LUA.cast_signed() != 0
    }

    /// Whether writes are to wait, because clients are paused or a replica is about to take over. A server that is made
    /// to replicate something by itself then ends.
    pub fn must_not_replicate(&self) -> bool {
        // SAFETY: a function without arguments.
        unsafe { api!(RedisModule_AvoidReplicaTraffic)() != 0 }
    }

    /// Replies with a list, or begins to: so many replies are to follow.
    pub fn reply_with_list(&self, len: usize) {
        // SAFETY: the context is valid; should fewer replies follow, the client waits, and nothing else is amiss.
        unsafe { api!(RedisModule_ReplyWithArray)(self.ctx, c_long::try_from(len).unwrap_or(0)) };
    }

    /// Begins to reply with a map: so many pairs of replies are to follow.
    pub fn reply_with_map(&self, len: usize) {
        // SAFETY: as for a list.
        unsafe { api!(RedisModule_ReplyWithMap)(self.ctx, c_long::try_from(len).unwrap_or(0)) };
    }

    /// Replies with an integer.
    pub fn reply_with_integer(&self, integer: i64) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.ctx, integer) };
    }

    /// Replies with a string.
    pub fn reply_with_text(&self, text: &str) {
        self.reply_with_bytes(text.as_bytes());
    }

    /// Replies with a string of any bytes.
    pub fn reply_with_bytes(&self, bytes: &[u8]) {
        // SAFETY: the context is valid; the server copies the bytes.
        unsafe { api!(RedisModule_ReplyWithStringBuffer)(self.ctx, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Replies that there is nothing.
    pub fn reply_with_null(&self) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithNull)(self.ctx) };
    }

    /// Replies with a list of integers, and perhaps one more.
    pub fn reply_with_integers<const N: usize>(&self, integers: [i64; N], last: Option<i64>) {
        let count = c_long::try_from(N + usize::from(last.is_some())).unwrap_or(0);
        // SAFETY: the context is valid; as many replies follow as the list is said to have.
        unsafe {
            api!(RedisModule_ReplyWithArray)(self.ctx, count);
            for integer in integers {
                api!(RedisModule_ReplyWithLongLong)(self.ctx, integer);
            }
            if let Some(last) = last {
                api!(RedisModule_ReplyWithLongLong)(self.ctx, last);
            }
        }
    }

    /// Replies with OK.
    pub fn reply_with_ok(&self) {
        // SAFETY: the context is valid, the string static.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.ctx, c"OK".as_ptr()) };
    }

    /// Replies with an error: a code and a message.
    pub fn reply_with_error(&self, message: &str) {
        let message = CString::new(message).unwrap_or_else(|_| c"ERR the message has a NUL byte".into());
        // SAFETY: the context is valid; the server copies the message.
        unsafe { api!(RedisModule_ReplyWithError)(self.ctx, message.as_ptr()) };
    }

    /// Sends `command key bytes` to the replicas and the append-only file, in place of the command that is running.
    pub fn replicate(&self, command: &CStr, key: Arg<'_>, bytes: &[u8]) {
        // SAFETY: the context is valid; the format announces a string of the server's and a buffer with its length,
        // and that is what follows. The server copies both.
        unsafe {
            api!(RedisModule_Replicate)(
                self.ctx,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
            );
        }
    }

    /// As [`Self::replicate`], with any words.
    pub fn replicate_words<'a>(&self, command: &CStr, words: impl Iterator<Item = &'a [u8]>) {
        // SAFETY: the context is valid; the format announces a list of the server's strings with its length, and that is
        // what follows. The server keeps its own hold on them, so ours are given up.
        unsafe {
            let strings: Vec<_> = words
                .map(|word| api!(RedisModule_CreateString)(ptr::null_mut(), word.as_ptr().cast(), word.len()))
                .collect();
            api!(RedisModule_Replicate)(self.ctx, command.as_ptr(), c"v".as_ptr(), strings.as_ptr(), strings.len());
            for string in strings {
                api!(RedisModule_FreeString)(ptr::null_mut(), string);
            }
        }
    }

    /// Counts a change for the save points when nobody listens. A server that has a listener nevertheless sends it the
    /// command that is running, which is not exact, and better than nothing.
    pub fn count_change(&self) {
        self.replicate_verbatim();
    }

    /// Sends the command that is running as it is to the replicas and the append-only file.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.ctx) };
    }

    /// Tells those who subscribed to them of an event of the key. They may be other modules, which may use it: so it must not
    /// be open.
    pub fn notify(&mut self, event: &CStr, key: Arg<'_>) {
        // SAFETY: the context and the key's name are valid; as the context is borrowed exclusively, no key is open.
        unsafe {
            let class = raw::REDISMODULE_NOTIFY_MODULE;
            api!(RedisModule_NotifyKeyspaceEvent)(self.ctx, class, event.as_ptr(), key.as_ptr());
        }
    }

    /// Tells those who watch or cache the key that it changed.
    pub fn signal_modified(&self, key: Arg<'_>) {
        // SAFETY: the context and the key's name are valid.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.ctx, key.as_ptr()) };
    }
}
