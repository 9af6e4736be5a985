//! Replaces a file atomically, and only a file whose content is known, so that no edit is lost.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{renameat_with, RenameFlags, CWD};
use rustix::io::Errno;

/// A file beside the one that it is to replace. Removed if it does not replace it.
pub struct Replacement {
    path: PathBuf,
    target: PathBuf,
    /// Whether the file at `path` is an edit by now, and stays.
    keep: bool,
}

/// Metadata that stay the same in a rename, and differ after a write.
#[derive(PartialEq, Eq)]
struct Identity {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        let file = fs::symlink_metadata(path).ok()?;
        Some(Self { inode: file.ino(), size: file.size(), modified: (file.mtime(), file.mtime_nsec()) })
    }
}

impl Replacement {
    /// Writes the file, with the permissions of the file at `target` if there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(target: &Path, text: &[u8]) -> io::Result<Self> {
        let target = follow_links(target)?;
        // Unique even if each server is the only process of its container.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut path = target.clone().into_os_string();
        path.push(format!(".tmp-{}-{now}", std::process::id()));
        let mut file = File::options().write(true).create_new(true).mode(0o644).open(&path)?;
        let replacement = Self { path: path.into(), target, keep: false };
        if let Ok(old) = fs::metadata(&replacement.target) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text)?;
        file.sync_all()?;
        Ok(replacement)
    }

    /// Puts the file where none is. Returns false if there is one by now, which stays.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub fn create(self) -> io::Result<bool> {
        // Not all file systems and sandboxes support this flag: a link does the same.
        let created = self.rename(RenameFlags::NOREPLACE).or_else(|_| fs::hard_link(&self.path, &self.target));
        match created {
            Ok(()) => self.sync_folder(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Replaces the file that is there, if it `is_known`. Returns false if it is another, which stays.
    ///
    /// Checking first and renaming then would lose an edit in between. So both files are exchanged, and exchanged back if the
    /// one that was there is not known.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub fn replace(mut self, is_known: impl Fn(&Path) -> bool) -> io::Result<bool> {
        let ours = Identity::of(&self.path);
        match self.rename(RenameFlags::EXCHANGE) {
            Ok(()) if is_known(&self.path) => {}
            Ok(()) => return self.exchange_back(ours).map(|()| false),
            // The file has been removed.
            Err(Errno::NOENT) => return Ok(false),
            // Not all file systems and sandboxes support this flag.
            Err(_) => {
                if !self.replace_after_check(is_known)? {
                    return Ok(false);
                }
            }
        }
        self.sync_folder();
        Ok(true)
    }

    /// As [`Self::replace`], where files cannot be exchanged: with a check right before the rename.
    fn replace_after_check(&self, is_known: impl Fn(&Path) -> bool) -> io::Result<bool> {
        if !is_known(&self.target) {
            return Ok(false);
        }
        fs::rename(&self.path, &self.target).map(|()| true)
    }

    /// Puts back the file that was there, or a newer edit: the newest stays.
    fn exchange_back(&mut self, ours: Option<Identity>) -> io::Result<()> {
        // More than the edits that can come in between. It must also end on a file system where a rename changes the metadata;
        // the number is odd, so that then our file is left beside.
        const MOST: usize = 99;
        self.keep = true;
        let (mut in_place, mut put_back) = (ours, Identity::of(&self.path));
        for _ in 0..MOST {
            match self.rename(RenameFlags::EXCHANGE) {
                Ok(()) => {}
                // The file in place has been removed meanwhile.
                Err(Errno::NOENT) if self.rename(RenameFlags::NOREPLACE).is_ok() => return Ok(()),
                Err(error) => return Err(self.left_beside(&error.into())),
            }
            let taken_out = Identity::of(&self.path);
            if taken_out == in_place {
                self.keep = false;
                return Ok(());
            }
            (in_place, put_back) = (put_back, taken_out);
        }
        Err(self.left_beside(&io::Error::other("it changes continuously")))
    }

    fn left_beside(&self, error: &io::Error) -> io::Error {
        io::Error::other(format!("{error}: the previous file may now be {}", self.path.display()))
    }

    fn rename(&self, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(CWD, &self.path, CWD, &self.target, flags)
    }

    /// Syncs the folder, which has the name of the file. Where that is not possible, the system does it soon.
    fn sync_folder(&self) {
        if let Some(folder) = self.target.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // The replaced file, or this one if it has replaced nothing.
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The target of a link, which need not exist: it is replaced, not the link.
///
/// `canonicalize` frees memory that the C library has allocated. Valkey 8.1 and later load modules so that they use the C
/// library's own `free`, while the library itself may use the server's `malloc`: the server would abort.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many links as Linux follows, and one look at the target of the last.
    for _ in 0..=40 {
        match fs::read_link(&path) {
            Ok(link) => path = path.with_file_name("").join(link),
            // It is no link.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

#[cfg(test)]
pub mod tests {
    use std::{env, process};

    use super::*;

    /// A folder for one file, removed with all that is in it.
    pub struct Folder {
        pub path: PathBuf,
        pub file: PathBuf,
    }

    impl Folder {
        pub fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("ratelimit-{name}-{}", process::id()));
            // A killed process of the same id may have left one.
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).expect("a folder");
            let file = path.join("file");
            Self { path, file }
        }

        fn replacement(&self) -> Replacement {
            Replacement::write(&self.file, b"ours").expect("a replacement")
        }

        /// Edits the file as editors do: writes another one and renames it.
        pub fn edit(&self, text: &str) {
            let edit = self.path.join("edit");
            fs::write(&edit, text).expect("written");
            fs::rename(&edit, &self.file).expect("renamed");
        }

        #[track_caller]
        pub fn holds_only(&self, text: &str) {
            // The text that is there instead may be long.
            assert!(holds(&self.file, text), "the file does not hold {text:?}");
            assert_eq!(fs::read_dir(&self.path).expect("a folder").count(), 1, "something was left behind");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    fn holds(path: &Path, text: &str) -> bool {
        fs::read_to_string(path).is_ok_and(|found| found == text)
    }

    #[test]
    fn only_a_known_file_is_replaced() {
        let folder = Folder::new("known");
        folder.edit("old");
        assert!(!folder.replacement().replace(|path| holds(path, "other")).expect("an answer"));
        folder.holds_only("old");
        assert!(folder.replacement().replace(|path| holds(path, "old")).expect("an answer"));
        folder.holds_only("ours");
    }

    #[test]
    fn the_newest_edit_stays_whenever_it_comes() {
        let folder = Folder::new("newest");
        folder.edit("old");
        let replacement = folder.replacement();
        folder.edit("before");
        let edited_meanwhile = |path: &Path| {
            assert!(holds(path, "before") && holds(&folder.file, "ours"));
            folder.edit("while it was in place");
            false
        };
        assert!(!replacement.replace(edited_meanwhile).expect("an answer"));
        folder.holds_only("while it was in place");
        // Also when it is written into the replacement.
        let written_meanwhile = |_: &Path| {
            fs::write(&folder.file, "into what was in place").expect("written");
            false
        };
        assert!(!folder.replacement().replace(written_meanwhile).expect("an answer"));
        folder.holds_only("into what was in place");
        let edited_afterwards = |_: &Path| {
            folder.edit("after it was known");
            true
        };
        assert!(folder.replacement().replace(edited_afterwards).expect("an answer"));
        folder.holds_only("after it was known");
    }

    #[test]
    fn an_edit_is_put_back_if_the_replacement_is_removed() {
        let folder = Folder::new("removed");
        folder.edit("edited");
        let removed_meanwhile = |_: &Path| {
            fs::remove_file(&folder.file).expect("removed");
            false
        };
        assert!(!folder.replacement().replace(removed_meanwhile).expect("an answer"));
        folder.holds_only("edited");
        let replacement = folder.replacement();
        fs::remove_file(&folder.file).expect("removed");
        assert!(!replacement.replace(|_| true).expect("an answer"));
        assert_eq!(fs::read_dir(&folder.path).expect("a folder").count(), 0, "something was left behind");
    }

    #[test]
    fn a_folder_in_place_of_the_file_is_put_back() {
        let folder = Folder::new("folder");
        folder.edit("old");
        let replacement = folder.replacement();
        fs::remove_file(&folder.file).expect("removed");
        fs::create_dir(&folder.file).expect("a folder");
        assert!(!replacement.replace(Path::is_file).expect("an answer"));
        assert!(folder.file.is_dir());
        assert_eq!(fs::read_dir(&folder.path).expect("a folder").count(), 1, "something was left behind");
    }

    #[test]
    fn a_new_file_never_replaces_an_existing_one() {
        let folder = Folder::new("nothing");
        assert!(folder.replacement().create().expect("an answer"));
        folder.holds_only("ours");
        folder.edit("edited");
        assert!(!folder.replacement().create().expect("an answer"));
        folder.holds_only("edited");
    }

    #[test]
    fn without_exchange_only_a_known_file_is_replaced_too() {
        let folder = Folder::new("look");
        folder.edit("old");
        assert!(!folder.replacement().replace_after_check(|path| holds(path, "other")).expect("an answer"));
        folder.holds_only("old");
        assert!(folder.replacement().replace_after_check(|path| holds(path, "old")).expect("an answer"));
        folder.holds_only("ours");
    }
}
