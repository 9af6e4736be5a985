//! The functions of the module API, and its constants in the types that they are used with.

use std::ffi::c_int;

use redis_module::raw;

/// Success, from most functions.
#[allow(clippy::cast_possible_truncation)] // it is 0
pub const OK: c_int = raw::REDISMODULE_OK as c_int;
/// Failure, from most functions.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const ERR: c_int = raw::REDISMODULE_ERR as c_int;
/// The type of a key that does not exist.
#[allow(clippy::cast_possible_truncation)] // it is 0
pub const KEYTYPE_EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
/// The type of a key that holds a string.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const KEYTYPE_STRING: c_int = raw::REDISMODULE_KEYTYPE_STRING as c_int;

/// Auxiliary data goes before the keys of an RDB file.
#[allow(clippy::cast_possible_truncation)] // it is 1
pub const BEFORE_KEYS: c_int = raw::REDISMODULE_AUX_BEFORE_RDB as c_int;

macro_rules! functions {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// A function that the server does not have, if there is one.
        pub fn missing() -> Option<&'static str> {
            // SAFETY: only reads what the server filled in when the module was initialised.
            let found = unsafe { [$((stringify!($name), { raw::$name }.is_some())),*] };
            found.into_iter().find_map(|(name, is_there)| (!is_there).then_some(name))
        }
    };
}

// All functions that are called, which every supported server has. The module does not load if one is missing.
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

/// Whether the function is checked for when the module is loaded.
pub const fn is_checked(name: &str) -> bool {
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

/// A function of the module API. The module is not loaded where one is missing, so in code that runs afterwards it need not
/// be checked again, on the path of every request.
macro_rules! api {
    ($name:ident) => {{
        const { assert!($crate::server::api::is_checked(stringify!($name))) };
        redis_module::raw::$name.unwrap_unchecked()
    }};
}

pub(crate) use api;

#[cfg(test)]
mod tests {
    use serial_test::serial;

    use super::{is_checked, missing};

    #[test]
    #[serial(functions)]
    fn a_missing_function_is_named() {
        // Without a server all are missing.
        assert_eq!(missing(), Some("RedisModule_ACLCheckCommandPermissions"));
    }

    #[test]
    fn only_whole_names_match() {
        assert!(is_checked("RedisModule_OpenKey"));
        assert!(!is_checked("RedisModule_Open"));
        assert!(!is_checked("RedisModule_OpenKeyNow"));
    }
}
