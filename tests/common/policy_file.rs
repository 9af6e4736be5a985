//! Policy files.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use super::{eventually, Client, Server};

/// The log's message for an invalid file.
pub const REJECTED: &str = "redis-ratelimit: cannot load the policy file, the policies stay";
pub const NO_SUCH_FILE: &str = "No such file or directory (os error 2)";

/// Waits until the server has checked the file a few times, which it does every second.
pub fn wait_for_checks(client: &mut Client) {
    let second = client.number("uptime_in_seconds");
    eventually("time passes", || client.number("uptime_in_seconds") > second + 3);
}

/// A policy file in a temporary folder, which is removed on drop.
pub struct PolicyFile {
    pub folder: PathBuf,
    pub path: String,
}

impl PolicyFile {
    pub fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("ratelimit-policies-{}-{number}", std::process::id()));
        // A process with the same id may have left such a folder.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join("policies.conf").to_string_lossy().into_owned();
        let file = Self { folder, path };
        file.write(text);
        file
    }

    /// Changes the file in place. For a moment it is empty, which the server may notice on a slow machine.
    pub fn write(&self, text: &str) {
        fs::write(&self.path, with_end(text)).expect("written");
    }

    /// Replaces the file.
    pub fn replace(&self, text: &str) {
        let other = self.folder.join("other");
        fs::write(&other, with_end(text)).expect("written");
        fs::rename(other, &self.path).expect("renamed");
    }

    /// Replaces the file by a pipe, which blocks readers, as it has no writer.
    pub fn replace_by_pipe(&self) {
        let other = self.folder.join("other");
        assert!(Command::new("mkfifo").arg(&other).status().expect("a program").success());
        // In one step, so that the file never seems to be missing.
        fs::rename(other, &self.path).expect("renamed");
    }

    /// The arguments that set its path.
    pub fn setting(&self) -> [&str; 2] {
        ["--ratelimit.policy-file", &self.path]
    }

    pub fn server(&self, settings: &[&str]) -> Server {
        Server::start(&[&self.setting(), settings].concat())
    }
}

/// The text with a newline at its end, as editors write it.
pub fn with_end(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
