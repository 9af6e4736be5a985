//! An open key.

use std::ptr;
use std::sync::atomic::Ordering;

use limiter::{Micros, PerLimit, PolicyName, Value};
use redis_module::raw;

use super::{free_raw, into_raw, TYPE};
use crate::error::Error;
use crate::replication::{consumers, effect, OpenKey};
use crate::server::api::{KEYTYPE_EMPTY, KEYTYPE_STRING, OK};
use crate::server::{api, Arg, Context};
use crate::stats::keys;

/// How much longer than needed a key may live. This saves a change of the expiry on most requests: only when the limiter
/// has been in use for this much longer does its key need a later expiry.
const SPARE_MILLIS: i64 = 1_000;

/// The key holds a value of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongType;

/// Why several keys cannot be opened.
#[derive(Clone, Copy)]
pub enum OpenError<'a> {
    /// This key holds a value of another type.
    WrongType(Arg<'a>),
    /// This key is given twice.
    DuplicateKey(Arg<'a>),
}

impl From<WrongType> for Error {
    #[cold]
    fn from(_: WrongType) -> Self {
        Self::WrongType(None)
    }
}

impl From<OpenError<'_>> for Error {
    #[cold]
    fn from(error: OpenError<'_>) -> Self {
        match error {
            OpenError::WrongType(key) => Self::WrongType(Some(key.bytes().to_vec())),
            OpenError::DuplicateKey(key) => Self::DuplicateKey(key.bytes().to_vec()),
        }
    }
}

/// A key handle of the server, closed when it is dropped; null for a missing key that was opened for reading.
struct Handle(*mut raw::RedisModuleKey);

impl Handle {
    /// Opens the key, whatever its type.
    #[inline(always)]
    fn open_any(ctx: &Context, name: Arg<'_>, mode: u32) -> Self {
        // SAFETY: the context and the name are valid as long as the command runs.
        Self(unsafe { api!(RedisModule_OpenKey)(ctx.as_ptr(), name.as_ptr(), mode.cast_signed()) })
    }

    /// Opens the key, and returns its value: null if the key does not exist.
    #[inline(always)]
    fn open(ctx: &Context, name: Arg<'_>, mode: u32) -> Result<(Self, *mut Value), WrongType> {
        let handle = Self::open_any(ctx, name, mode);
        // SAFETY: the key is open, or null, which these functions treat like a missing key; the server answers null for the
        // type of a key that is not of a module's type, and the value of a key of our type came from `into_raw`.
        unsafe {
            if api!(RedisModule_ModuleTypeGetType)(handle.0) == TYPE.load(Ordering::Relaxed) {
                let value = api!(RedisModule_ModuleTypeGetValue)(handle.0).cast();
                Ok((handle, value))
            } else if api!(RedisModule_KeyType)(handle.0) == KEYTYPE_EMPTY {
                Ok((handle, ptr::null_mut()))
            } else {
                Err(WrongType)
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the key was opened by `open_any` and is closed once; null is ignored.
        unsafe { api!(RedisModule_CloseKey)(self.0) };
    }
}

/// Reads the value of a key, and changes nothing; `None` if the key does not exist.
///
/// # Errors
/// When it holds a value of another type.
pub fn read<T>(ctx: &mut Context, name: Arg<'_>, read: impl FnOnce(&Value) -> T) -> Result<Option<T>, WrongType> {
    let (_open, value) = Handle::open(ctx, name, raw::REDISMODULE_READ)?;
    // SAFETY: null, or the value of the key, which stays in place and unchanged while the key is open; as the context is
    // borrowed exclusively, no other key is open.
    Ok(unsafe { value.as_ref() }.map(read))
}

/// Reads a string key of length `len` that has an expiry, with its expiry in milliseconds since the epoch; `None` for any
/// other key. Strings of other lengths are not even read: a server may convert a string that is read in place, say from a
/// number to bytes, and keys of others are left alone.
pub fn expiring_string<T>(ctx: &mut Context, name: Arg<'_>, len: usize, read: fn(&[u8], u64) -> T) -> Option<T> {
    let mode = raw::REDISMODULE_READ.cast_signed();
    // SAFETY: the context and the name are valid as long as the command runs. The key is open for reading, which is the mode
    // asked for, or null, which has another type. The bytes of the string stay in place and unchanged until the key is
    // closed, since `read` captures nothing by which it could call the server.
    unsafe {
        let open = Handle::open_any(ctx, name, raw::REDISMODULE_READ);
        if api!(RedisModule_KeyType)(open.0) != KEYTYPE_STRING || api!(RedisModule_ValueLength)(open.0) != len {
            return None;
        }
        let expires_at = u64::try_from(api!(RedisModule_GetAbsExpire)(open.0)).ok()?;
        let mut len = 0;
        let text = api!(RedisModule_StringDMA)(open.0, &raw mut len, mode);
        Some(read(std::slice::from_raw_parts(text.cast(), len), expires_at))
    }
}

/// A key that is open for writing. While it is open, no other of the same name is, which would be a second reference to
/// the same value: [`Self::open`] borrows the context for as long, and [`Self::open_all`] opens different keys only.
pub struct Key<'a> {
    handle: Handle,
    /// The value, or null if the key does not exist.
    value: *mut Value,
    /// The bytes that its logs take, as they were last counted.
    log_bytes: usize,
    name: Arg<'a>,
    ctx: &'a Context,
}

impl<'a> Key<'a> {
    /// Opens the key.
    ///
    /// # Errors
    /// When it holds a value of another type.
    #[inline(always)]
    pub fn open(ctx: &'a mut Context, name: Arg<'a>) -> Result<Self, WrongType> {
        Self::open_one(ctx, name)
    }

    /// Opens the key and replaces its value, of whatever type, here and on replicas. A request that takes something has to
    /// follow, which sets the expiry.
    pub fn replace(ctx: &'a mut Context, name: Arg<'a>, value: Value) -> Self {
        let mut key = Self::open_wrong_type(ctx, name);
        consumers::replaced(key.ctx, name, || effect::recreate(&value));
        key.set(value);
        key
    }

    /// Opens several keys. Those for whose index `is_replaced` holds may have any type.
    ///
    /// # Errors
    /// When another key holds a value of another type, or a key is given twice.
    pub fn open_all(
        ctx: &'a mut Context,
        names: impl ExactSizeIterator<Item = Arg<'a>>,
        is_replaced: impl Fn(usize) -> bool,
    ) -> Result<PerLimit<Self>, OpenError<'a>> {
        let ctx = &*ctx;
        let mut keys: PerLimit<Self> = PerLimit::with_capacity(names.len());
        for name in names {
            let bytes = name.bytes();
            if keys.iter().any(|key| key.name.bytes() == bytes) {
                return Err(OpenError::DuplicateKey(name));
            }
            match Self::open_one(ctx, name) {
                Ok(key) => keys.push(key),
                Err(WrongType) if is_replaced(keys.len()) => keys.push(Self::open_wrong_type(ctx, name)),
                Err(WrongType) => return Err(OpenError::WrongType(name)),
            }
        }
        Ok(keys)
    }

    #[inline(always)]
    fn open_one(ctx: &'a Context, name: Arg<'a>) -> Result<Self, WrongType> {
        let (handle, value) = Handle::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)?;
        let mut key = Self { handle, value, log_bytes: 0, name, ctx };
        key.log_bytes = key.current_log_bytes();
        Ok(key)
    }

    /// Opens a key of another type as if it did not exist.
    #[cold]
    fn open_wrong_type(ctx: &'a Context, name: Arg<'a>) -> Self {
        let handle = Handle::open_any(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);
        Self { handle, value: ptr::null_mut(), log_bytes: 0, name, ctx }
    }

    /// The name of the key.
    pub const fn name(&self) -> Arg<'a> {
        self.name
    }

    /// The context that the key was opened with.
    pub const fn context(&self) -> &'a Context {
        self.ctx
    }

    #[inline(always)]
    fn current_log_bytes(&mut self) -> usize {
        match self.value() {
            Some(value) => value.log_bytes(),
            None => 0,
        }
    }

    /// Counts the bytes that the logs of the key take now.
    #[inline(always)]
    fn count_log_bytes(&mut self) {
        let now = self.current_log_bytes();
        keys::log_bytes_changed(self.log_bytes, now);
        self.log_bytes = now;
    }
}

impl OpenKey for Key<'_> {
    #[inline(always)]
    fn value(&mut self) -> Option<&mut Value> {
        // SAFETY: null, or the value of the key, which stays in place while the key is open and not set. The reference is the
        // only one, as `&mut self` is, and as no other key of the name is open.
        unsafe { self.value.as_mut() }
    }

    fn set(&mut self, value: Value) {
        self.count_log_bytes();
        let value = into_raw(value);
        // SAFETY: the key is open for writing; the server owns the value from here on, and frees the old one.
        let done =
            unsafe { api!(RedisModule_ModuleTypeSetValue)(self.handle.0, TYPE.load(Ordering::Relaxed), value.cast()) };
        if done == OK {
            self.value = value;
            self.log_bytes = self.current_log_bytes();
        } else {
            // SAFETY: the server did not take the value.
            unsafe { free_raw(value) };
        }
    }

    #[inline]
    fn set_policy(&mut self, policy: &PolicyName) {
        match self.value() {
            Some(Value::Policy(limits)) if limits.policy() != policy => {
                limits.set_policy(keys::moved(limits.policy(), policy.clone()));
            }
            _ => {}
        }
    }

    fn set_expire_at(&mut self, time: Micros) {
        let needed = i64::try_from(time.div_ceil(1_000)).unwrap_or(i64::MAX - SPARE_MILLIS);
        let latest = needed + SPARE_MILLIS;
        // SAFETY: the key is open for writing; the server answers -1 if it has no expiry.
        unsafe {
            if !(needed..=latest).contains(&api!(RedisModule_GetAbsExpire)(self.handle.0)) {
                api!(RedisModule_SetAbsExpire)(self.handle.0, latest);
            }
        }
    }
}

impl Drop for Key<'_> {
    /// Counts however the key was changed, even if a panic interrupted that.
    #[inline(always)]
    fn drop(&mut self) {
        self.count_log_bytes();
    }
}
