//! A file that takes the place of another, at once or not at all, and only of one that its writer knows.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{renameat_with, RenameFlags, CWD};
use rustix::io::Errno;

/// A file beside the one whose place it is to take. Removed if it does not.
pub struct Replacement {
    path: PathBuf,
    target: PathBuf,
    /// Whether the file at `path` is somebody else's by now, and stays.
    keep: bool,
}

/// What is the same of a file before and after a rename, and differs when it is written to.
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
    /// Writes it to the disk, with the permissions of the file at `target` if there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(target: &Path, text: &[u8]) -> io::Result<Self> {
        let target = follow_links(target)?;
        // No two servers write to the same file, also where each is the only process in its container.
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

    /// Takes the place where no file is. Returns false if one is there by now, which stays.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub fn create(self) -> io::Result<bool> {
        // Not every file system can rename so, and not every sandbox lets it: a link does the same.
        let created = self.rename(RenameFlags::NOREPLACE).or_else(|_| fs::hard_link(&self.path, &self.target));
        match created {
            Ok(()) => self.sync_folder(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Takes the place of the file that is there, if that `is_known`. Returns false if it is another, which stays.
    ///
    /// To look first and rename then would lose an edit that comes in between. So both files change places, and change back
    /// if the one that was there is not known.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub fn replace(mut self, is_known: impl Fn(&Path) -> bool) -> io::Result<bool> {
        let ours = Identity::of(&self.path);
        match self.rename(RenameFlags::EXCHANGE) {
            Ok(()) if is_known(&self.path) => {}
            Ok(()) => return self.change_back(ours).map(|()| false),
            // It has been removed.
            Err(Errno::NOENT) => return Ok(false),
            // Not every file system can do that, and not every sandbox lets it.
            Err(_) => {
                if !self.replace_after_a_look(is_known)? {
                    return Ok(false);
                }
            }
        }
        self.sync_folder();
        Ok(true)
    }

    /// As [`Self::replace`], where files cannot change places: a look right before the rename has to do.
    fn replace_after_a_look(&self, is_known: impl Fn(&Path) -> bool) -> io::Result<bool> {
        if !is_known(&self.target) {
            return Ok(false);
        }
        fs::rename(&self.path, &self.target).map(|()| true)
    }

    /// Puts back what was there before, or what somebody has put there since: the newest stays.
    fn change_back(&mut self, ours: Option<Identity>) -> io::Result<()> {
        // More edits than anybody makes meanwhile. On a file system where a rename changes how a file looks, this must end
        // too; the number is odd, so that then ours is the one left beside.
        const MOST: usize = 99;
        self.keep = true;
        let (mut in_place, mut put_back) = (ours, Identity::of(&self.path));
        for _ in 0..MOST {
            match self.rename(RenameFlags::EXCHANGE) {
                Ok(()) => {}
                // What was in place has been removed meanwhile.
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
        Err(self.left_beside(&io::Error::other("it changes all the time")))
    }

    fn left_beside(&self, error: &io::Error) -> io::Error {
        io::Error::other(format!("{error}: what was there may now be in {}", self.path.display()))
    }

    fn rename(&self, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(CWD, &self.path, CWD, &self.target, flags)
    }

    /// The folder's entry is on the disk only when the folder is. Where that cannot be asked for, it will be soon.
    fn sync_folder(&self) {
        if let Some(folder) = self.target.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // What it has replaced, or itself if it has replaced nothing. Nothing is there if there was nothing to replace.
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a link leads to, which may be nothing yet: that is replaced, not the link.
///
/// Not by `canonicalize`, which frees memory that the C library allocated. Valkey from 8.1 on loads modules so that they
/// use the C library's own `free`, while the library itself may use the server's `malloc`: the server would abort.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as Linux follows, and one look more at what the last of them leads to.
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
            // A program of the same number may have been killed with one of that name.
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).expect("a folder");
            let file = path.join("file");
            Self { path, file }
        }

        fn replacement(&self) -> Replacement {
            Replacement::write(&self.file, b"ours").expect("a replacement")
        }

        /// As an editor does: another file is written, and takes the place.
        pub fn edit(&self, text: &str) {
            let edit = self.path.join("edit");
            fs::write(&edit, text).expect("written");
            fs::rename(&edit, &self.file).expect("renamed");
        }

        #[track_caller]
        pub fn holds_only(&self, text: &str) {
            // What is there instead may be long.
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
    fn only_a_file_that_is_known_is_replaced() {
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
        // Into the very file that takes the place, too.
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
    fn what_is_removed_meanwhile_is_not_lost_unless_it_was_known() {
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
    fn a_folder_that_has_taken_the_place_is_put_back() {
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
    fn where_nothing_is_only_nothing_is_replaced() {
        let folder = Folder::new("nothing");
        assert!(folder.replacement().create().expect("an answer"));
        folder.holds_only("ours");
        folder.edit("edited");
        assert!(!folder.replacement().create().expect("an answer"));
        folder.holds_only("edited");
    }

    #[test]
    fn where_files_cannot_change_places_only_a_known_one_is_replaced_too() {
        let folder = Folder::new("look");
        folder.edit("old");
        assert!(!folder.replacement().replace_after_a_look(|path| holds(path, "other")).expect("an answer"));
        folder.holds_only("old");
        assert!(folder.replacement().replace_after_a_look(|path| holds(path, "old")).expect("an answer"));
        folder.holds_only("ours");
    }
}
