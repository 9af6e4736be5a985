//! The server's own `INFO`.

use std::ffi::{c_int, CStr};

use redis_module::raw;

use super::api::OK;
use super::{api, Context};

/// A section of `INFO`.
pub struct Info {
    data: *mut raw::RedisModuleServerInfoData,
}

/// Reads a section of `INFO`.
pub fn section<T>(ctx: &Context, name: &CStr, read: impl FnOnce(&Info) -> T) -> T {
    // SAFETY: the context is valid; the section is freed once, after it was read.
    unsafe {
        let info = Info { data: api!(RedisModule_GetServerInfo)(ctx.as_ptr(), name.as_ptr()) };
        let result = read(&info);
        api!(RedisModule_FreeServerInfo)(ctx.as_ptr(), info.data);
        result
    }
}

impl Info {
    /// A numeric field; `None` if it is missing or no number.
    pub fn number(&self, field: &CStr) -> Option<u64> {
        let mut error: c_int = 0;
        // SAFETY: the section lives as long as `self`.
        let value = unsafe { api!(RedisModule_ServerInfoGetFieldUnsigned)(self.data, field.as_ptr(), &raw mut error) };
        (error == OK).then_some(value)
    }

    /// A field as it is.
    pub fn text(&self, field: &CStr) -> Option<&CStr> {
        // SAFETY: the server answers null or a string that lives as long as the section.
        unsafe {
            let value = api!(RedisModule_ServerInfoGetFieldC)(self.data, field.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        }
    }
}
