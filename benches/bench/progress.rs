//! A progress line.

use std::io::Write;
use std::time::Instant;

pub struct Progress {
    started: Instant,
}

impl Progress {
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Replaces the text of the line.
    pub fn show(&self, what: &str) {
        let seconds = self.started.elapsed().as_secs();
        eprint!("\r\x1b[K[{:2}:{:02}] {what}", seconds / 60, seconds % 60);
        let _ = std::io::stderr().flush();
    }

    pub fn end(&self) {
        self.show("done");
        eprintln!();
    }
}
