//! Settings of the module in the server's configuration. Each is kept by whoever uses it; the server asks for its value,
//! and brings another: the first one when the module is loaded, from the configuration or by default.

use std::ffi::{c_char, c_int, c_longlong, c_void, CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::{ERR, OK};
use super::entry::guard;
use super::{api, Arg};

/// A setting that names a file, and is made once, when the module is loaded; empty for none.
pub struct PathSetting {
    /// Its name, after the module's and a point.
    pub name: &'static CStr,
    /// The server's string of the value, which is ours.
    value: AtomicPtr<raw::RedisModuleString>,
}

/// A setting that is a number.
pub struct NumberSetting {
    /// Its name, after the module's and a point.
    pub name: &'static CStr,
    /// The largest number; the smallest is zero.
    pub max: u16,
    /// The value in force.
    pub get: fn() -> u16,
    /// Puts another in force.
    pub set: fn(u16),
}

/// A setting that is on or off.
pub struct SwitchSetting {
    /// Its name, after the module's and a point.
    pub name: &'static CStr,
    /// Whether it is on.
    pub get: fn() -> bool,
    /// Switches it, or says why not.
    pub set: fn(bool) -> Result<(), &'static str>,
}

impl PathSetting {
    /// A setting of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, value: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Makes the setting known to the server. Once it knows all settings, [`apply`] is to be called.
    ///
    /// # Errors
    /// When the server refuses.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&'static self, ctx: *mut raw::RedisModuleCtx, default: &[u8]) -> Result<(), String> {
        let default = CString::new(default).map_err(|_| refused(self.name))?;
        // SAFETY: the caller vouches for the context; the server copies the default; the setting is static, and the
        // callbacks get it back.
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
        // SAFETY: a string that `set_path` made, and which is only replaced by that, in the same thread.
        let bytes = unsafe { Arg::new(value) }.bytes();
        (!bytes.is_empty()).then(|| OsString::from_vec(bytes.to_vec()).into())
    }
}

impl NumberSetting {
    /// Makes the setting known to the server. Once it knows all settings, [`apply`] is to be called.
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

impl SwitchSetting {
    /// Makes the setting known to the server. Once it knows all settings, [`apply`] is to be called.
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
                Some(get_switch),
                Some(set_switch),
                None,
                ptr::from_ref(self).cast_mut().cast(),
            )
        };
        (registered == OK).then_some(()).ok_or_else(|| refused(self.name))
    }
}

fn refused(name: &CStr) -> String {
    format!("the server refuses the setting {}", name.to_string_lossy())
}

/// Has the server set all settings that were registered.
///
/// # Errors
/// When it refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn apply(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: the caller vouches for the context.
    let applied = unsafe { api!(RedisModule_LoadConfigs)(ctx) };
    (applied == OK).then_some(()).ok_or_else(|| "a setting is refused".to_owned())
}

unsafe extern "C" fn get_path(_name: *const c_char, setting: *mut c_void) -> *mut raw::RedisModuleString {
    guard("setting", ptr::null_mut(), || {
        // SAFETY: the server passes what `register` gave it.
        let setting = unsafe { &*setting.cast::<PathSetting>() };
        setting.value.load(Ordering::Relaxed)
    })
}

unsafe extern "C" fn set_path(
    _name: *const c_char,
    value: *mut raw::RedisModuleString,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard("setting", OK, || {
        // SAFETY: the server passes what `register` gave it, and a string that it keeps for as long as we do, once it is
        // told so; the old one is ours to give up.
        unsafe {
            let setting = &*setting.cast::<PathSetting>();
            api!(RedisModule_RetainString)(ptr::null_mut(), value);
            let old = setting.value.swap(value, Ordering::Relaxed);
            if !old.is_null() {
                api!(RedisModule_FreeString)(ptr::null_mut(), old);
            }
        }
        OK
    })
}

unsafe extern "C" fn get_number(_name: *const c_char, setting: *mut c_void) -> c_longlong {
    guard("setting", 0, || {
        // SAFETY: the server passes what `register` gave it.
        let setting = unsafe { &*setting.cast::<NumberSetting>() };
        (setting.get)().into()
    })
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard("setting", OK, || {
        // SAFETY: the server passes what `register` gave it.
        let setting = unsafe { &*setting.cast::<NumberSetting>() };
        // The server has seen to it that the value is in range.
        (setting.set)(u16::try_from(value).unwrap_or(setting.max));
        OK
    })
}

unsafe extern "C" fn get_switch(_name: *const c_char, setting: *mut c_void) -> c_int {
    guard("setting", 0, || {
        // SAFETY: the server passes what `register` gave it.
        let setting = unsafe { &*setting.cast::<SwitchSetting>() };
        (setting.get)().into()
    })
}

unsafe extern "C" fn set_switch(
    _name: *const c_char,
    value: c_int,
    setting: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard("setting", OK, || {
        // SAFETY: the server passes what `register` gave it.
        let setting = unsafe { &*setting.cast::<SwitchSetting>() };
        let Err(problem) = (setting.set)(value != 0) else { return OK };
        // SAFETY: the server passes a place for a string, which it then owns.
        unsafe { *error = api!(RedisModule_CreateString)(ptr::null_mut(), problem.as_ptr().cast(), problem.len()) };
        ERR
    })
}
