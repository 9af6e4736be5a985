//! Sections of the module's own in `INFO`.

use std::ffi::{c_int, CString};

use redis_module::raw;

use super::api;
use super::api::OK;
use super::entry::guard;

/// What a module adds to `INFO`.
pub struct Sections {
    ctx: *mut raw::RedisModuleInfoCtx,
}

/// A section that was asked for.
pub struct Section<'a>(&'a Sections);

/// Has `T` called whenever somebody asks for `INFO`.
///
/// # Errors
/// When the server refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn register<T: InInfo>(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: the caller vouches for the context; the callback is a function.
    let registered = unsafe { api!(RedisModule_RegisterInfoFunc)(ctx, Some(on_info::<T>)) };
    (registered == OK).then_some(()).ok_or_else(|| "the server refuses sections in INFO".to_owned())
}

/// Something that is shown in `INFO`.
pub trait InInfo {
    /// Shows it.
    fn show(sections: &Sections);
}

unsafe extern "C" fn on_info<T: InInfo>(ctx: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // In the report of a crash anything may be half done, and locked.
    if for_crash_report == 0 {
        guard("info", (), || T::show(&Sections { ctx }));
    }
}

impl Sections {
    /// Begins a section of this name, after the module's; the empty one is the module's first. `None` if nobody asked for
    /// it.
    pub fn begin(&self, name: &str) -> Option<Section<'_>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the context is valid during the call that is running; the server copies the name.
        let asked_for = unsafe { api!(RedisModule_InfoAddSection)(self.ctx, name.as_ptr()) == OK };
        asked_for.then_some(Section(self))
    }
}

impl Section<'_> {
    /// Adds a number.
    pub fn number(&self, name: &str, value: u64) {
        let Ok(name) = CString::new(name) else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.0.ctx, name.as_ptr(), value) };
    }

    /// Adds a text.
    pub fn text(&self, name: &str, value: &str) {
        let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldCString)(self.0.ctx, name.as_ptr(), value.as_ptr()) };
    }

    /// Adds several numbers in one line.
    pub fn numbers(&self, name: &str, values: &[(&str, u64)]) {
        let Ok(name) = CString::new(name) else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoBeginDictField)(self.0.ctx, name.as_ptr()) };
        for (name, value) in values {
            self.number(name, *value);
        }
        // SAFETY: as above; a line was begun.
        unsafe { api!(RedisModule_InfoEndDictField)(self.0.ctx) };
    }
}
