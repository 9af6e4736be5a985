//! A key of the keyspace, opened, and what it holds.

use std::ptr;
use std::sync::atomic::Ordering;

use redis_module::raw;

use super::{free_value, live, make_value, TYPE};
use crate::limiter::{Held, Micros, PerLimit, PolicyName};
use crate::replication::{state_facts, APPLY};
use crate::server::api::{KEYTYPE_EMPTY, KEYTYPE_STRING, OK};
use crate::server::{api, listeners, Arg, Context};

/// How much longer than needed a key may live. This is what saves an update of the expiry on most requests: only once
/// a limiter is in use for so much longer does its key need a later one.
const SPARE_MILLIS: i64 = 1_000;

/// The key holds something that is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign;

/// Why keys cannot be opened together.
#[derive(Clone, Copy)]
pub enum CannotOpen<'a> {
    /// This one holds something that is not ours.
    Foreign(Arg<'a>),
    /// This one is named twice.
    Twice(Arg<'a>),
}

/// A handle of the server's, closed in the end; null for a key that was to be read and does not exist.
struct Handle(*mut raw::RedisModuleKey);

impl Handle {
    /// Opens the key, whatever it holds.
    #[inline(always)]
    fn open_any(ctx: &Context, name: Arg<'_>, mode: u32) -> Self {
        // SAFETY: the context and the name are valid as long as the command runs.
        Self(unsafe { api!(RedisModule_OpenKey)(ctx.as_ptr(), name.as_ptr(), mode.cast_signed()) })
    }

    /// Opens the key, and finds what it holds: null if that is nothing.
    #[inline(always)]
    fn open(ctx: &Context, name: Arg<'_>, mode: u32) -> Result<(Self, *mut Held), Foreign> {
        let handle = Self::open_any(ctx, name, mode);
        // SAFETY: the key is open, or null, which these functions answer like a key that does not exist; the server
        // answers null for the type of a key that is not of a module's type, and the value of a key of our type is what
        // `set` or `rdb_load` boxed.
        unsafe {
            if api!(RedisModule_ModuleTypeGetType)(handle.0) == TYPE.load(Ordering::Relaxed) {
                let held = api!(RedisModule_ModuleTypeGetValue)(handle.0).cast();
                Ok((handle, held))
            } else if api!(RedisModule_KeyType)(handle.0) == KEYTYPE_EMPTY {
                Ok((handle, ptr::null_mut()))
            } else {
                Err(Foreign)
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the key was opened by `open` and is closed once; null is left alone.
        unsafe { api!(RedisModule_CloseKey)(self.0) };
    }
}

/// Shows to `look` what the key holds, if it exists, and changes nothing.
///
/// # Errors
/// When the key holds something that is not ours.
pub fn look_at<T>(ctx: &mut Context, name: Arg<'_>, look: impl FnOnce(&Held) -> T) -> Result<Option<T>, Foreign> {
    let (_open, held) = Handle::open(ctx, name, raw::REDISMODULE_READ)?;
    // SAFETY: null, or the key's value, which stays where and as it is while the key is open; as the context is borrowed
    // exclusively, nothing else is open.
    Ok(unsafe { held.as_ref() }.map(look))
}

/// Shows to `look` what a key of the server's own type string holds, and when it expires, in milliseconds since the epoch;
/// if there is one of this name, it has this length, and it expires. A string of another length is not even read: a server may change the form in which it keeps one that is
/// read in place, say from a number to bytes, and what belongs to others is to stay as it is.
pub fn text_that_expires<T>(
    ctx: &mut Context,
    name: Arg<'_>,
    len: usize,
    look: impl FnOnce(&[u8], u64) -> T,
) -> Option<T> {
    let mode = raw::REDISMODULE_READ.cast_signed();
    // SAFETY: the context and the name are valid as long as the command runs. The key is open for reading, which is asked
    // for, or null, which is of another type. Of a string the server answers where its bytes are; they stay there and as
    // they are until the key is closed, since `look` cannot ask anything of the server meanwhile.
    unsafe {
        let open = Handle::open_any(ctx, name, raw::REDISMODULE_READ);
        if api!(RedisModule_KeyType)(open.0) != KEYTYPE_STRING || api!(RedisModule_ValueLength)(open.0) != len {
            return None;
        }
        let expires_at = u64::try_from(api!(RedisModule_GetAbsExpire)(open.0)).ok()?;
        let mut len = 0;
        let text = api!(RedisModule_StringDMA)(open.0, &raw mut len, mode);
        Some(look(std::slice::from_raw_parts(text.cast(), len), expires_at))
    }
}

/// A key open for writing that holds a limiter, the limits of a policy, or nothing. As long as it is open, no other of
/// the same name is, which would be a second way to the same value: [`Self::open`] borrows the context for as long, and
/// [`Self::open_all`] opens different keys only.
pub struct Key<'a> {
    handle: Handle,
    /// What the key holds, or null.
    held: *mut Held,
    /// What its logs take, as far as it has been counted.
    log_bytes: usize,
    name: Arg<'a>,
    ctx: &'a Context,
}

impl<'a> Key<'a> {
    /// Opens the key.
    ///
    /// # Errors
    /// When it holds something that is not ours.
    #[inline(always)]
    pub fn open(ctx: &'a mut Context, name: Arg<'a>) -> Result<Self, Foreign> {
        Self::open_one(ctx, name)
    }

    /// Opens the key, and makes it hold this in place of whatever it held, as it then will everywhere. Something is to be
    /// taken from it at once, by which it comes to expire.
    pub fn replace(ctx: &'a mut Context, name: Arg<'a>, held: Held) -> Self {
        let mut key = Self::open_foreign(ctx, name);
        if listeners::may_be_there(key.ctx) {
            for fact in state_facts(&held) {
                key.ctx.replicate(APPLY, name, &fact);
            }
        }
        key.set(held);
        key
    }

    /// Opens several keys. For those in the places that `is_replaced` tells, it does not matter what they hold.
    ///
    /// # Errors
    /// When one of the others holds something that is not ours, or one is named twice.
    pub fn open_all(
        ctx: &'a mut Context,
        names: impl ExactSizeIterator<Item = Arg<'a>>,
        is_replaced: impl Fn(usize) -> bool,
    ) -> Result<PerLimit<Self>, CannotOpen<'a>> {
        let ctx = &*ctx;
        let mut keys: PerLimit<Self> = PerLimit::with_capacity(names.len());
        for name in names {
            let bytes = name.bytes();
            if keys.iter().any(|key| key.name.bytes() == bytes) {
                return Err(CannotOpen::Twice(name));
            }
            match Self::open_one(ctx, name) {
                Ok(key) => keys.push(key),
                Err(Foreign) if is_replaced(keys.len()) => keys.push(Self::open_foreign(ctx, name)),
                Err(Foreign) => return Err(CannotOpen::Foreign(name)),
            }
        }
        Ok(keys)
    }

    #[inline(always)]
    fn open_one(ctx: &'a Context, name: Arg<'a>) -> Result<Self, Foreign> {
        let (handle, held) = Handle::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)?;
        let mut key = Self { handle, held, log_bytes: 0, name, ctx };
        key.log_bytes = key.current_log_bytes();
        Ok(key)
    }

    /// Opens a key that holds something which is not ours, as if it held nothing.
    #[cold]
    fn open_foreign(ctx: &'a Context, name: Arg<'a>) -> Self {
        let handle = Handle::open_any(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
        Self { handle, held: ptr::null_mut(), log_bytes: 0, name, ctx }
    }

    /// What the key holds, if it holds anything.
    pub fn held(&mut self) -> Option<&mut Held> {
        // SAFETY: null, or the key's value, which stays where it is as long as the key is open and not set. The
        // reference is the only one, as `&mut self` is, and as no other key of the name is open.
        unsafe { self.held.as_mut() }
    }

    /// Makes the key hold this, in place of what it held.
    pub fn set(&mut self, held: Held) {
        self.count_log_bytes();
        let value = make_value(held);
        // SAFETY: the key is open for writing; the server owns the value from here on, and gives it to `free`, as it does
        // with the one that the key had.
        let done =
            unsafe { api!(RedisModule_ModuleTypeSetValue)(self.handle.0, TYPE.load(Ordering::Relaxed), value.cast()) };
        if done == OK {
            self.held = value;
            self.log_bytes = self.current_log_bytes();
        } else {
            // SAFETY: the server did not take the value.
            unsafe { free_value(value) };
        }
    }

    /// Says under which policy the limits that the key holds are used from now on.
    #[inline]
    pub fn put_under(&mut self, policy: &PolicyName) {
        match self.held() {
            Some(Held::Policy(limits)) if limits.policy() != policy => {
                limits.put_under(live::moved(limits.policy(), policy.clone()));
            }
            _ => {}
        }
    }

    /// As [`Self::put_under`], by the policy's name as text.
    pub fn put_under_named(&mut self, policy: &str) {
        let is_under_it = self.held().and_then(|held| held.policy()).is_some_and(|it| **it == *policy);
        if is_under_it {
            return;
        }
        if let Some(policy) = PolicyName::new(policy.as_bytes()) {
            self.put_under(&policy);
        }
    }

    #[inline(always)]
    fn current_log_bytes(&mut self) -> usize {
        match self.held() {
            Some(held) => held.log_bytes(),
            None => 0,
        }
    }

    /// Counts what the logs of the key take now.
    #[inline(always)]
    fn count_log_bytes(&mut self) {
        let now = self.current_log_bytes();
        live::log_bytes_changed(self.log_bytes, now);
        self.log_bytes = now;
    }

    /// Lets the key live until what it holds is idle, and hardly longer.
    pub fn keep_until(&mut self, idle_at: Micros) {
        let needed = i64::try_from(idle_at.div_ceil(1_000)).unwrap_or(i64::MAX - SPARE_MILLIS);
        let latest = needed + SPARE_MILLIS;
        // SAFETY: the key is open for writing; the server answers -1 if it has no expiry.
        unsafe {
            if !(needed..=latest).contains(&api!(RedisModule_GetAbsExpire)(self.handle.0)) {
                api!(RedisModule_SetAbsExpire)(self.handle.0, latest);
            }
        }
    }

    /// Tells those who watch or cache the key that it changed, and the replicas and the append-only file, if there are
    /// any, what happened to it.
    pub fn changed<F: AsRef<[u8]>>(&self, fact: impl FnOnce() -> F) {
        self.ctx.signal_modified(self.name);
        if listeners::may_be_there(self.ctx) {
            self.ctx.replicate(APPLY, self.name, fact().as_ref());
        } else {
            self.ctx.count_change();
        }
    }

    /// As [`Self::changed`] for several keys to which something happened at once; `fact` tells what happened to the one
    /// in each place.
    pub fn all_changed<F: AsRef<[u8]>>(keys: &[Self], fact: impl Fn(usize) -> F) {
        let Some(ctx) = keys.first().map(|key| key.ctx) else { return };
        for key in keys {
            ctx.signal_modified(key.name);
        }
        if !listeners::may_be_there(ctx) {
            return ctx.count_change();
        }
        let facts: Vec<F> = (0..keys.len()).map(fact).collect();
        let words = keys.iter().zip(&facts).flat_map(|(key, fact)| [key.name.bytes(), fact.as_ref()]);
        ctx.replicate_words(APPLY, words);
    }

    /// As [`Self::changed`], of several keys, when the command that is running is itself the news.
    pub fn all_changed_by_this_command(keys: &[Self]) {
        let Some(ctx) = keys.first().map(|key| key.ctx) else { return };
        for key in keys {
            ctx.signal_modified(key.name);
        }
        ctx.replicate_verbatim();
    }
}

impl Drop for Key<'_> {
    /// However the key was changed, and even if that was cut short.
    #[inline(always)]
    fn drop(&mut self) {
        self.count_log_bytes();
    }
}
