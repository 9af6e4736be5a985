//! A test clock for servers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::compile;

/// The first time of a test clock: midnight, where every window that divides a day starts.
pub const START: u64 = 20_718 * 86_400 * 1_000_000;

const RUNS: i64 = 0;
const STANDS: i64 = 1;

/// A clock that stands still until the test sets it.
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

    /// The environment variables for the server.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", library().to_owned()), ("TEST_CLOCK", self.path.clone())]
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sets the time, in microseconds since the epoch.
    pub fn set(&mut self, now: u64) {
        self.now = now;
        self.write(STANDS, now.cast_signed());
    }

    /// Sets the time, from which the clock runs on.
    pub fn run_from(&mut self, now: u64) {
        self.now = now;
        self.write(RUNS, now.cast_signed() - super::now().cast_signed());
    }

    /// In one word, so that the server never reads a partial value.
    fn write(&mut self, mode: i64, micros: i64) {
        self.file.write_all_at(&(micros << 1 | mode).to_ne_bytes(), 0).expect("the clock is set");
    }

    pub fn advance_us(&mut self, micros: u64) {
        self.set(self.now + micros);
    }

    pub fn advance_ms(&mut self, millis: u64) {
        self.advance_us(millis * 1_000);
    }
}

/// The preload library, compiled once for each test program.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("clock"))
}
