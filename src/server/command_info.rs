//! What the server is told of a command's keys and arguments, in its form.

use std::ffi::{c_int, CString};
use std::mem;

use redis_module::raw;

/// Which arguments are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// The argument at this position, which is read and written.
    Write(c_int),
    /// The argument at this position, which is only read.
    Read(c_int),
    /// The first argument and every second one after it, which are written.
    Pairs,
    /// The third argument and every fourth one after it up to the third last, which are written. Up to three arguments
    /// that are no keys may follow the last four.
    Fours,
}

/// An argument of a command.
pub enum ArgumentSpec {
    /// The key.
    Key,
    /// An integer.
    Integer(&'static str),
    /// A string.
    String(&'static str),
    /// An integer that may be left out.
    OptionalInteger(&'static str),
    /// An option: a keyword, and the name of the integer that follows it, if one does.
    Option {
        /// The keyword.
        token: &'static str,
        /// The name of its value.
        value: Option<&'static str>,
    },
    /// One of several keywords.
    OneOf(&'static str, &'static [&'static str]),
    /// A group of arguments that is given once or several times.
    Repeated(&'static str, &'static [ArgumentSpec]),
}

/// The zeroed element that ends a list of the server's.
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

/// The key is read and written, and the reply tells of it.
const WRITTEN_KEY: u32 =
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
    /// Keys are always a range, because routing in a cluster knows nothing else. A module can also find the keys itself, but
    /// Valkey asks it to in I/O threads, and crashes.
    const fn range(self) -> Option<Range> {
        let (first, last, step, flags) = match self {
            Self::None => return None,
            Self::Write(at) => (at, at, 1, WRITTEN_KEY),
            Self::Read(at) => (at, at, 1, READ_KEY),
            Self::Pairs => (1, -1, 2, WRITTEN_KEY),
            Self::Fours => (3, -3, 4, WRITTEN_KEY),
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
        // Relative to the first key, unless it counts from the end.
        spec.fk.range.lastkey = if last < 0 { last } else { last - first };
        spec.fk.range.keystep = step;
        Some(spec)
    }
}

/// Lists of arguments and their strings, kept until the server has copied them.
#[derive(Default)]
pub(super) struct ArgumentLists {
    lists: Vec<Vec<raw::RedisModuleCommandArg>>,
    strings: Vec<CString>,
}

impl ArgumentLists {
    /// Makes a list of arguments, with the element that ends it.
    pub(super) fn add<'a>(
        &mut self,
        arguments: impl IntoIterator<Item = &'a ArgumentSpec>,
    ) -> *mut raw::RedisModuleCommandArg {
        let list = arguments.into_iter().map(|argument| self.argument(argument)).collect();
        self.keep(list)
    }

    fn keep(&mut self, mut list: Vec<raw::RedisModuleCommandArg>) -> *mut raw::RedisModuleCommandArg {
        list.push(ending());
        // The elements stay in place when the list itself is moved.
        let start = list.as_mut_ptr();
        self.lists.push(list);
        start
    }

    fn string(&mut self, text: &str) -> *const std::ffi::c_char {
        let string = CString::new(text).unwrap_or_default();
        // The bytes stay in place when the string itself is moved.
        let start = string.as_ptr();
        self.strings.push(string);
        start
    }

    fn token(&mut self, token: &'static str) -> raw::RedisModuleCommandArg {
        let mut arg = self.named(&token.to_ascii_lowercase(), PURE_TOKEN);
        arg.token = self.string(token);
        arg
    }

    fn named(&mut self, name: &str, kind: raw::RedisModuleCommandArgType) -> raw::RedisModuleCommandArg {
        let mut arg: raw::RedisModuleCommandArg = ending();
        arg.key_spec_index = -1;
        arg.name = self.string(name);
        arg.type_ = kind;
        arg
    }

    fn argument(&mut self, argument: &ArgumentSpec) -> raw::RedisModuleCommandArg {
        match argument {
            ArgumentSpec::Key => {
                let mut arg = self.named("key", raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY);
                arg.key_spec_index = 0;
                arg
            }
            ArgumentSpec::Integer(name) => self.named(name, INTEGER),
            ArgumentSpec::String(name) => self.named(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING),
            ArgumentSpec::OptionalInteger(name) => optional(self.named(name, INTEGER)),
            ArgumentSpec::Option { token, value: None } => optional(self.token(token)),
            ArgumentSpec::Option { token, value: Some(name) } => {
                let mut arg = self.named(name, INTEGER);
                arg.token = self.string(token);
                optional(arg)
            }
            ArgumentSpec::OneOf(name, tokens) => {
                let choices = tokens.iter().map(|token| self.token(token)).collect();
                let mut arg = self.named(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF);
                arg.subargs = self.keep(choices);
                arg
            }
            ArgumentSpec::Repeated(name, parts) => {
                let mut arg = self.named(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK);
                arg.subargs = self.add(*parts);
                arg.flags = raw::REDISMODULE_CMD_ARG_MULTIPLE.cast_signed();
                arg
            }
        }
    }
}

const INTEGER: raw::RedisModuleCommandArgType = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER;
const PURE_TOKEN: raw::RedisModuleCommandArgType = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN;

fn optional(mut arg: raw::RedisModuleCommandArg) -> raw::RedisModuleCommandArg {
    arg.flags = raw::REDISMODULE_CMD_ARG_OPTIONAL.cast_signed();
    arg
}
