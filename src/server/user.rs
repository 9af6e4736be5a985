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
    rules: Rules,
}

/// What the server says a user may do, as in `ACL LIST`; empty from a server that does not say it (Redis before 7.0.6).
struct Rules(Vec<u8>);

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
                Self::User(User { user, rules: Rules::of(user) })
            }
        }
    }

    /// Whether they may read all keys of this database.
    pub fn may_read_all(&self, db: i32) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            Self::User(User { rules, .. }) => rules.grant_database(db) && rules.grant_all_keys(),
        }
    }

    /// Whether they may read a key of this name in this database.
    pub fn may_read(&self, db: i32, key: &[u8]) -> bool {
        match self {
            Self::Trusted => true,
            Self::Unknown => false,
            Self::User(User { user, rules }) => {
                if !rules.grant_database(db) {
                    return false;
                }
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
        // SAFETY: only reads what the server filled in before it called anything of ours.
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

    /// Whether the user may use this database, whatever for. Rules name databases only to restrict the user to them (from
    /// Valkey 9.1 on), and each selector may name others. Which one of them lets the user read a key is not known here, so
    /// a database counts only if all of them grant it.
    fn grant_database(&self, db: i32) -> bool {
        let db = db.to_string();
        let is_granted = |word: &[u8]| match word.strip_prefix(b"db=") {
            Some(granted) => granted.split(|&byte| byte == b',').any(|granted| granted == db.as_bytes()),
            None => word != b"resetdbs",
        };
        // A selector stands in parentheses.
        self.0.split(|byte| b" ()".contains(byte)).all(is_granted)
    }

    /// Whether the user may read all keys, by the rules before any selector.
    fn grant_all_keys(&self) -> bool {
        // No pattern has a space in it.
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
    fn all_keys_are_granted_by_a_star_alone_and_not_by_a_selector() {
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
    fn a_database_is_granted_if_nothing_restricts_the_user_to_others() {
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
