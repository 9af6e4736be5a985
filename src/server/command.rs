//! Commands and all that the server is told of them: for `COMMAND DOCS`, hints, routing by key, and ACLs.

use std::ffi::{c_int, CStr, CString};
use std::ptr;

use redis_module::raw;

use super::api::OK;
use super::description::{ending, ArgumentSpec, Keys, Lists};
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
    /// The number of arguments, the name included; negative for a minimum. The name of a subcommand is two.
    pub arity: c_int,
    /// Which of its arguments are keys.
    pub keys: Keys,
    /// Its arguments.
    pub arguments: &'static [ArgumentSpec],
    /// What it consists of, if it does nothing by itself.
    pub subcommands: &'static [CommandSpec],
}

/// What the server calls for a command; nothing for one that only has subcommands.
type Entry = Option<unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int>;

/// What the server calls for a command that only has subcommands.
pub const CONTAINER: Entry = None;

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

    /// Makes a category of commands, on servers that let modules do so; returns it if it can be used.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn add_category(ctx: *mut raw::RedisModuleCtx, name: &'static CStr) -> Option<&'static CStr> {
        // SAFETY: the caller vouches for the context; the server copies the name.
        let added = unsafe { raw::RedisModule_AddACLCategory.map(|add| add(ctx, name.as_ptr())) };
        (added == Some(OK)).then_some(name)
    }

    /// Makes the command and its subcommands known to the server. Unless it is for administrators, they are in `category` as
    /// well, if there is one.
    ///
    /// # Errors
    /// When the server refuses, as it does where the name is taken.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&self, ctx: *mut raw::RedisModuleCtx, category: Option<&CStr>) -> Result<(), String> {
        // SAFETY: the caller vouches for the context.
        if unsafe { self.register_if_free(ctx, category) }? {
            Ok(())
        } else {
            Err(refused(self.name, "; does another module have it?"))
        }
    }

    /// As [`Self::register`]; returns false where the name is taken.
    ///
    /// # Errors
    /// When the server refuses anything else.
    ///
    /// # Safety
    /// As for [`Self::register`].
    pub unsafe fn register_if_free(
        &self,
        ctx: *mut raw::RedisModuleCtx,
        category: Option<&CStr>,
    ) -> Result<bool, String> {
        let keys = self.keys.first_last_step();
        let category = category.filter(|_| !self.is_for_administrators());
        // SAFETY: the caller vouches for the context; the strings are static, and the server copies them.
        let created = unsafe {
            let (name, flags) = (self.name.as_ptr(), self.flags.as_ptr());
            api!(RedisModule_CreateCommand)(ctx, name, self.entry, flags, keys.0, keys.1, keys.2)
        };
        if created != OK {
            return Ok(false);
        }
        // SAFETY: the caller vouches for the context.
        let command = unsafe { self.describe(ctx, self.name, category) }?;
        for subcommand in self.subcommands {
            // SAFETY: the command is the server's, and the caller vouches for the context.
            unsafe { subcommand.register_in(ctx, command, self.name, category) }?;
        }
        Ok(true)
    }

    /// # Safety
    /// As for [`Self::register`], with the command that this is a part of, and its name.
    unsafe fn register_in(
        &self,
        ctx: *mut raw::RedisModuleCtx,
        parent: *mut raw::RedisModuleCommand,
        parent_name: &CStr,
        category: Option<&CStr>,
    ) -> Result<(), String> {
        let full_name = [parent_name.to_bytes(), b"|", self.name.to_bytes()].concat();
        let full_name = CString::new(full_name).unwrap_or_default();
        let (name, flags) = (self.name.as_ptr(), self.flags.as_ptr());
        // SAFETY: the caller vouches for the command; the strings are static, and the server copies them.
        if unsafe { api!(RedisModule_CreateSubcommand)(parent, name, self.entry, flags, 0, 0, 0) } != OK {
            return Err(refused(&full_name, ""));
        }
        // SAFETY: the caller vouches for the context.
        unsafe { self.describe(ctx, &full_name, category) }.map(|_| ())
    }

    /// Tells the server about the command of this name.
    ///
    /// # Safety
    /// As for [`Self::register`].
    unsafe fn describe(
        &self,
        ctx: *mut raw::RedisModuleCtx,
        name: &CStr,
        category: Option<&CStr>,
    ) -> Result<*mut raw::RedisModuleCommand, String> {
        let mut lists = Lists::default();
        let mut keys: Vec<_> = self.keys.to_raw().into_iter().chain([ending()]).collect();
        let info = raw::RedisModuleCommandInfo {
            version: &raw const INFO_VERSION,
            summary: self.summary.as_ptr(),
            complexity: self.complexity.as_ptr(),
            since: VERSION.as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: self.arity,
            key_specs: keys.as_mut_ptr(),
            args: lists.add(self.arguments),
        };
        // SAFETY: the caller vouches for the context. The strings are static, the lists live until the end of the
        // block and end with a zeroed element as the server expects, and the server copies all of them.
        unsafe {
            let command = api!(RedisModule_GetCommand)(ctx, name.as_ptr());
            if command.is_null() || api!(RedisModule_SetCommandInfo)(command, &raw const info) != OK {
                return Err(refused(name, "'s description"));
            }
            // Redis 7.0 has no categories for the commands of modules.
            if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
                if set_categories(command, self.categories(category).as_ptr()) != OK {
                    return Err(refused(name, "'s categories"));
                }
            }
            Ok(command)
        }
    }
}

impl CommandSpec {
    fn is_for_administrators(&self) -> bool {
        self.flags.to_bytes().split(|&byte| byte == b' ').any(|flag| flag == b"admin")
    }

    /// Its categories, with the module's own if that is for it.
    fn categories(&self, own: Option<&CStr>) -> CString {
        let words: Vec<_> = std::iter::once(self.categories).chain(own).map(CStr::to_bytes).collect();
        CString::new(words.join(&b' ')).unwrap_or_default()
    }
}

fn refused(name: &CStr, what: &str) -> String {
    format!("the server refuses the command {}{what}", name.to_string_lossy())
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
