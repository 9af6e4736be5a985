//! Commands and all that the server is told of them: for `COMMAND DOCS`, hints, routing by key, and ACLs.

use std::ffi::{c_int, CStr};
use std::{mem, ptr};

use redis_module::raw;

use super::api::OK;
use super::entry::guard;
use super::{api, Args, Context};

/// One command: how it is called, what it does, and what the server should know.
pub struct CommandSpec {
    /// Its name.
    pub name: &'static CStr,
    /// What the server calls, made by [`CommandSpec::entry`].
    pub entry: Entry,
    /// Its flags, as `RM_CreateCommand` takes them.
    pub flags: &'static CStr,
    /// The built-in ACL categories it belongs to, on servers that let modules say so.
    pub categories: &'static CStr,
    /// What it does, in a sentence.
    pub summary: &'static CStr,
    /// What it costs.
    pub complexity: &'static CStr,
    /// The number of arguments, the name included; negative for a minimum.
    pub arity: c_int,
    /// Its arguments. The first one is the key, which every command here has.
    pub arguments: &'static [ArgumentSpec],
}

type Entry = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// One argument of a command.
#[allow(missing_docs)] // the names and tokens of the arguments
pub enum ArgumentSpec {
    Key,
    Integer(&'static CStr),
    String(&'static CStr),
    OptionalInteger { name: &'static CStr, token: &'static CStr },
    OptionalToken { name: &'static CStr, token: &'static CStr },
}

/// A command's own code.
pub trait Command {
    /// How the command is called in the log.
    const NAME: &'static str;

    /// Runs it. An error is the reply, a code and a message; nothing may have changed then.
    ///
    /// # Errors
    /// When the request makes no sense.
    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), String>;
}

impl CommandSpec {
    /// What the server calls for the command `C`.
    ///
    /// # Safety
    /// To be called by the server only, with its context and arguments.
    pub unsafe extern "C" fn entry<C: Command>(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        count: c_int,
    ) -> c_int {
        // SAFETY: the server passed them for this call, and they are not kept.
        let (mut ctx, arguments) = unsafe { (Context::new(ctx), Args::new(argv, count)) };
        let replied = guard(C::NAME, false, || {
            if let Err(message) = C::run(&mut ctx, arguments) {
                ctx.reply_with_error(&message);
            }
            true
        });
        if !replied {
            guard("reply", (), || ctx.reply_with_error("ERR internal error in redis-ratelimit, see the server's log"));
        }
        OK
    }

    /// Makes the command known to the server.
    ///
    /// # Errors
    /// When the server refuses, as it does where the name is taken.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&self, ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
        let refused = |what: &str| format!("the server refuses the command {}{what}", self.name.to_string_lossy());
        let (name, flags) = (self.name.as_ptr(), self.flags.as_ptr());
        let mut arguments: Vec<_> = self.arguments.iter().map(ArgumentSpec::to_raw).collect();
        let mut keys = [first_argument(), ending()];
        arguments.push(ending());
        let info = raw::RedisModuleCommandInfo {
            version: &raw const INFO_VERSION,
            summary: self.summary.as_ptr(),
            complexity: self.complexity.as_ptr(),
            since: VERSION.as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: self.arity,
            key_specs: keys.as_mut_ptr(),
            args: arguments.as_mut_ptr(),
        };
        // SAFETY: the caller vouches for the context. The strings are static, the lists live until the end of the
        // block and end with a zeroed element as the server expects, and the server copies all of them.
        unsafe {
            if api!(RedisModule_CreateCommand)(ctx, name, Some(self.entry), flags, 1, 1, 1) != OK {
                return Err(refused("; does another module have it?"));
            }
            let command = api!(RedisModule_GetCommand)(ctx, name);
            if command.is_null() || api!(RedisModule_SetCommandInfo)(command, &raw const info) != OK {
                return Err(refused("'s description"));
            }
            // Redis 7.0 has no categories for the commands of modules.
            if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
                if set_categories(command, self.categories.as_ptr()) != OK {
                    return Err(refused("'s categories"));
                }
            }
        }
        Ok(())
    }
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// The zeroed element with which the server's lists end.
fn ending<T: Plain>() -> T {
    // SAFETY: a `Plain` type is numbers and pointers, for which zeros are valid.
    unsafe { mem::zeroed() }
}

/// Types of the module API that consist of numbers and nullable pointers.
///
/// # Safety
/// All zeros must be a valid value.
unsafe trait Plain {}
// SAFETY: numbers, nullable pointers and unions of those.
unsafe impl Plain for raw::RedisModuleCommandArg {}
// SAFETY: as above.
unsafe impl Plain for raw::RedisModuleCommandKeySpec {}

/// The one key is the first argument; it is read and changed, and the reply tells of it.
fn first_argument() -> raw::RedisModuleCommandKeySpec {
    let mut spec: raw::RedisModuleCommandKeySpec = ending();
    spec.flags =
        u64::from(raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE);
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = 1;
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range.keystep = 1;
    spec
}

impl ArgumentSpec {
    fn to_raw(&self) -> raw::RedisModuleCommandArg {
        let mut arg: raw::RedisModuleCommandArg = ending();
        arg.key_spec_index = -1;
        let (name, kind) = match self {
            Self::Key => {
                arg.key_spec_index = 0;
                (c"key", raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY)
            }
            Self::Integer(name) => (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER),
            Self::String(name) => (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING),
            Self::OptionalInteger { name, token } => {
                arg.token = token.as_ptr();
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
            }
            Self::OptionalToken { name, token } => {
                arg.token = token.as_ptr();
                (*name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN)
            }
        };
        arg.name = name.as_ptr();
        arg.type_ = kind;
        if !arg.token.is_null() {
            arg.flags = raw::REDISMODULE_CMD_ARG_OPTIONAL.cast_signed();
        }
        arg
    }
}
