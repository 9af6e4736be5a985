//! The policy file: read when the module is loaded, when the file changes, and by `RL.POLICY LOAD`.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::atomic_replace::Replacement;
use super::collection::Policies;

/// Larger than any policy file: another file was named by mistake.
const MAX_SIZE: u64 = 16 << 20;

/// How long a changed file must be unchanged before it is read: it may be half written.
const SETTLED: Duration = Duration::from_millis(100);
/// The same for a file that is empty or whose last line has no line break. Such a line may be cut, and mean something else:
/// `1` of `1d`. A file that is written in place is empty at first.
const SETTLED_WITHOUT_END: Duration = Duration::from_secs(2);

const TOO_LARGE: &str = "too large for a policy file";
const CHANGED: &str = "changed since it was loaded; RL.POLICY LOAD loads it, and discards what was set since";
const REFUSED: &str = "changed since it was loaded, and is invalid; correct it, or remove it and save again";

/// The policy file, and what was last read of it.
pub struct PolicyFile {
    path: PathBuf,
    /// Its stamp when it was last read; `None` if it is to be read in any case.
    seen: Option<Stamp>,
    /// The text that was last loaded. Loading it again would change nothing.
    text: Option<Vec<u8>>,
    /// What was refused since then. It has been logged, and is not logged again.
    refused: Option<Refused>,
}

/// A file that was refused.
enum Refused {
    /// It has this text, which is invalid.
    Text(Vec<u8>),
    /// It cannot be read, for this reason.
    Unreadable(String),
}

impl Refused {
    fn is_the_same(&self, found: &io::Result<Vec<u8>>) -> bool {
        match (self, found) {
            (Self::Text(refused), Ok(text)) => refused == text,
            (Self::Unreadable(reason), Err(error)) => *reason == error.to_string(),
            _ => false,
        }
    }
}

/// Metadata that differ after a change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl PolicyFile {
    /// A file that has not been read yet. A relative path is resolved now, since the server may change its folder.
    pub fn new(path: PathBuf) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, seen: None, text: None, refused: None }
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or a line is invalid, with the name of the file.
    pub fn load(&mut self) -> Result<Policies, String> {
        // It is read by the next check as well, which logs what is wrong with it.
        self.seen = None;
        self.parse(read(&self.path)).map_err(|(_, problem)| problem)
    }

    /// Reads it if it has changed since it was last read, and is unchanged for a moment.
    ///
    /// # Errors
    /// As for [`Self::load`], once for each change.
    pub fn load_if_changed(&mut self) -> Option<Result<Policies, String>> {
        let found = fs::metadata(&self.path).ok();
        if self.seen.is_some() && self.seen == found.as_ref().map(Stamp::of) {
            return None;
        }
        // The file may be replaced or written to between the two calls: the metadata after reading count.
        let (text, found) = match read_with_metadata(&self.path) {
            Ok((text, read)) => (Ok(text), Some(read)),
            Err(error) => (Err(error), found),
        };
        let is_whole = text.as_ref().is_ok_and(|text| text.last() == Some(&b'\n'));
        let settled = if is_whole || text.is_err() { SETTLED } else { SETTLED_WITHOUT_END };
        if found.as_ref().is_some_and(|file| age(file) < settled) {
            return None;
        }
        // A file that cannot be read may be readable next time without a change.
        self.seen = found.filter(|_| text.is_ok()).as_ref().map(Stamp::of);
        let is_known = match &self.refused {
            Some(refused) => refused.is_the_same(&text),
            None => text.as_ref().ok() == self.text.as_ref(),
        };
        if is_known {
            return None;
        }
        Some(self.parse(text).map_err(|(refused, problem)| {
            self.refused = Some(refused);
            problem
        }))
    }

    /// Parses what was read.
    fn parse(&mut self, text: io::Result<Vec<u8>>) -> Result<Policies, (Refused, String)> {
        let (refused, problem) = match text {
            Err(error) => (Refused::Unreadable(error.to_string()), error.to_string()),
            Ok(text) => match Policies::parse(&text) {
                Err(bad) => (Refused::Text(text), bad.to_string()),
                Ok(policies) => {
                    (self.text, self.refused) = (Some(text), None);
                    return Ok(policies);
                }
            },
        };
        Err((refused, self.problem(&problem)))
    }

    /// Replaces it atomically. Its permissions stay; its owner becomes the server's user.
    ///
    /// # Errors
    /// When it cannot be written, or has changed since it was loaded: then it is as it was.
    pub fn save(&mut self, policies: &Policies) -> Result<(), String> {
        let text = policies.to_text().into_bytes();
        if text.len() as u64 > MAX_SIZE {
            return Err(self.problem(TOO_LARGE));
        }
        let is_there = self.expect_unchanged()?;
        let replacement = Replacement::write(&self.path, &text).map_err(|error| self.problem(&error.to_string()))?;
        // Writing may have taken a while: the file that is there now counts.
        let saved =
            if is_there { replacement.replace(|found| read(found).ok() == self.text) } else { replacement.create() };
        if !saved.map_err(|error| self.problem(&error.to_string()))? {
            return Err(self.problem(CHANGED));
        }
        *self = Self { text: Some(text), ..Self::new(std::mem::take(&mut self.path)) };
        Ok(())
    }

    /// Only a file that is unchanged since it was loaded, or missing, may be replaced. Returns whether it exists.
    fn expect_unchanged(&self) -> Result<bool, String> {
        match read(&self.path) {
            Ok(found) if self.text.as_ref() == Some(&found) => Ok(true),
            Ok(found) => match &self.refused {
                Some(Refused::Text(refused)) if *refused == found => Err(self.problem(REFUSED)),
                _ => Err(self.problem(CHANGED)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // Whatever it is, it is not ours.
            Err(error) => Err(self.problem(&format!("{error}; not overwritten"))),
        }
    }

    fn problem(&self, problem: &str) -> String {
        format!("{}: {problem}", self.path.display())
    }
}

/// The time since a file was written to. The time until then if that is in the future: the clocks of servers and of their
/// disks differ a little, or one was set.
fn age(file: &Metadata) -> Duration {
    let Ok(modified) = file.modified() else { return Duration::MAX };
    SystemTime::now().duration_since(modified).unwrap_or_else(|early| early.duration())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_with_metadata(path).map(|(text, _)| text)
}

/// Reads a file, and its metadata after that, which show a write in between.
fn read_with_metadata(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let expect_regular =
        |found: &Metadata| if found.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) };
    // Opening a device may have side effects.
    expect_regular(&fs::metadata(path)?)?;
    // It may be another file by now, and opening a pipe would block.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    expect_regular(&found)?;
    let (mut size, mut text) = (found.size(), Vec::new());
    if size <= MAX_SIZE {
        // It may grow.
        size = (&file).take(MAX_SIZE + 1).read_to_end(&mut text)? as u64;
    }
    if size > MAX_SIZE {
        return Err(io::Error::other(TOO_LARGE));
    }
    Ok((text, file.metadata()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::super::atomic_replace::tests::Folder;
    use super::*;

    #[test]
    fn a_file_that_is_rewritten_in_place_is_never_read_while_it_is_empty() {
        let folder = Folder::new("made");
        folder.edit("login SLIDINGLOG 5 1m\n");
        let mut file = PolicyFile::new(folder.file.clone());
        file.load().expect("policies");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = fs::remove_file(&folder.file);
                    thread::sleep(Duration::from_micros(100));
                    // The file is empty for a moment.
                    fs::write(&folder.file, "login SLIDINGLOG 7 1m\n").expect("written");
                }
            });
            let start = Instant::now();
            let mut empty = 0;
            while start.elapsed() < Duration::from_secs(1) {
                let loaded = file.load_if_changed().and_then(Result::ok);
                empty += usize::from(loaded.is_some_and(|policies| policies.iter().len() == 0));
            }
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(empty, 0, "an empty file was read");
        });
    }

    #[test]
    fn an_edit_while_the_file_is_saved_is_never_lost() {
        const EDIT: &str = "login SLIDINGLOG 7 1m\n";
        let folder = Folder::new("save");
        let is_being_saved = || {
            let mut names = fs::read_dir(&folder.path).expect("a folder").flatten().map(|entry| entry.file_name());
            names.any(|name| name.to_string_lossy().contains(".tmp-"))
        };
        // Large enough for writing to take a while.
        let text: Vec<String> = (0..20_000).map(|number| format!("policy{number} SLIDINGLOG 5 1m")).collect();
        let policies = Policies::parse(text.join("\n").as_bytes()).expect("policies");
        for round in 0..20 {
            let _ = fs::remove_file(&folder.file);
            let mut file = PolicyFile::new(folder.file.clone());
            if round % 2 == 0 {
                folder.edit("login SLIDINGLOG 5 1m\n");
                file.load().expect("policies");
            }
            let is_saved = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    // On a busy machine saving may end unseen: then the edit comes after it.
                    while !is_being_saved() && !is_saved.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                    folder.edit(EDIT);
                });
                let _ = file.save(&policies);
                is_saved.store(true, Ordering::Relaxed);
            });
            folder.holds_only(EDIT);
        }
    }
}
