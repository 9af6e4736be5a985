//! What the server tells of itself in `INFO`.

use std::ffi::{c_int, CStr};

use redis_module::raw;

use super::api::OK;
use super::{api, Context};

/// A section of `INFO`.
pub struct Info {
    data: *mut raw::RedisModuleServerInfoData,
}

/// Looks at a section of `INFO`.
pub fn section(ctx: &Context, name: &CStr, look: impl FnOnce(&Info) -> bool) -> bool {
    // SAFETY: the context is valid; what the server hands out is freed once, after it was looked at.
    unsafe {
        let info = Info { data: api!(RedisModule_GetServerInfo)(ctx.as_ptr(), name.as_ptr()) };
        let found = look(&info);
        api!(RedisModule_FreeServerInfo)(ctx.as_ptr(), info.data);
        found
    }
}

impl Info {
    /// A field that is a number; `None` if it is not there or is something else.
    pub fn number(&self, field: &CStr) -> Option<u64> {
        let mut error: c_int = 0;
        // SAFETY: the section is there as long as `self` is.
        let value = unsafe { api!(RedisModule_ServerInfoGetFieldUnsigned)(self.data, field.as_ptr(), &raw mut error) };
        (error == OK).then_some(value)
    }

    /// A field as it stands there.
    pub fn text(&self, field: &CStr) -> Option<&CStr> {
        // SAFETY: the server answers null or a string that lives as long as the section.
        unsafe {
            let value = api!(RedisModule_ServerInfoGetFieldC)(self.data, field.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        }
    }
}
