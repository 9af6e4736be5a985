//! Commands: their entry point, and what the server is told of them for `COMMAND DOCS`, routing and ACLs.

use std::ffi::{c_int, CStr, CString};
use std::ptr;

use redis_module::raw;

use super::api::OK;
use super::command_info::{ending, ArgumentLists, ArgumentSpec, Keys};
use super::panic_guard::guard;
use super::{api, Args, Context};
use crate::error::Error;

/// The code of a command.
pub trait Command {
    /// The command's name in the log, without `RL.`.
    const NAME: &'static str;

    /// Runs the command and replies.
    ///
    /// # Errors
    /// When the command fails. The error is the reply, and the command has had no side effects.
    fn run(ctx: &mut Context, args: Args<'_>) -> Result<(), Error>;
}

/// What the server is told of a command.
pub struct CommandSpec {
    /// Its name.
    pub name: &'static str,
    /// What the server calls; `None` for a command that only has subcommands.
    pub entry: Option<Entry>,
    /// Its flags, as `RM_CreateCommand` takes them.
    pub flags: &'static str,
    /// Its built-in ACL categories, on servers where modules can set them.
    pub categories: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Its complexity.
    pub complexity: &'static str,
    /// The number of arguments including the name, negative for a minimum. The name of a subcommand counts as two.
    pub arity: c_int,
    /// Which arguments are keys.
    pub keys: Keys,
    /// Its arguments before the options.
    pub arguments: &'static [ArgumentSpec],
    /// Its options.
    pub options: fn() -> Vec<ArgumentSpec>,
    /// Its subcommands.
    pub subcommands: &'static [CommandSpec],
}

/// A function that the server calls for a command.
type Entry = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// The entry point of the command `C`.
///
/// # Safety
/// To be called by the server only, with its context and arguments.
unsafe extern "C" fn entry<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    // SAFETY: the server passed them for this call, and they are not kept.
    let (mut ctx, arguments) = unsafe { (Context::new(ctx), Args::new(argv, count)) };
    let replied = guard(C::NAME, false, || {
        if let Err(error) = C::run(&mut ctx, arguments) {
            ctx.reply_with_error(&error);
        }
        true
    });
    if !replied {
        guard("reply", (), || ctx.reply_with_error(&Error::Internal));
    }
    OK
}

impl CommandSpec {
    /// A command without a description; everything else is to be filled in.
    pub const fn new<C: Command>(name: &'static str) -> Self {
        Self { name, entry: Some(entry::<C>), ..Self::container(name) }
    }

    /// A command that only has subcommands.
    pub const fn container(name: &'static str) -> Self {
        Self {
            name,
            entry: None,
            flags: "",
            categories: "",
            summary: "",
            complexity: "O(1)",
            arity: -1,
            keys: Keys::None,
            arguments: &[],
            options: Vec::new,
            subcommands: &[],
        }
    }

    /// Adds an ACL category, on servers where modules can. Returns it if it can be used.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn add_category(ctx: *mut raw::RedisModuleCtx, name: &'static CStr) -> Option<&'static CStr> {
        // SAFETY: the caller vouches for the context; the server copies the name.
        let added = unsafe { raw::RedisModule_AddACLCategory.map(|add| add(ctx, name.as_ptr())) };
        (added == Some(OK)).then_some(name)
    }

    /// Registers the command and its subcommands. Unless it is for administrators, it is in `category` as well, if there
    /// is one.
    ///
    /// # Errors
    /// When the server refuses, as it does when the name is taken.
    ///
    /// # Safety
    /// To be called while the module is being loaded, with the context of that.
    pub unsafe fn register(&self, ctx: *mut raw::RedisModuleCtx, category: Option<&CStr>) -> Result<(), String> {
        // SAFETY: the caller vouches for the context.
        if unsafe { self.register_if_free(ctx, category) }? {
            Ok(())
        } else {
            Err(format!("{}; is it a command of another module?", refused(self.name, "")))
        }
    }

    /// As [`Self::register`]; returns false if the name is taken.
    ///
    /// # Errors
    /// When the server refuses for another reason.
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
        let (name, flags) = (c_string(self.name), c_string(self.flags));
        // SAFETY: the caller vouches for the context; the server copies the strings.
        let created = unsafe {
            api!(RedisModule_CreateCommand)(ctx, name.as_ptr(), self.entry, flags.as_ptr(), keys.0, keys.1, keys.2)
        };
        if created != OK {
            return Ok(false);
        }
        // SAFETY: the caller vouches for the context.
        let command = unsafe { self.set_info(ctx, self.name, category) }?;
        for subcommand in self.subcommands {
            // SAFETY: the command is the server's, and the caller vouches for the context.
            unsafe { subcommand.register_in(ctx, command, self.name, category) }?;
        }
        Ok(true)
    }

    /// # Safety
    /// As for [`Self::register`], with the command that this is a subcommand of, and its name.
    unsafe fn register_in(
        &self,
        ctx: *mut raw::RedisModuleCtx,
        parent: *mut raw::RedisModuleCommand,
        parent_name: &str,
        category: Option<&CStr>,
    ) -> Result<(), String> {
        let full_name = format!("{parent_name}|{}", self.name);
        let (name, flags) = (c_string(self.name), c_string(self.flags));
        // SAFETY: the caller vouches for the command; the server copies the strings.
        let created =
            unsafe { api!(RedisModule_CreateSubcommand)(parent, name.as_ptr(), self.entry, flags.as_ptr(), 0, 0, 0) };
        if created != OK {
            return Err(refused(&full_name, ""));
        }
        // SAFETY: the caller vouches for the context.
        unsafe { self.set_info(ctx, &full_name, category) }.map(|_| ())
    }

    /// Describes the command of this name to the server.
    ///
    /// # Safety
    /// As for [`Self::register`].
    unsafe fn set_info(
        &self,
        ctx: *mut raw::RedisModuleCtx,
        name: &str,
        category: Option<&CStr>,
    ) -> Result<*mut raw::RedisModuleCommand, String> {
        let mut lists = ArgumentLists::default();
        let mut keys: Vec<_> = self.keys.to_raw().into_iter().chain([ending()]).collect();
        let (summary, complexity) = (c_string(self.summary), c_string(self.complexity));
        let options = (self.options)();
        let info = raw::RedisModuleCommandInfo {
            version: &raw const INFO_VERSION,
            summary: summary.as_ptr(),
            complexity: complexity.as_ptr(),
            since: VERSION.as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: self.arity,
            key_specs: keys.as_mut_ptr(),
            args: lists.add(self.arguments.iter().chain(&options)),
        };
        let full_name = c_string(name);
        // SAFETY: the caller vouches for the context. The strings and lists live until the end of the function, the lists
        // end with a zeroed element as the server expects, and the server copies all of them.
        unsafe {
            let command = api!(RedisModule_GetCommand)(ctx, full_name.as_ptr());
            if command.is_null() || api!(RedisModule_SetCommandInfo)(command, &raw const info) != OK {
                return Err(refused(name, "'s description"));
            }
            // On Redis 7.0 the commands of modules have no categories.
            if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
                if set_categories(command, self.categories_with(category).as_ptr()) != OK {
                    return Err(refused(name, "'s categories"));
                }
            }
            Ok(command)
        }
    }

    fn is_for_administrators(&self) -> bool {
        self.flags.split(' ').any(|flag| flag == "admin")
    }

    /// Its categories, with the module's own if the command is in it.
    fn categories_with(&self, own: Option<&CStr>) -> CString {
        let words: Vec<_> = std::iter::once(self.categories.as_bytes()).chain(own.map(CStr::to_bytes)).collect();
        CString::new(words.join(&b' ')).unwrap_or_default()
    }
}

/// None of the strings has a NUL byte.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

fn refused(name: &str, what: &str) -> String {
    format!("the server refuses the command {name}{what}")
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
