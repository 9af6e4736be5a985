//! An RDB file, or a `DUMP` payload, that the server is writing or reading.

use std::marker::PhantomData;
use std::slice;

use limiter::{RdbReader, RdbWriter};
use redis_module::raw::RedisModuleIO;

use super::{api, log};

/// The file that the server passed to the callback that is running.
pub struct Rdb<'a> {
    io: *mut RedisModuleIO,
    lives: PhantomData<&'a RedisModuleIO>,
}

impl Rdb<'_> {
    /// # Safety
    /// `io` is what the server passed to the callback that is running, and the value does not outlive that.
    pub const unsafe fn new(io: *mut RedisModuleIO) -> Self {
        Self { io, lives: PhantomData }
    }

    /// Logs why the file is refused.
    pub fn log_error(&self, message: &str) {
        // SAFETY: the file is valid, see `new`.
        unsafe { log::load_error(self.io, message) };
    }
}

impl RdbWriter for Rdb<'_> {
    fn number(&mut self, number: u64) {
        // SAFETY: the file is valid, see `new`.
        unsafe { api!(RedisModule_SaveUnsigned)(self.io, number) };
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above; the server copies the bytes.
        unsafe { api!(RedisModule_SaveStringBuffer)(self.io, bytes.as_ptr().cast(), bytes.len()) };
    }
}

impl RdbReader for Rdb<'_> {
    fn number(&mut self) -> Option<u64> {
        // SAFETY: as above.
        unsafe {
            let number = api!(RedisModule_LoadUnsigned)(self.io);
            (api!(RedisModule_IsIOError)(self.io) == 0).then_some(number)
        }
    }

    fn bytes<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut len = 0;
        // SAFETY: as above. The server returns null or a buffer of `len` bytes that is ours to free.
        unsafe {
            let buffer = api!(RedisModule_LoadStringBuffer)(self.io, &raw mut len);
            if buffer.is_null() {
                return None;
            }
            let result = read(slice::from_raw_parts(buffer.cast(), len));
            api!(RedisModule_Free)(buffer.cast());
            Some(result)
        }
    }
}
