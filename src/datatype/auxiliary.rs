//! The callbacks that save and load the policies, which are not keys.

use std::ffi::c_int;

use redis_module::raw::RedisModuleIO;

use super::callbacks::check_type_version;
use crate::policies::rdb;
use crate::server::api::{ERR, OK};
use crate::server::panic_guard::{guard, guard_saving};
use crate::server::Rdb;

/// Saves the policies.
pub unsafe extern "C" fn aux_save(io: *mut RedisModuleIO, _when: c_int) {
    // SAFETY: the server passes the file.
    guard_saving("aux_save", || rdb::save(unsafe { &mut Rdb::new(io) }));
}

/// Saves the policies if there are any. If nothing is saved, the file does not mention the module.
pub unsafe extern "C" fn aux_save2(io: *mut RedisModuleIO, _when: c_int) {
    // SAFETY: the server passes the file.
    guard_saving("aux_save", || rdb::save_if_any(unsafe { &mut Rdb::new(io) }));
}

/// Loads the policies; an error, with a line in the log, if they are corrupt or of a later version.
pub unsafe extern "C" fn aux_load(io: *mut RedisModuleIO, version: c_int, _when: c_int) -> c_int {
    guard("aux_load", ERR, || {
        // SAFETY: the server passes the file.
        let mut rdb = unsafe { Rdb::new(io) };
        let loaded = check_type_version(version).map_err(|error| error.to_string()).and_then(|()| rdb::load(&mut rdb));
        match loaded {
            Ok(()) => OK,
            Err(error) => {
                rdb.log_error(&format!("cannot load the policies of ratelimit: {error}"));
                ERR
            }
        }
    })
}
