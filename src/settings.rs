//! The module's settings: `ratelimit.policy-file`, `ratelimit.top-size` and `ratelimit.cl-throttle` in the server's
//! configuration, or the same names and values as arguments of the module, which then are the defaults.

use std::path::PathBuf;

use redis_module::raw;

use crate::commands::throttle;
use crate::limiter::Quoted;
use crate::server::setting::{apply, NumberSetting, PathSetting, SwitchSetting};
use crate::server::Args;
use crate::stats::{self, Top};

/// Where the policies are, if they are in a file.
static POLICY_FILE: PathSetting = PathSetting::new(c"policy-file");

/// How many keys `RL.TOP` keeps in view.
static TOP_SIZE: NumberSetting = NumberSetting {
    name: c"top-size",
    max: Top::MAX_PLACES,
    get: || stats::top().places(),
    set: |places| stats::top().set_places(places),
};

/// Whether there is `CL.THROTTLE`.
static CL_THROTTLE: SwitchSetting = SwitchSetting { name: c"cl-throttle", get: throttle::is_on, set: throttle::switch };

/// What the settings are unless the configuration says otherwise.
struct Defaults<'a> {
    policy_file: &'a [u8],
    top_size: u16,
    cl_throttle: bool,
}

/// Makes the settings known to the server, and puts in force what it has for them.
///
/// # Errors
/// When the arguments of the module are no settings, or the server refuses.
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
        apply(ctx)
    }
}

/// The file that the policies are in.
pub fn policy_file() -> Option<PathBuf> {
    POLICY_FILE.path()
}

impl<'a> Defaults<'a> {
    fn parse(args: Args<'a>) -> Result<Self, String> {
        let mut defaults = Self { policy_file: b"", top_size: Top::PLACES, cl_throttle: true };
        let mut words = args.bytes_from(0);
        while let Some(name) = words.next() {
            let short = name.strip_prefix(b"ratelimit.").unwrap_or(name).to_ascii_lowercase();
            let known = [POLICY_FILE.name, TOP_SIZE.name, CL_THROTTLE.name].map(std::ffi::CStr::to_bytes);
            if !known.contains(&&*short) {
                return Err(format!(
                    "unknown argument {}: expected policy-file, top-size or cl-throttle, and a value",
                    Quoted(name)
                ));
            }
            let value = words.next().ok_or_else(|| format!("the argument {} needs a value", Quoted(name)))?;
            let taken = defaults.take(&short, value);
            taken.map_err(|expected| format!("invalid {} {}: expected {expected}", Quoted(name), Quoted(value)))?;
        }
        Ok(defaults)
    }

    /// Takes the value of a setting, or says what would be one.
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), String> {
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
