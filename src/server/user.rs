//! Who sent a command, and what that user may do.

use std::ffi::{c_int, CStr};
use std::ptr;

use redis_module::raw;

use super::api::OK;
use super::{api, Context};

/// Who sent the command that is running.
pub enum Sender {
    /// A user.
    User(User),
    /// Another module, which vouches for what it calls, also if that is for somebody else.
    Trusted,
    /// Somebody whom a script hides.
    Unknown,
}

/// A user of the server.
pub struct User {
    user: *mut raw::RedisModuleUser,
}

impl Sender {
    /// Who sent the command that is running.
    pub fn of(ctx: &Context) -> Self {
        // SAFETY: the context is valid; the server answers null, or a string and then a user that are ours to free.
        unsafe {
            // The name of the context's own user would be simpler to ask for, but Redis 7.0 crashes if there is none.
            let client = api!(RedisModule_GetClientId)(ctx.as_ptr());
            let name = api!(RedisModule_GetClientUserNameById)(ctx.as_ptr(), client);
            if name.is_null() {
                return if ctx.is_in_script() { Self::Unknown } else { Self::Trusted };
            }
            let user = api!(RedisModule_GetModuleUserFromUserName)(name);
            api!(RedisModule_FreeString)(ctx.as_ptr(), name);
            if user.is_null() {
                Self::Unknown
            } else {
                Self::User(User { user })
            }
        }
    }

    /// Whether they may read a key of this name.
    pub fn may_read(&self, key: &[u8]) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            Self::User(User { user }) => {
                let flags = raw::REDISMODULE_CMD_KEY_ACCESS.cast_signed();
                // SAFETY: the user is there as long as `self`; the string is made for this call and given up.
                unsafe {
                    let key = api!(RedisModule_CreateString)(ptr::null_mut(), key.as_ptr().cast(), key.len());
                    let allowed = api!(RedisModule_ACLCheckKeyPermissions)(*user, key, flags) == OK;
                    api!(RedisModule_FreeString)(ptr::null_mut(), key);
                    allowed
                }
            }
        }
    }

    /// Whether they may run this command.
    pub fn may_run<const N: usize>(&self, words: [&CStr; N]) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            // SAFETY: as above.
            Self::User(User { user }) => unsafe {
                let mut strings = words
                    .map(|word| api!(RedisModule_CreateString)(ptr::null_mut(), word.as_ptr(), word.count_bytes()));
                let count = c_int::try_from(N).unwrap_or(0);
                let allowed = api!(RedisModule_ACLCheckCommandPermissions)(*user, strings.as_mut_ptr(), count) == OK;
                for string in strings {
                    api!(RedisModule_FreeString)(ptr::null_mut(), string);
                }
                allowed
            },
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { api!(RedisModule_FreeModuleUser)(self.user) };
    }
}
