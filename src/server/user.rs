//! The sender of a command, and its ACL permissions.

use std::ffi::{c_int, CStr};
use std::ptr;

use redis_module::raw;

use super::api::OK;
use super::{api, Context};

/// The sender of the running command.
pub enum Sender {
    /// A user.
    User(User),
    /// Another module, which is trusted to check its own users.
    Trusted,
    /// The user of a script, which is unknown.
    Unknown,
}

/// A user of the server.
pub struct User {
    user: *mut raw::RedisModuleUser,
    rules: Rules,
}

/// The rules of a user, as in `ACL LIST`; empty on servers that do not tell (Redis before 7.0.6).
struct Rules(Vec<u8>);

impl Sender {
    /// The sender of the running command.
    pub fn of(ctx: &Context) -> Self {
        // SAFETY: the context is valid; the server answers null, or a string and then a user that are ours to free.
        unsafe {
            // `GetCurrentUserName` would be simpler, but crashes Redis 7.0 if there is no user.
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
                Self::User(User { user, rules: Rules::of(user) })
            }
        }
    }

    /// Whether the sender may read all keys of this database.
    pub fn may_read_all(&self, db: i32) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            Self::User(User { rules, .. }) => rules.grant_database(db) && rules.grant_all_keys(),
        }
    }

    /// Whether the sender may read this key of this database.
    pub fn may_read(&self, db: i32, key: &[u8]) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            Self::User(User { user, rules }) => {
                if !rules.grant_database(db) {
                    return false;
                }
                let flags = raw::REDISMODULE_CMD_KEY_ACCESS.cast_signed();
                // SAFETY: the user lives as long as `self`; the string is created for this call and freed.
                unsafe {
                    let key = api!(RedisModule_CreateString)(ptr::null_mut(), key.as_ptr().cast(), key.len());
                    let allowed = api!(RedisModule_ACLCheckKeyPermissions)(*user, key, flags) == OK;
                    api!(RedisModule_FreeString)(ptr::null_mut(), key);
                    allowed
                }
            }
        }
    }

    /// Whether the sender may run this command.
    pub fn may_run<const N: usize>(&self, words: [&CStr; N]) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            // SAFETY: as above.
            Self::User(User { user, .. }) => unsafe {
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

impl Rules {
    /// # Safety
    /// The user is valid.
    unsafe fn of(user: *mut raw::RedisModuleUser) -> Self {
        // SAFETY: only reads what the server filled in when the module was initialised.
        let Some(describe) = (unsafe { raw::RedisModule_GetModuleUserACLString }) else { return Self(Vec::new()) };
        // SAFETY: the caller vouches for the user; the server answers a string that is ours to free, with all its bytes.
        unsafe {
            let string = describe(user);
            let mut len = 0;
            let bytes = api!(RedisModule_StringPtrLen)(string, &raw mut len);
            let rules = std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec();
            api!(RedisModule_FreeString)(ptr::null_mut(), string);
            Self(rules)
        }
    }

    /// Whether the user may use this database. Rules name databases only to restrict the user to them (Valkey 9.1 and
    /// later), and each selector may name others. Which selector grants a key cannot be told, so all of them must grant
    /// the database.
    fn grant_database(&self, db: i32) -> bool {
        let db = db.to_string();
        let is_granted = |word: &[u8]| match word.strip_prefix(b"db=") {
            Some(granted) => granted.split(|&byte| byte == b',').any(|granted| granted == db.as_bytes()),
            None => word != b"resetdbs",
        };
        // Selectors are in parentheses.
        self.0.split(|byte| b" ()".contains(byte)).all(is_granted)
    }

    /// Whether the rules before any selector grant all keys.
    fn grant_all_keys(&self) -> bool {
        // Patterns contain no space.
        let mut words = self.0.split(|&byte| byte == b' ').take_while(|word| !word.starts_with(b"("));
        words.any(|word| matches!(word, b"~*" | b"%R~*" | b"%RW~*"))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed once.
        unsafe { api!(RedisModule_FreeModuleUser)(self.user) };
    }
}

#[cfg(test)]
mod tests {
    use super::Rules;

    fn rules(rules: &str) -> Rules {
        Rules(rules.as_bytes().to_vec())
    }

    #[test]
    fn all_keys_are_granted_by_a_star_but_not_by_a_selector() {
        for granting in ["on nopass ~* &* +@all", "on %R~* resetchannels -@all", "on ~a %RW~* +@all"] {
            assert!(rules(granting).grant_all_keys(), "{granting}");
        }
        for other in [
            "",
            "on ~ +@all",
            "on ~** +@all",
            "on %W~* +@all",
            "on ~*a &~* +@all",
            "on +@all (~* +get)",
            "on (%R~x ~* +get)",
        ] {
            assert!(!rules(other).grant_all_keys(), "{other}");
        }
    }

    #[test]
    fn a_database_is_granted_unless_the_user_is_restricted_to_others() {
        for granting in
            ["", "on ~* +@all", "on ~* db=1 +@all", "on db=0,1,11 (db=1,2 +get)", "on ~resetdbs &db=2 +@all"]
        {
            assert!(rules(granting).grant_database(1), "{granting}");
        }
        for other in [
            "on ~* resetdbs +@all",
            "on db=0,11 +@all",
            "on db=1 (db=0 +get)",
            "on (~* resetdbs +get)",
            "on (+get resetdbs)",
        ] {
            assert!(!rules(other).grant_database(1), "{other}");
        }
    }
}
