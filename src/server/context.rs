//! What running code gets from the server and can ask of it: the arguments, the time, replies, replication.

use std::ffi::{c_int, c_long, CStr, CString};
use std::marker::PhantomData;
use std::ptr;

use limiter::{Micros, MAX_TIME};
use redis_module::raw;

use super::api;
use crate::error::Error;

/// The arguments of the running call. The first argument of a command is its name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    strings: &'a [*mut raw::RedisModuleString],
}

/// One argument.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    string: *mut raw::RedisModuleString,
    lives: PhantomData<&'a raw::RedisModuleString>,
}

impl<'a> Args<'a> {
    /// # Safety
    /// `argv` and `count` are what the server passed to the call that is running, and `'a` ends with that call.
    pub unsafe fn new(argv: *mut *mut raw::RedisModuleString, count: c_int) -> Self {
        if argv.is_null() {
            // A module that is loaded without arguments gets a null pointer.
            return Self { strings: &[] };
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the server passes `count` valid pointers, which stay valid until the call returns.
        Self { strings: unsafe { std::slice::from_raw_parts(argv, count) } }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// The argument at `index`.
    pub fn get(&self, index: usize) -> Option<Arg<'a>> {
        self.strings.get(index).map(|&string| Arg { string, lives: PhantomData })
    }

    /// The bytes of the argument at `index` and of all that follow.
    pub fn bytes_from(self, index: usize) -> impl Iterator<Item = &'a [u8]> {
        (index..).map_while(move |index| self.get(index)).map(|arg| arg.bytes())
    }
}

impl<'a> Arg<'a> {
    /// # Safety
    /// The string is the server's, and is neither freed nor changed during `'a`.
    pub const unsafe fn new(string: *mut raw::RedisModuleString) -> Self {
        Self { string, lives: PhantomData }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string is valid and unchanged for `'a`, and so are its bytes.
        unsafe {
            let start = api!(RedisModule_StringPtrLen)(self.string, &raw mut len);
            std::slice::from_raw_parts(start.cast(), len)
        }
    }

    /// The server's string.
    pub const fn as_ptr(&self) -> *mut raw::RedisModuleString {
        self.string
    }
}

/// The time of the server's machine, within the range that limiters calculate with.
pub fn now() -> Micros {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local value; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0).min(MAX_TIME / 1_000_000 - 1);
    seconds * 1_000_000 + (time.tv_nsec.cast_unsigned() / 1_000).min(999_999)
}

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

    /// The server's context.
    pub const fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// Whether the command comes from a primary or from a file that is being loaded, not from a client.
    pub fn is_replicated_or_loading(&self) -> bool {
        let either = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.ctx) };
        flags & either.cast_signed() != 0
    }

    /// The selected database.
    pub fn selected_db(&self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb)(self.ctx) }
    }

    /// Whether a script runs the command.
    pub fn is_in_script(&self) -> bool {
        // SAFETY: the context is valid.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.ctx) };
        flags & raw::REDISMODULE_CTX_FLAGS_LUA.cast_signed() != 0
    }

    /// Whether nothing may be replicated now, because clients are paused or a failover is in progress. A server aborts if a
    /// module replicates something by itself then.
    pub fn must_not_replicate(&self) -> bool {
        // SAFETY: a function without arguments.
        unsafe { api!(RedisModule_AvoidReplicaTraffic)() != 0 }
    }

    /// Begins an array: `len` replies follow.
    pub fn reply_with_array(&self, len: usize) {
        // SAFETY: the context is valid. If fewer replies follow, the client waits, and nothing else happens.
        unsafe { api!(RedisModule_ReplyWithArray)(self.ctx, c_long::try_from(len).unwrap_or(0)) };
    }

    /// Begins a map: `len` pairs of replies follow.
    pub fn reply_with_map(&self, len: usize) {
        // SAFETY: as for an array.
        unsafe { api!(RedisModule_ReplyWithMap)(self.ctx, c_long::try_from(len).unwrap_or(0)) };
    }

    /// Replies with an integer.
    pub fn reply_with_integer(&self, integer: i64) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.ctx, integer) };
    }

    /// Replies with a string of text.
    pub fn reply_with_text(&self, text: &str) {
        self.reply_with_bytes(text.as_bytes());
    }

    /// Replies with a string of any bytes.
    pub fn reply_with_bytes(&self, bytes: &[u8]) {
        // SAFETY: the context is valid; the server copies the bytes.
        unsafe { api!(RedisModule_ReplyWithStringBuffer)(self.ctx, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Replies with null.
    pub fn reply_with_null(&self) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithNull)(self.ctx) };
    }

    /// Replies with an array of integers, and perhaps one more.
    pub fn reply_with_integers<const N: usize>(&self, integers: [i64; N], last: Option<i64>) {
        let count = c_long::try_from(N + usize::from(last.is_some())).unwrap_or(0);
        // SAFETY: the context is valid; as many replies follow as announced.
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

    /// Replies with an error.
    pub fn reply_with_error(&self, error: &Error) {
        let message = CString::new(error.to_string()).unwrap_or_else(|_| c"ERR the message has a NUL byte".into());
        // SAFETY: the context is valid; the server copies the message.
        unsafe { api!(RedisModule_ReplyWithError)(self.ctx, message.as_ptr()) };
    }

    /// Replicates `command key bytes` instead of the running command.
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

    /// As [`Self::replicate`], with any arguments.
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

    /// Replicates the running command as it is. Without replicas and append-only file this only counts a change for the
    /// save points.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.ctx) };
    }

    /// Publishes a keyspace event. Other modules may subscribe to it and use the key, so the key must not be open.
    pub fn notify(&mut self, event: &CStr, key: Arg<'_>) {
        // SAFETY: the context and the key's name are valid; as the context is borrowed exclusively, no key is open.
        unsafe {
            let class = raw::REDISMODULE_NOTIFY_MODULE;
            api!(RedisModule_NotifyKeyspaceEvent)(self.ctx, class, event.as_ptr(), key.as_ptr());
        }
    }

    /// Invalidates `WATCH` and client-side caches of the key.
    pub fn signal_modified(&self, key: Arg<'_>) {
        // SAFETY: the context and the key's name are valid.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.ctx, key.as_ptr()) };
    }
}
