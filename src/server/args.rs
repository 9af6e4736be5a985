//! The arguments of a command or of the module, read in place.

use std::ffi::c_int;
use std::marker::PhantomData;

use redis_module::raw;

use super::api;

/// The arguments of the call that is running; of a command its name is the first.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    strings: &'a [*mut raw::RedisModuleString],
}

/// One argument.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    string: *mut raw::RedisModuleString,
    lives: PhantomData<&'a raw::RedisModuleString>,
}

impl<'a> Args<'a> {
    /// # Safety
    /// `argv` and `count` are what the server passed to the call that is running, and `'a` ends with that call.
    pub unsafe fn new(argv: *mut *mut raw::RedisModuleString, count: c_int) -> Self {
        if argv.is_null() {
            // A module that is loaded without arguments gets no list at all.
            return Self { strings: &[] };
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the server passes `count` valid pointers, which it leaves alone until the command returns.
        Self { strings: unsafe { std::slice::from_raw_parts(argv, count) } }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// The argument at `index`, if there are so many.
    pub fn get(&self, index: usize) -> Option<Arg<'a>> {
        self.strings.get(index).map(|&string| Arg { string, lives: PhantomData })
    }

    /// The bytes of the argument at `index` and of all that follow.
    pub fn bytes_from(self, index: usize) -> impl Iterator<Item = &'a [u8]> {
        (index..).map_while(move |index| self.get(index)).map(|arg| arg.bytes())
    }
}

impl<'a> Arg<'a> {
    /// # Safety
    /// The string is one of the server's, and nobody frees or changes it during `'a`.
    pub const unsafe fn new(string: *mut raw::RedisModuleString) -> Self {
        Self { string, lives: PhantomData }
    }

    /// Its bytes; any bytes.
    pub fn bytes(&self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string is valid for `'a`, and so are its bytes as long as nobody changes it, which only its
        // owner, the client, could.
        unsafe {
            let start = api!(RedisModule_StringPtrLen)(self.string, &raw mut len);
            std::slice::from_raw_parts(start.cast(), len)
        }
    }

    /// The server's own string.
    pub const fn as_ptr(&self) -> *mut raw::RedisModuleString {
        self.string
    }
}
