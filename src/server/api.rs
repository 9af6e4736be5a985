//! Access to the functions that the server offers, and its constants in the types that they are used with.

use std::ffi::c_int;

use redis_module::raw;

/// What most functions answer when they did what they were asked to.
#[allow(clippy::cast_possible_truncation)] // it is 0
pub const OK: c_int = raw::REDISMODULE_OK as c_int;
/// What they answer when they did not.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const ERR: c_int = raw::REDISMODULE_ERR as c_int;
/// The type of a key that does not exist.
#[allow(clippy::cast_possible_truncation)] // it is 0
pub const KEYTYPE_EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
/// The type of a key that holds a string.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const KEYTYPE_STRING: c_int = raw::REDISMODULE_KEYTYPE_STRING as c_int;

/// Before the keys of a snapshot.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const BEFORE_KEYS: c_int = raw::REDISMODULE_AUX_BEFORE_RDB as c_int;

macro_rules! functions {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// One of the functions that the server does not have, if there is any.
        pub fn missing() -> Option<&'static str> {
            // SAFETY: only reads what the server filled in before it called anything of ours.
            let found = unsafe { [$((stringify!($name), { raw::$name }.is_some())),*] };
            found.into_iter().find_map(|(name, is_there)| (!is_there).then_some(name))
        }
    };
}

// All that is called, and every supported server has. The module does not load where one of them is missing.
functions! {
    RedisModule_ACLCheckCommandPermissions
    RedisModule_ACLCheckKeyPermissions
    RedisModule_AvoidReplicaTraffic
    RedisModule_CloseKey
    RedisModule_CreateCommand
    RedisModule_CreateDataType
    RedisModule_CreateString
    RedisModule_CreateSubcommand
    RedisModule_CreateTimer
    RedisModule_DefragAlloc
    RedisModule_DefragCursorGet
    RedisModule_DefragCursorSet
    RedisModule_DefragShouldStop
    RedisModule_DigestAddStringBuffer
    RedisModule_DigestEndSequence
    RedisModule_EmitAOF
    RedisModule_Free
    RedisModule_FreeModuleUser
    RedisModule_FreeServerInfo
    RedisModule_FreeString
    RedisModule_GetAbsExpire
    RedisModule_GetClientId
    RedisModule_GetClientUserNameById
    RedisModule_GetCommand
    RedisModule_GetContextFlags
    RedisModule_GetModuleUserFromUserName
    RedisModule_GetSelectedDb
    RedisModule_GetServerInfo
    RedisModule_InfoAddFieldCString
    RedisModule_InfoAddFieldULongLong
    RedisModule_InfoAddSection
    RedisModule_InfoBeginDictField
    RedisModule_InfoEndDictField
    RedisModule_IsIOError
    RedisModule_KeyType
    RedisModule_LoadConfigs
    RedisModule_LoadStringBuffer
    RedisModule_LoadUnsigned
    RedisModule_LogIOError
    RedisModule_ModuleTypeGetType
    RedisModule_ModuleTypeGetValue
    RedisModule_ModuleTypeSetValue
    RedisModule_NotifyKeyspaceEvent
    RedisModule_OpenKey
    RedisModule_RegisterBoolConfig
    RedisModule_RegisterInfoFunc
    RedisModule_RegisterNumericConfig
    RedisModule_RegisterStringConfig
    RedisModule_Replicate
    RedisModule_ReplicateVerbatim
    RedisModule_ReplyWithArray
    RedisModule_ReplyWithError
    RedisModule_ReplyWithLongLong
    RedisModule_ReplyWithMap
    RedisModule_ReplyWithNull
    RedisModule_ReplyWithSimpleString
    RedisModule_ReplyWithStringBuffer
    RedisModule_RetainString
    RedisModule_SaveStringBuffer
    RedisModule_SaveUnsigned
    RedisModule_ServerInfoGetFieldC
    RedisModule_ServerInfoGetFieldUnsigned
    RedisModule_SetAbsExpire
    RedisModule_SetCommandInfo
    RedisModule_SetModuleOptions
    RedisModule_SignalModifiedKey
    RedisModule_StringDMA
    RedisModule_StringPtrLen
    RedisModule_SubscribeToServerEvent
    RedisModule_ValueLength
}

/// Whether the function is among those that are looked for when the module is loaded.
pub const fn is_looked_for(name: &str) -> bool {
    let mut at = 0;
    while at < NAMES.len() {
        if equal(NAMES[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// A function of the module API. Sound to use in any code that runs after the module was loaded, which it is not where
/// the function is missing: so nothing is checked here again, on the way of every request.
macro_rules! api {
    ($name:ident) => {{
        const { assert!($crate::server::api::is_looked_for(stringify!($name))) };
        redis_module::raw::$name.unwrap_unchecked()
    }};
}

pub(crate) use api;

#[cfg(test)]
mod tests {
    use serial_test::serial;

    use super::{is_looked_for, missing};

    #[test]
    #[serial(functions)]
    fn what_the_server_does_not_have_is_named() {
        // Here there is no server at all.
        assert_eq!(missing(), Some("RedisModule_ACLCheckCommandPermissions"));
    }

    #[test]
    fn only_whole_names_are_known() {
        assert!(is_looked_for("RedisModule_OpenKey"));
        assert!(!is_looked_for("RedisModule_Open"));
        assert!(!is_looked_for("RedisModule_OpenKeyNow"));
    }
}
