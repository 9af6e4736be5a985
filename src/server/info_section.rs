//! The module's own sections of `INFO`.

use std::ffi::{c_int, CString};
use std::sync::OnceLock;

use redis_module::raw;

use super::api;
use super::api::OK;
use super::panic_guard::guard;

/// Adds the module's sections to `INFO`.
pub type AddSections = fn(&Sections);

static ADD_SECTIONS: OnceLock<AddSections> = OnceLock::new();

/// The module's part of an `INFO` reply.
pub struct Sections {
    ctx: *mut raw::RedisModuleInfoCtx,
}

/// A section that the client asked for.
pub struct Section<'a>(&'a Sections);

/// Registers what is called for each `INFO`.
///
/// # Errors
/// When the server refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn register(ctx: *mut raw::RedisModuleCtx, add_sections: AddSections) -> Result<(), String> {
    let _ = ADD_SECTIONS.set(add_sections);
    // SAFETY: the caller vouches for the context; the callback is a function.
    let registered = unsafe { api!(RedisModule_RegisterInfoFunc)(ctx, Some(on_info)) };
    (registered == OK).then_some(()).ok_or_else(|| "the server refuses sections in INFO".to_owned())
}

unsafe extern "C" fn on_info(ctx: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // In a crash report anything may be half done or locked.
    if for_crash_report == 0 {
        guard("info", (), || {
            if let Some(add_sections) = ADD_SECTIONS.get() {
                add_sections(&Sections { ctx });
            }
        });
    }
}

impl Sections {
    /// Begins a section. Its name follows the module's; the empty name is the module's own section. `None` if the client
    /// did not ask for it.
    pub fn begin(&self, name: &str) -> Option<Section<'_>> {
        let name = CString::new(name).ok()?;
        // SAFETY: the context is valid during the call that is running; the server copies the name.
        let asked_for = unsafe { api!(RedisModule_InfoAddSection)(self.ctx, name.as_ptr()) == OK };
        asked_for.then_some(Section(self))
    }
}

impl Section<'_> {
    /// Adds a numeric field.
    pub fn number(&self, name: &str, value: u64) {
        let Ok(name) = CString::new(name) else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.0.ctx, name.as_ptr(), value) };
    }

    /// Adds a text field.
    pub fn text(&self, name: &str, value: &str) {
        let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldCString)(self.0.ctx, name.as_ptr(), value.as_ptr()) };
    }

    /// Adds a field of several numbers.
    pub fn numbers(&self, name: &str, values: &[(&str, u64)]) {
        let Ok(name) = CString::new(name) else { return };
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoBeginDictField)(self.0.ctx, name.as_ptr()) };
        for (name, value) in values {
            self.number(name, *value);
        }
        // SAFETY: as above; a field was begun.
        unsafe { api!(RedisModule_InfoEndDictField)(self.0.ctx) };
    }
}
