//! A key of the keyspace, opened for writing, and the limiter in it.

use std::ptr;
use std::sync::atomic::Ordering;

use redis_module::raw;

use super::TYPE;
use crate::limiter::{Limiter, Micros};
use crate::replication::{TakenBytes, APPLY};
use crate::server::api::{KEYTYPE_EMPTY, OK};
use crate::server::{api, listeners, Arg, Context};

/// How much longer than needed a key may live. This is what saves an update of the expiry on most requests: only once
/// a limiter is in use for so much longer does its key need a later one.
const SPARE_MILLIS: i64 = 1_000;

/// An open key that holds a limiter or nothing. As long as it is open, no other is: two of the same name would be two
/// ways to one limiter.
pub struct Key<'a> {
    handle: *mut raw::RedisModuleKey,
    /// What the key holds, or null.
    limiter: *mut Limiter,
    name: Arg<'a>,
    ctx: &'a mut Context,
}

/// The key holds something else.
pub struct Foreign;

impl<'a> Key<'a> {
    /// Opens the key.
    ///
    /// # Errors
    /// When it holds something that is not ours.
    #[inline(always)]
    pub fn open(ctx: &'a mut Context, name: Arg<'a>) -> Result<Self, Foreign> {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE).cast_signed();
        // SAFETY: the context and the name are valid for `'a`.
        let handle = unsafe { api!(RedisModule_OpenKey)(ctx.as_ptr(), name.as_ptr(), mode) };
        let mut key = Self { handle, limiter: ptr::null_mut(), name, ctx };
        // SAFETY: the key is open; the server answers null for the type of a key that is not of a module's type, and
        // the value of a key of our type is a limiter that `set` or `rdb_load` boxed.
        unsafe {
            if api!(RedisModule_ModuleTypeGetType)(handle) == TYPE.load(Ordering::Relaxed) {
                key.limiter = api!(RedisModule_ModuleTypeGetValue)(handle).cast();
            } else if api!(RedisModule_KeyType)(handle) != KEYTYPE_EMPTY {
                return Err(Foreign);
            }
        }
        Ok(key)
    }

    /// The limiter, if the key holds one.
    pub fn limiter(&mut self) -> Option<&mut Limiter> {
        // SAFETY: null, or the key's value, which stays where it is as long as the key is open and not set. The
        // reference is the only one, as `&mut self` is, and as no other key is open.
        unsafe { self.limiter.as_mut() }
    }

    /// Makes the key hold `limiter`, in place of what it held.
    pub fn set(&mut self, limiter: Limiter) {
        let value = Box::into_raw(Box::new(limiter));
        // SAFETY: the key is open for writing; the server owns the value from here on, and gives it to `free`.
        let done =
            unsafe { api!(RedisModule_ModuleTypeSetValue)(self.handle, TYPE.load(Ordering::Relaxed), value.cast()) };
        if done == OK {
            self.limiter = value;
        } else {
            // SAFETY: the server did not take the value.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    /// Lets the key live until its limiter is idle, and hardly longer.
    pub fn keep_until(&mut self, idle_at: Micros) {
        let needed = i64::try_from(idle_at.div_ceil(1_000)).unwrap_or(i64::MAX - SPARE_MILLIS);
        let latest = needed + SPARE_MILLIS;
        // SAFETY: the key is open for writing; the server answers -1 if it has no expiry.
        unsafe {
            if !(needed..=latest).contains(&api!(RedisModule_GetAbsExpire)(self.handle)) {
                api!(RedisModule_SetAbsExpire)(self.handle, latest);
            }
        }
    }

    /// Tells those who watch or cache the key that it changed, and the replicas and the append-only file, if there are
    /// any, what happened to it.
    pub fn changed(&self, fact: impl FnOnce() -> TakenBytes) {
        self.ctx.signal_modified(self.name);
        if listeners::may_be_there(self.ctx) {
            self.ctx.replicate(APPLY, self.name, fact().as_slice());
        } else {
            self.ctx.count_change();
        }
    }

    /// As [`Self::changed`], when the command that is running is itself the news.
    pub fn changed_by_this_command(&self) {
        self.ctx.signal_modified(self.name);
        self.ctx.replicate_verbatim();
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: the key was opened by `open` and is closed once.
        unsafe { api!(RedisModule_CloseKey)(self.handle) };
    }
}
