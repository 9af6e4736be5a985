//! Which arguments a command has, and which of them are keys, in the server's form.

use std::ffi::{c_int, CStr};
use std::mem;

use redis_module::raw;

/// Where keys stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Nowhere.
    None,
    /// The argument at this place is one that is read and changed.
    Changed(c_int),
    /// The argument at this place is one that is only read.
    Read(c_int),
    /// The first argument and every second after it are, and all of them are changed.
    Pairs,
    /// The first argument is a number, and the third and every fourth after it, so many, are, and all of them are changed.
    ///
    /// Redis up to 8, and Valkey, look at too few arguments where keys are not side by side. So the command itself has to
    /// say which they are ([`super::Context::asks_for_keys`]); the server asks it if the flags of the keys are said to vary.
    Counted,
}

/// One argument of a command.
#[allow(missing_docs)] // the names and tokens of the arguments
pub enum ArgumentSpec {
    Key,
    Integer(&'static CStr),
    String(&'static CStr),
    OptionalInteger {
        name: &'static CStr,
        token: &'static CStr,
    },
    OptionalToken {
        name: &'static CStr,
        token: &'static CStr,
    },
    /// An integer at the end, which may be left out.
    LastInteger(&'static CStr),
    Token(&'static CStr),
    /// One of these.
    OneOf(&'static CStr, &'static [ArgumentSpec]),
    /// These, once or several times.
    Several(&'static CStr, &'static [ArgumentSpec]),
}

/// The zeroed element with which the server's lists end.
pub(super) fn ending<T: Plain>() -> T {
    // SAFETY: a `Plain` type is numbers and pointers, for which zeros are valid.
    unsafe { mem::zeroed() }
}

/// Types of the module API that consist of numbers and nullable pointers.
///
/// # Safety
/// All zeros must be a valid value.
pub(super) unsafe trait Plain {}
// SAFETY: numbers, nullable pointers and unions of those.
unsafe impl Plain for raw::RedisModuleCommandArg {}
// SAFETY: as above.
unsafe impl Plain for raw::RedisModuleCommandKeySpec {}

/// What happens to the key of a command that limits: it is read and changed, and the reply tells of it.
pub const CHANGED_KEY: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
const READ_KEY: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;

impl Keys {
    /// The first key, the last, and the step between them, in the old form, which cannot say everything.
    pub(super) const fn first_last_step(self) -> (c_int, c_int, c_int) {
        match self {
            Self::None | Self::Counted => (0, 0, 0),
            Self::Changed(at) | Self::Read(at) => (at, at, 1),
            Self::Pairs => (1, -1, 2),
        }
    }

    pub(super) fn to_raw(self) -> Option<raw::RedisModuleCommandKeySpec> {
        let mut spec: raw::RedisModuleCommandKeySpec = ending();
        let (flags, from) = match self {
            Self::None => return None,
            Self::Changed(at) => (CHANGED_KEY, at),
            Self::Read(at) => (READ_KEY, at),
            Self::Pairs => (CHANGED_KEY, 1),
            Self::Counted => (CHANGED_KEY | raw::REDISMODULE_CMD_KEY_VARIABLE_FLAGS, 1),
        };
        spec.flags = u64::from(flags);
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        spec.bs.index.pos = from;
        if self == Self::Counted {
            spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            spec.fk.keynum.keynumidx = 0;
            spec.fk.keynum.firstkey = 2;
            spec.fk.keynum.keystep = 4;
        } else {
            spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
            spec.fk.range.lastkey = if self == Self::Pairs { -1 } else { 0 };
            spec.fk.range.keystep = if self == Self::Pairs { 2 } else { 1 };
        }
        Some(spec)
    }
}

/// Keeps the lists of a description until the server has copied them.
#[derive(Default)]
pub(super) struct Lists(Vec<Vec<raw::RedisModuleCommandArg>>);

impl Lists {
    /// Makes a list of arguments, with the element that ends it.
    pub(super) fn add(&mut self, arguments: &[ArgumentSpec]) -> *mut raw::RedisModuleCommandArg {
        let mut list: Vec<_> = arguments.iter().map(|argument| self.argument(argument)).collect();
        list.push(ending());
        // The elements stay where they are when the list itself is moved.
        let start = list.as_mut_ptr();
        self.0.push(list);
        start
    }

    fn argument(&mut self, argument: &ArgumentSpec) -> raw::RedisModuleCommandArg {
        let mut arg: raw::RedisModuleCommandArg = ending();
        arg.key_spec_index = -1;
        let (name, kind) = match argument {
            ArgumentSpec::Key => {
                arg.key_spec_index = 0;
                (c"key", raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY)
            }
            ArgumentSpec::Integer(name) | ArgumentSpec::LastInteger(name) => {
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
            }
            ArgumentSpec::String(name) => (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING),
            ArgumentSpec::OptionalInteger { name, token } => {
                arg.token = token.as_ptr();
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
            }
            ArgumentSpec::OptionalToken { name, token } => {
                arg.token = token.as_ptr();
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN)
            }
            ArgumentSpec::Token(token) => {
                arg.token = token.as_ptr();
                (*token, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN)
            }
            ArgumentSpec::OneOf(name, choices) => {
                arg.subargs = self.add(choices);
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF)
            }
            ArgumentSpec::Several(name, parts) => {
                arg.subargs = self.add(parts);
                arg.flags = raw::REDISMODULE_CMD_ARG_MULTIPLE.cast_signed();
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK)
            }
        };
        arg.name = name.as_ptr();
        arg.type_ = kind;
        if matches!(
            argument,
            ArgumentSpec::OptionalInteger { .. } | ArgumentSpec::OptionalToken { .. } | ArgumentSpec::LastInteger(_)
        ) {
            arg.flags = raw::REDISMODULE_CMD_ARG_OPTIONAL.cast_signed();
        }
        arg
    }
}
