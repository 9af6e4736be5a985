//! The configuration parameters `ratelimit.policy-file`, `ratelimit.top-size` and `ratelimit.cl-throttle`. The same names
//! and values as arguments of the module set the defaults.

use std::path::PathBuf;

use limiter::Quoted;
use redis_module::raw;

use crate::commands::throttle;
use crate::server::config::{load, BoolConfig, NumberConfig, PathConfig};
use crate::server::Args;
use crate::stats::{self, Top};

/// The policy file.
static POLICY_FILE: PathConfig = PathConfig::new(c"policy-file");

/// The number of keys that `RL.TOP` tracks.
static TOP_SIZE: NumberConfig = NumberConfig {
    name: c"top-size",
    max: Top::MAX_PLACES,
    get: || stats::top().places(),
    set: |places| stats::top().set_places(places),
};

/// Whether `CL.THROTTLE` is enabled.
static CL_THROTTLE: BoolConfig =
    BoolConfig { name: c"cl-throttle", get: throttle::is_enabled, set: throttle::set_enabled };

/// The default values.
struct Defaults<'a> {
    policy_file: &'a [u8],
    top_size: u16,
    cl_throttle: bool,
}

/// Registers the parameters, and has the server set them.
///
/// # Errors
/// When the arguments of the module are invalid, or the server refuses.
///
/// # Safety
/// To be called while the module is being loaded, with the context of that.
pub unsafe fn register(ctx: *mut raw::RedisModuleCtx, args: Args<'_>) -> Result<(), String> {
    let defaults = Defaults::parse(args)?;
    // SAFETY: the caller vouches for the context.
    unsafe {
        POLICY_FILE.register(ctx, defaults.policy_file)?;
        TOP_SIZE.register(ctx, defaults.top_size)?;
        CL_THROTTLE.register(ctx, defaults.cl_throttle)?;
        load(ctx)
    }
}

/// The policy file.
pub fn policy_file() -> Option<PathBuf> {
    POLICY_FILE.path()
}

impl<'a> Defaults<'a> {
    fn parse(args: Args<'a>) -> Result<Self, String> {
        let mut defaults = Self { policy_file: b"", top_size: Top::PLACES, cl_throttle: true };
        let mut words = args.bytes_from(0);
        while let Some(name) = words.next() {
            let short = name.strip_prefix(b"ratelimit.").unwrap_or(name).to_ascii_lowercase();
            let names = [POLICY_FILE.name, TOP_SIZE.name, CL_THROTTLE.name].map(std::ffi::CStr::to_bytes);
            if !names.contains(&&*short) {
                return Err(format!(
                    "unknown argument {}: expected policy-file, top-size or cl-throttle, and a value",
                    Quoted(name)
                ));
            }
            let value = words.next().ok_or_else(|| format!("the argument {} requires a value", Quoted(name)))?;
            let set = defaults.set(&short, value);
            set.map_err(|expected| format!("invalid {} {}: expected {expected}", Quoted(name), Quoted(value)))?;
        }
        Ok(defaults)
    }

    /// Sets a default, or tells which values are valid.
    fn set(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), String> {
        if name == POLICY_FILE.name.to_bytes() {
            self.policy_file = value;
        } else if name == TOP_SIZE.name.to_bytes() {
            let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            let size = size.filter(|&size| size <= TOP_SIZE.max);
            self.top_size = size.ok_or_else(|| format!("an integer from 0 to {}", TOP_SIZE.max))?;
        } else {
            self.cl_throttle = match value.to_ascii_lowercase().as_slice() {
                b"yes" => true,
                b"no" => false,
                _ => return Err("yes or no".to_owned()),
            };
        }
        Ok(())
    }
}
