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
    /// The third argument and every fourth after it are, but none of the last two, and all of them are changed. After the
    /// last four, up to three arguments may follow that are no keys.
    Fours,
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
const CHANGED_KEY: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
const READ_KEY: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;

/// Every `step`th argument from `first` up to `last`, which counts from the end if it is negative.
#[derive(Clone, Copy)]
struct Range {
    first: c_int,
    last: c_int,
    step: c_int,
    flags: u32,
}

impl Keys {
    /// All keys stand in a range, because routing in a cluster knows nothing else. A command could be asked for its keys
    /// instead, but Valkey asks in the thread that has read the command: the module would run beside itself.
    const fn range(self) -> Option<Range> {
        let (first, last, step, flags) = match self {
            Self::None => return None,
            Self::Changed(at) => (at, at, 1, CHANGED_KEY),
            Self::Read(at) => (at, at, 1, READ_KEY),
            Self::Pairs => (1, -1, 2, CHANGED_KEY),
            Self::Fours => (3, -3, 4, CHANGED_KEY),
        };
        Some(Range { first, last, step, flags })
    }

    /// The first key, the last, and the step between them.
    pub(super) const fn first_last_step(self) -> (c_int, c_int, c_int) {
        match self.range() {
            None => (0, 0, 0),
            Some(Range { first, last, step, .. }) => (first, last, step),
        }
    }

    pub(super) fn to_raw(self) -> Option<raw::RedisModuleCommandKeySpec> {
        let Range { first, last, step, flags } = self.range()?;
        let mut spec: raw::RedisModuleCommandKeySpec = ending();
        spec.flags = u64::from(flags);
        spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        spec.bs.index.pos = first;
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        // Here it counts from the first key, unless from the end.
        spec.fk.range.lastkey = if last < 0 { last } else { last - first };
        spec.fk.range.keystep = step;
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
