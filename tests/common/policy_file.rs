//! Policy files.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use super::{eventually, Client, Server};

/// What the log says of a file that is not as it should be.
pub const REFUSED: &str = "redis-ratelimit: cannot load the policy file, the policies stay";
pub const NO_SUCH_FILE: &str = "No such file or directory (os error 2)";

/// Waits until the file has been looked at a few times: it is, once a second.
pub fn wait_for_looks(client: &mut Client) {
    let second = client.number("uptime_in_seconds");
    eventually("time passes", || client.number("uptime_in_seconds") > second + 3);
}

/// A policy file in a folder of its own, gone when it goes out of scope.
pub struct PolicyFile {
    pub folder: PathBuf,
    pub path: String,
}

impl PolicyFile {
    pub fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("ratelimit-policies-{}-{number}", std::process::id()));
        // A program of the same number may have been killed with one of that name.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join("policies.conf").to_string_lossy().into_owned();
        let file = Self { folder, path };
        file.write(text);
        file
    }

    /// Changes it in place. For a moment it is empty, and on a slow machine that may be noticed.
    pub fn write(&self, text: &str) {
        fs::write(&self.path, with_end(text)).expect("written");
    }

    /// Puts another in its place.
    pub fn replace(&self, text: &str) {
        let other = self.folder.join("other");
        fs::write(&other, with_end(text)).expect("written");
        fs::rename(other, &self.path).expect("renamed");
    }

    /// Puts a pipe in its place. Nobody writes to that, so who opens it waits.
    pub fn replace_by_pipe(&self) {
        let other = self.folder.join("other");
        assert!(Command::new("mkfifo").arg(&other).status().expect("a program").success());
        // In one step, or it may be seen that nothing is there.
        fs::rename(other, &self.path).expect("renamed");
    }

    /// What names it on a command line.
    pub fn setting(&self) -> [&str; 2] {
        ["--ratelimit.policy-file", &self.path]
    }

    pub fn server(&self, settings: &[&str]) -> Server {
        Server::start(&[&self.setting(), settings].concat())
    }
}

/// The text with an end to its last line, as editors leave it.
pub fn with_end(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
