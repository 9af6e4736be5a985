//! The policy file: read when the server starts, when the file changes, and when it is told to.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::set::Policies;

/// More than a file of policies ever has: something else was named by mistake.
const MAX_SIZE: usize = 16 << 20;

/// How long a file must have been left alone before it is read without anybody having asked: it may be half written.
const SETTLED: Duration = Duration::from_millis(100);
/// The same for a file whose last line has no end, or which is empty. Such a line may be a part of one, and mean something
/// else: `1` of `1d`. And a file that is written in place is empty first.
const SETTLED_WITHOUT_END: Duration = Duration::from_secs(2);

/// The file, and what was last seen of it.
pub struct PolicyFile {
    path: PathBuf,
    /// How it looked when it was last read; `None` if it is to be read again in any case.
    seen: Option<Stamp>,
    /// The text of the policies that were read last. To read it again would change nothing.
    text: Option<Vec<u8>>,
    /// What was refused since then. There is nothing new to say of it.
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
        // Whatever happens to it from now on is looked at.
        self.seen = None;
        self.take(read(&self.path))
    }

    /// Reads it if it has changed since it was last read, and has been left alone for a moment.
    ///
    /// # Errors
    /// As for [`Self::load`], once for each change.
    pub fn load_if_changed(&mut self) -> Option<Result<Policies, String>> {
        let found = fs::metadata(&self.path);
        let stamp = found.as_ref().ok().map(Stamp::of);
        if stamp.is_some() && stamp == self.seen {
            return None;
        }
        // A file from the future has been left alone too: its clock or ours was set.
        let modified = found.and_then(|file| file.modified()).ok();
        let age = modified.and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or(Duration::MAX);
        if age < SETTLED {
            return None;
        }
        let text = read(&self.path);
        if age < SETTLED_WITHOUT_END && text.as_ref().is_ok_and(|text| text.last() != Some(&b'\n')) {
            return None;
        }
        self.seen = stamp;
        let is_known = match &self.refused {
            Some(refused) => refused.is_the_same(&text),
            None => text.as_ref().ok() == self.text.as_ref(),
        };
        (!is_known).then(|| self.take(text))
    }

    /// Makes policies of what was read.
    fn take(&mut self, text: io::Result<Vec<u8>>) -> Result<Policies, String> {
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
        self.refused = Some(refused);
        Err(self.problem(&problem))
    }

    /// Writes it anew: at once or not at all. Its permissions stay; its owner is the server's from then on.
    ///
    /// # Errors
    /// When it cannot be written, or is neither what was read last nor gone: then it is as it was.
    pub fn save(&mut self, policies: &Policies) -> Result<(), String> {
        let text = policies.to_text().into_bytes();
        if text.len() > MAX_SIZE {
            return Err(self.problem("too large for a file of policies"));
        }
        match read(&self.path) {
            Ok(found) if self.text.as_ref() == Some(&found) => {}
            Ok(_) => {
                return Err(
                    self.problem("changed since it was read; RL.POLICY LOAD reads it, and undoes what was set since")
                );
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Whatever it is, it is somebody else's.
            Err(error) => return Err(self.problem(&format!("{error}; it is not overwritten"))),
        }
        replace(&self.path, &text).map_err(|error| self.problem(&error.to_string()))?;
        *self = Self { text: Some(text), ..Self::new(std::mem::take(&mut self.path)) };
        Ok(())
    }

    fn problem(&self, problem: &str) -> String {
        format!("{}: {problem}", self.path.display())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let expect_regular =
        |found: Metadata| if found.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) };
    // To open a device may already do something.
    expect_regular(fs::metadata(path)?)?;
    // It may be another by now, and to open a pipe would wait until somebody writes to it.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    expect_regular(file.metadata()?)?;
    let mut text = Vec::new();
    file.take(MAX_SIZE as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX_SIZE {
        return Err(io::Error::other("too large for a file of policies"));
    }
    Ok(text)
}

/// Writes a file beside the old one, with its permissions, and puts it in its place once it is on the disk.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = follow_links(path)?;
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.tmp", std::process::id()));
    // Left by a server that died, or put there by somebody: nothing that is there already is written to.
    let _ = fs::remove_file(&beside);
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).mode(0o644).open(&beside)?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    })();
    match written {
        // The folder's entry is on the disk only when the folder is. Where that cannot be asked for, it will be soon.
        Ok(()) => path.parent().and_then(|folder| File::open(folder).ok()).map_or((), |folder| drop(folder.sync_all())),
        Err(_) => drop(fs::remove_file(&beside)),
    }
    written
}

/// What a link leads to, which may be nothing yet: that is replaced, not the link.
///
/// Not by `canonicalize`, which frees memory that the C library allocated. Valkey from 8.1 on loads modules so that they
/// use the C library's own `free`, while the library itself may use the server's `malloc`: the server would abort.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(link) => path = path.with_file_name("").join(link),
            // It is no link.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}
