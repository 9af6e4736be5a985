//! The server's wall clock, held by the test.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::compile;

/// The time that a held clock shows at first: midnight, so every window that divides a day starts then.
pub const START: u64 = 20_718 * 86_400 * 1_000_000;

/// A clock that stands still until the test moves it.
pub struct Clock {
    file: File,
    path: PathBuf,
    now: u64,
}

impl Clock {
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("clock");
        let file = File::create(&path).expect("a clock file");
        let mut clock = Self { file, path, now: 0 };
        clock.set(START);
        clock
    }

    /// What the server needs in its environment.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", library().to_owned()), ("TEST_CLOCK", self.path.clone())]
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sets the time, in microseconds since the epoch.
    pub fn set(&mut self, now: u64) {
        self.now = now;
        self.write(1, now.cast_signed());
    }

    /// Sets the time, and lets it run on from there, so that the server can measure with it.
    pub fn run_from(&mut self, now: u64) {
        self.now = now;
        let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after the epoch");
        let real = i64::try_from(real.as_micros()).expect("a time of these days");
        self.write(0, now.cast_signed() - real);
    }

    fn write(&mut self, mode: i64, micros: i64) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mode.to_ne_bytes());
        bytes[8..].copy_from_slice(&micros.to_ne_bytes());
        self.file.write_all_at(&bytes, 0).expect("the clock is set");
    }

    pub fn advance_us(&mut self, micros: u64) {
        self.set(self.now + micros);
    }

    pub fn advance_ms(&mut self, millis: u64) {
        self.advance_us(millis * 1_000);
    }
}

/// The preload library, compiled once a test program.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("clock"))
}
