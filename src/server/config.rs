//! Configuration parameters of the module. The code that uses a parameter stores its value; the server gets and sets it,
//! for the first time when the module is loaded, from its configuration or with the default.

use std::ffi::{c_char, c_int, c_longlong, c_void, CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::{ERR, OK};
use super::panic_guard::guard;
use super::{api, Arg};

/// A parameter that names a file, and is set once, when the module is loaded. Empty for none.
pub struct PathConfig {
    /// Its name, without `ratelimit.`.
    pub name: &'static CStr,
    /// The server's string of the value, which the module owns.
    value: AtomicPtr<raw::RedisModuleString>,
}

/// A numeric parameter.
pub struct NumberConfig {
    /// Its name, without `ratelimit.`.
    pub name: &'static CStr,
    /// The largest value; the smallest is 0.
    pub max: u16,
    /// Gets the value.
    pub get: fn() -> u16,
    /// Sets the value.
    pub set: fn(u16),
}

/// A parameter that is yes or no.
pub struct BoolConfig {
    /// Its name, without `ratelimit.`.
    pub name: &'static CStr,
    /// Gets the value.
    pub get: fn() -> bool,
    /// Sets the value, or tells why it cannot be set.
    pub set: fn(bool) -> Result<(), &'static str>,
}

impl PathConfig {
    /// A parameter of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, value: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Registers the parameter. [`load`] is to be called when all are registered.
    ///
    /// # Errors
    /// When the server refuses.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&'static self, ctx: *mut raw::RedisModuleCtx, default: &[u8]) -> Result<(), String> {
        let default = CString::new(default).map_err(|_| refused(self.name))?;
        // SAFETY: the caller vouches for the context; the server copies the default; the parameter is static, and
        // the callbacks get it back.
        let registered = unsafe {
            api!(RedisModule_RegisterStringConfig)(
                ctx,
                self.name.as_ptr(),
                default.as_ptr(),
                raw::REDISMODULE_CONFIG_IMMUTABLE,
                Some(get_path),
                Some(set_path),
                None,
                ptr::from_ref(self).cast_mut().cast(),
            )
        };
        (registered == OK).then_some(()).ok_or_else(|| refused(self.name))
    }

    /// Its value; `None` if it is empty.
    pub fn path(&self) -> Option<PathBuf> {
        let value = self.value.load(Ordering::Relaxed);
        if value.is_null() {
            return None;
        }
        // SAFETY: `set_path` stored the string, and only it replaces the string, in the same thread.
        let bytes = unsafe { Arg::new(value) }.bytes();
        (!bytes.is_empty()).then(|| OsString::from_vec(bytes.to_vec()).into())
    }
}

impl NumberConfig {
    /// Registers the parameter. [`load`] is to be called when all are registered.
    ///
    /// # Errors
    /// When the server refuses.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&'static self, ctx: *mut raw::RedisModuleCtx, default: u16) -> Result<(), String> {
        // SAFETY: as for a path.
        let registered = unsafe {
            api!(RedisModule_RegisterNumericConfig)(
                ctx,
                self.name.as_ptr(),
                default.into(),
                raw::REDISMODULE_CONFIG_DEFAULT,
                0,
                self.max.into(),
                Some(get_number),
                Some(set_number),
                None,
                ptr::from_ref(self).cast_mut().cast(),
            )
        };
        (registered == OK).then_some(()).ok_or_else(|| refused(self.name))
    }
}

impl BoolConfig {
    /// Registers the parameter. [`load`] is to be called when all are registered.
    ///
    /// # Errors
    /// When the server refuses.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&'static self, ctx: *mut raw::RedisModuleCtx, default: bool) -> Result<(), String> {
        // SAFETY: as for a path.
        let registered = unsafe {
            api!(RedisModule_RegisterBoolConfig)(
                ctx,
                self.name.as_ptr(),
                default.into(),
                raw::REDISMODULE_CONFIG_DEFAULT,
                Some(get_bool),
                Some(set_bool),
                None,
                ptr::from_ref(self).cast_mut().cast(),
            )
        };
        (registered == OK).then_some(()).ok_or_else(|| refused(self.name))
    }
}

fn refused(name: &CStr) -> String {
    format!("the server refuses the configuration parameter {}", name.to_string_lossy())
}

/// Has the server set all parameters that were registered.
///
/// # Errors
/// When it refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn load(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: the caller vouches for the context.
    let loaded = unsafe { api!(RedisModule_LoadConfigs)(ctx) };
    (loaded == OK).then_some(()).ok_or_else(|| "a configuration parameter is refused".to_owned())
}

unsafe extern "C" fn get_path(_name: *const c_char, config: *mut c_void) -> *mut raw::RedisModuleString {
    guard("config", ptr::null_mut(), || {
        // SAFETY: the server passes what `register` passed.
        let config = unsafe { &*config.cast::<PathConfig>() };
        config.value.load(Ordering::Relaxed)
    })
}

unsafe extern "C" fn set_path(
    _name: *const c_char,
    value: *mut raw::RedisModuleString,
    config: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard("config", OK, || {
        // SAFETY: the server passes what `register` passed, and a string that lives until the module frees it, since it is
        // retained; the module owns the old one.
        unsafe {
            let config = &*config.cast::<PathConfig>();
            api!(RedisModule_RetainString)(ptr::null_mut(), value);
            let old = config.value.swap(value, Ordering::Relaxed);
            if !old.is_null() {
                api!(RedisModule_FreeString)(ptr::null_mut(), old);
            }
        }
        OK
    })
}

unsafe extern "C" fn get_number(_name: *const c_char, config: *mut c_void) -> c_longlong {
    guard("config", 0, || {
        // SAFETY: the server passes what `register` passed.
        let config = unsafe { &*config.cast::<NumberConfig>() };
        (config.get)().into()
    })
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    config: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard("config", OK, || {
        // SAFETY: the server passes what `register` passed.
        let config = unsafe { &*config.cast::<NumberConfig>() };
        // The server has checked the range.
        (config.set)(u16::try_from(value).unwrap_or(config.max));
        OK
    })
}

unsafe extern "C" fn get_bool(_name: *const c_char, config: *mut c_void) -> c_int {
    guard("config", 0, || {
        // SAFETY: the server passes what `register` passed.
        let config = unsafe { &*config.cast::<BoolConfig>() };
        (config.get)().into()
    })
}

unsafe extern "C" fn set_bool(
    _name: *const c_char,
    value: c_int,
    config: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard("config", OK, || {
        // SAFETY: the server passes what `register` passed.
        let config = unsafe { &*config.cast::<BoolConfig>() };
        let Err(problem) = (config.set)(value != 0) else { return OK };
        // SAFETY: the server passes a place for a string, which it then owns.
        unsafe { *error = api!(RedisModule_CreateString)(ptr::null_mut(), problem.as_ptr().cast(), problem.len()) };
        ERR
    })
}
