//! The server's log.

use std::ffi::{CStr, CString};
use std::ptr;

use redis_module::raw;

use super::api;

/// Writes a warning to the server's log.
pub fn warning(message: &str) {
    write(c"warning", message);
}

/// Writes a notice to the server's log.
pub fn notice(message: &str) {
    write(c"notice", message);
}

fn write(level: &CStr, message: &str) {
    let message = printable(message);
    // Panics are logged here, so nothing here may panic.
    // SAFETY: a null context is allowed from any thread; the message is an argument, never the format.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), message.as_ptr());
        }
    }
}

/// Logs why a file that is being loaded is refused.
///
/// # Safety
/// `io` is what the server passed to the callback that is running.
pub unsafe fn load_error(io: *mut raw::RedisModuleIO, message: &str) {
    let message = printable(message);
    // SAFETY: the caller vouches for `io`; the message is an argument, never the format.
    unsafe { api!(RedisModule_LogIOError)(io, c"warning".as_ptr(), c"%s".as_ptr(), message.as_ptr()) };
}

fn printable(message: &str) -> CString {
    CString::new(message.replace('\0', " ")).unwrap_or_default()
}
