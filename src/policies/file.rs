//! The policy file: read when the server starts, when the file changes, and when it is told to.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::replacement::Replacement;
use super::set::Policies;

/// More than a file of policies ever has: something else was named by mistake.
const MAX_SIZE: u64 = 16 << 20;

/// How long a file must have been left alone before it is read without anybody having asked: it may be half written.
const SETTLED: Duration = Duration::from_millis(100);
/// The same for a file whose last line has no end, or which is empty. Such a line may be a part of one, and mean something
/// else: `1` of `1d`. And a file that is written in place is empty first.
const SETTLED_WITHOUT_END: Duration = Duration::from_secs(2);

const TOO_LARGE: &str = "too large for a file of policies";
const CHANGED: &str = "changed since it was read; RL.POLICY LOAD reads it, and undoes what was set since";
const REFUSED: &str = "changed since it was read, and refused; correct it, or remove it and save again";

/// The file, and what was last seen of it.
pub struct PolicyFile {
    path: PathBuf,
    /// How it looked when it was last read; `None` if it is to be read again in any case.
    seen: Option<Stamp>,
    /// The text of the policies that were read last. To read it again would change nothing.
    text: Option<Vec<u8>>,
    /// What was refused since then, and told in the log. There is nothing new to say of it.
    refused: Option<Refused>,
}

/// A file that is not in force.
enum Refused {
    /// It could be read, and this is its text.
    Text(Vec<u8>),
    /// It could not be read, for this reason.
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

/// What is different when a file has changed.
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
    /// A file that has not been read yet. Wherever the server goes from here, it stays the same.
    pub fn new(path: PathBuf) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, seen: None, text: None, refused: None }
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or any line is bad: what is wrong, with the file's name.
    pub fn load(&mut self) -> Result<Policies, String> {
        // It is looked at once more, so that the log tells of what is wrong with it too.
        self.seen = None;
        self.take(read(&self.path)).map_err(|(_, problem)| problem)
    }

    /// Reads it if it has changed since it was last read, and has been left alone for a moment.
    ///
    /// # Errors
    /// As for [`Self::load`], once for each change.
    pub fn load_if_changed(&mut self) -> Option<Result<Policies, String>> {
        let found = fs::metadata(&self.path).ok();
        if self.seen.is_some() && self.seen == found.as_ref().map(Stamp::of) {
            return None;
        }
        // What was read may be another file than the one that was found, or it was written to in between.
        let (text, found) = match read_with_metadata(&self.path) {
            Ok((text, read)) => (Ok(text), Some(read)),
            Err(error) => (Err(error), found),
        };
        let is_whole = text.as_ref().is_ok_and(|text| text.last() == Some(&b'\n'));
        let settled = if is_whole || text.is_err() { SETTLED } else { SETTLED_WITHOUT_END };
        if found.as_ref().is_some_and(|file| age(file) < settled) {
            return None;
        }
        // What could not be read may be readable next time, without having changed.
        self.seen = found.filter(|_| text.is_ok()).as_ref().map(Stamp::of);
        let is_known = match &self.refused {
            Some(refused) => refused.is_the_same(&text),
            None => text.as_ref().ok() == self.text.as_ref(),
        };
        if is_known {
            return None;
        }
        Some(self.take(text).map_err(|(refused, problem)| {
            self.refused = Some(refused);
            problem
        }))
    }

    /// Makes policies of what was read, or says what is wrong with it.
    fn take(&mut self, text: io::Result<Vec<u8>>) -> Result<Policies, (Refused, String)> {
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

    /// Writes it anew: at once or not at all. Its permissions stay; its owner is the server's from then on.
    ///
    /// # Errors
    /// When it cannot be written, or is neither what was read last nor gone: then it is as it was.
    pub fn save(&mut self, policies: &Policies) -> Result<(), String> {
        let text = policies.to_text().into_bytes();
        if text.len() as u64 > MAX_SIZE {
            return Err(self.problem(TOO_LARGE));
        }
        let is_there = self.expect_unchanged()?;
        let replacement = Replacement::write(&self.path, &text).map_err(|error| self.problem(&error.to_string()))?;
        // The disk may have taken a while: what is there now counts.
        let saved =
            if is_there { replacement.replace(|found| read(found).ok() == self.text) } else { replacement.create() };
        if !saved.map_err(|error| self.problem(&error.to_string()))? {
            return Err(self.problem(CHANGED));
        }
        *self = Self { text: Some(text), ..Self::new(std::mem::take(&mut self.path)) };
        Ok(())
    }

    /// Only a file that is what was read last, or that is not there, may be replaced. Returns whether it is there.
    fn expect_unchanged(&self) -> Result<bool, String> {
        match read(&self.path) {
            Ok(found) if self.text.as_ref() == Some(&found) => Ok(true),
            Ok(found) => match &self.refused {
                Some(Refused::Text(refused)) if *refused == found => Err(self.problem(REFUSED)),
                _ => Err(self.problem(CHANGED)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // Whatever it is, it is somebody else's.
            Err(error) => Err(self.problem(&format!("{error}; it is not overwritten"))),
        }
    }

    fn problem(&self, problem: &str) -> String {
        format!("{}: {problem}", self.path.display())
    }
}

/// How long ago a file was written to. One from the future is taken for as old as it is early: the clocks of servers and of
/// their disks are a little apart, or one of them was set.
fn age(file: &Metadata) -> Duration {
    let Ok(modified) = file.modified() else { return Duration::MAX };
    SystemTime::now().duration_since(modified).unwrap_or_else(|early| early.duration())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_with_metadata(path).map(|(text, _)| text)
}

/// Reads a file, and then its metadata, which shows if it was written to meanwhile.
fn read_with_metadata(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let expect_regular =
        |found: &Metadata| if found.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) };
    // To open a device may already do something.
    expect_regular(&fs::metadata(path)?)?;
    // It may be another by now, and to open a pipe would wait until somebody writes to it.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    expect_regular(&found)?;
    let (mut size, mut text) = (found.size(), Vec::new());
    if size <= MAX_SIZE {
        // It may be growing.
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

    use super::super::replacement::tests::Folder;
    use super::*;

    #[test]
    fn a_file_that_is_made_anew_in_place_is_never_read_while_it_is_empty() {
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
                    // Which is empty for a moment.
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
            assert_eq!(empty, 0, "a file was taken for empty");
        });
    }

    #[test]
    fn an_edit_that_comes_while_the_file_is_saved_is_never_lost() {
        const EDIT: &str = "login SLIDINGLOG 7 1m\n";
        let folder = Folder::new("save");
        let is_being_saved = || {
            let mut names = fs::read_dir(&folder.path).expect("a folder").flatten().map(|entry| entry.file_name());
            names.any(|name| name.to_string_lossy().contains(".tmp-"))
        };
        // Large enough for the disk to take a while.
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
                    // On a busy machine it may have been too quick to be seen: then the edit comes after it.
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
