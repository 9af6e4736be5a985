//! What the server calls to save and load the policies, which are no keys.

use std::ffi::c_int;

use redis_module::raw::RedisModuleIO;

use super::callbacks::Rdb;
use crate::limiter::{Save, Saved, FORMAT_VERSION};
use crate::policies;
use crate::server::api::{ERR, OK};
use crate::server::entry::{guard, guard_saving};
use crate::server::log;

/// Saves the policies.
pub unsafe extern "C" fn aux_save(rdb: *mut RedisModuleIO, _when: c_int) {
    guard_saving("aux_save", || Save::bytes(&mut Rdb(rdb), policies::to_save().as_bytes()));
}

/// Saves the policies if there are any: where nothing is saved, a snapshot says nothing of the module.
pub unsafe extern "C" fn aux_save2(rdb: *mut RedisModuleIO, _when: c_int) {
    guard_saving("aux_save", || {
        let text = policies::to_save();
        if !text.is_empty() {
            Save::bytes(&mut Rdb(rdb), text.as_bytes());
        }
    });
}

/// Loads the policies; an error, with a line in the log, for anything else.
pub unsafe extern "C" fn aux_load(rdb: *mut RedisModuleIO, version: c_int, _when: c_int) -> c_int {
    guard("aux_load", ERR, || {
        let loaded = if version == c_int::from(FORMAT_VERSION) {
            let found = Saved::bytes(&mut Rdb(rdb), |text| Some(policies::loaded(text).map_err(|bad| bad.to_string())));
            let loaded = found.unwrap_or_else(|| Err("they are cut off".to_owned()));
            loaded.map_err(|problem| format!("the policies of ratelimit are damaged: {problem}"))
        } else {
            Err("the policies of ratelimit were saved by a version of the module that is not known here".to_owned())
        };
        match loaded {
            Ok(()) => OK,
            Err(problem) => {
                // SAFETY: the server passed the file to this call.
                unsafe { log::load_error(rdb, &problem) };
                ERR
            }
        }
    })
}
