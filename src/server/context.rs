//! What a running command can ask of the server.

use std::ffi::{c_long, CStr, CString};

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

    /// Tells those who watch or cache the key that it changed.
    pub fn signal_modified(&self, key: Arg<'_>) {
        // SAFETY: the context and the key's name are valid.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.ctx, key.as_ptr()) };
    }
}
