//! `RL.POLICY SAVE` replaces the policy file atomically, and only if its content is known.

use std::fs;
use std::os::unix::fs::{symlink, FileTypeExt, PermissionsExt};

use crate::common::policies::{policies, set_policies};
use crate::common::policy_file::{wait_for_checks, with_end, PolicyFile, NO_SUCH_FILE, REJECTED};
use crate::common::{eventually, Server};

const API: &str = "api TOKENBUCKET 100 10/s FIXEDWINDOW 1000 1d";
const LOGIN: &str = "login SLIDINGLOG 5 1m";
const OTHER: &str = "other LEAKYBUCKET 7 7/d";

#[test]
fn save_writes_the_policies_in_force() {
    let file = PolicyFile::new(&format!("# Policies\n{LOGIN}\n"));
    let link = file.folder.join("link").to_string_lossy().into_owned();
    symlink(&file.path, &link).expect("a link");
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o640)).expect("permissions");
    let mut server = Server::start(&["--ratelimit.policy-file", &link]);
    let mut client = server.connect();
    set_policies(&mut client, &[OTHER, "api tokenbucket 100 10/s fixedwindow 1000 1d"]);
    assert_eq!(client.get::<i64>("RL.POLICY DEL login"), 1);
    wait_for_checks(&mut client);
    assert_eq!(policies(&mut client), [API, OTHER], "an unchanged file is not read again");
    // A reader that has opened the file sees the complete old one, as the file is replaced.
    let before = fs::File::open(&file.path).expect("a file");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    assert_eq!(std::io::read_to_string(before).expect("a text"), format!("# Policies\n{LOGIN}\n"));
    assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{OTHER}\n"));
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(fs::metadata(&file.path).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(&file.folder).expect("files").count(), 2, "no temporary file is left");
    server.restart();
    let mut client = server.connect();
    assert_eq!(policies(&mut client), [API, OTHER]);

    fs::remove_dir_all(&file.folder).expect("removed");
    assert_eq!(client.error("RL.POLICY SAVE"), format!("ERR {link}: {NO_SUCH_FILE}"));
    assert_eq!(policies(&mut client), [API, OTHER]);
}

#[test]
fn save_does_not_overwrite_unread_edits() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    // The file has been edited, correctly or not, or just now.
    let problem = "changed since it was loaded; RL.POLICY LOAD loads it, and discards what was set since";
    for text in [LOGIN, "login SLIDINGLOG 5"] {
        // Just after a check, so that the next one is a second away. A busy machine may need several attempts.
        eventually("no check comes in between", || {
            let rejected = server.log().matches(REJECTED).count();
            let before = if policies(&mut client) == [API] { OTHER } else { API };
            file.replace(before);
            eventually("the file is read", || policies(&mut client) == [before]);
            file.replace(text);
            let reply = client.call("RL.POLICY SAVE");
            if policies(&mut client) != [before] || server.log().matches(REJECTED).count() > rejected {
                return false;
            }
            let error = reply.expect_err("an unread edit must not be overwritten");
            assert_eq!(error.detail(), Some(&*format!("{}: {problem}", file.path)));
            assert_eq!(fs::read_to_string(&file.path).expect("a text"), with_end(text));
            true
        });
    }
    eventually("the file is rejected", || server.log().contains(REJECTED));
    let problem = "changed since it was loaded, and is invalid; correct it, or remove it and save again";
    assert_eq!(client.error("RL.POLICY SAVE"), format!("ERR {}: {problem}", file.path));
    file.replace(API);
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    set_policies(&mut client, &[LOGIN]);
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    // A missing file is created.
    fs::remove_file(&file.path).expect("removed");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{LOGIN}\n"));
}

#[test]
fn save_does_not_replace_what_it_cannot_read() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    set_policies(&mut client, &[OTHER]);
    let rejected = |problem: &str| format!("ERR {}: {problem}; not overwritten", file.path);
    let large = format!("{LOGIN}\n{}\n", "#".repeat(16 << 20));
    file.replace(&large);
    for is_logged in [false, true] {
        if is_logged {
            eventually("the file is rejected", || server.log().contains(REJECTED));
        }
        assert_eq!(client.error("RL.POLICY SAVE"), rejected("too large for a policy file"));
        assert_eq!(fs::read_to_string(&file.path).expect("a text"), large);
    }
    // Nor anything but a regular file, directly or by a link.
    let (pipe, folder) = (file.folder.join("pipe"), file.folder.join("folder"));
    file.replace_by_pipe();
    fs::rename(&file.path, &pipe).expect("renamed");
    fs::create_dir(&folder).expect("a folder");
    for target in [&pipe, &folder] {
        symlink(target, &file.path).expect("a link");
        assert_eq!(client.error("RL.POLICY SAVE"), rejected("not a regular file"));
        assert_eq!(client.error("RL.POLICY LOAD"), format!("ERR {}: not a regular file; the policies stay", file.path));
        assert!(fs::symlink_metadata(&file.path).expect("a link").is_symlink());
        fs::remove_file(&file.path).expect("removed");
    }
    assert!(fs::symlink_metadata(&pipe).expect("a pipe").file_type().is_fifo());
    fs::rename(&pipe, &file.path).expect("renamed");
    assert_eq!(client.error("RL.POLICY SAVE"), rejected("not a regular file"));
    assert!(fs::symlink_metadata(&file.path).expect("a pipe").file_type().is_fifo());
    // A circular link cannot be read.
    fs::remove_file(&file.path).expect("removed");
    symlink(&file.path, &file.path).expect("a link");
    assert!(client.error("RL.POLICY SAVE").ends_with("not overwritten"));
    // Nothing is lost, and no other file is left.
    assert_eq!(policies(&mut client), [API, OTHER]);
    assert_eq!(fs::read_dir(&file.folder).expect("files").count(), 2);
    fs::remove_file(&file.path).expect("removed");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{OTHER}\n"));
}

#[test]
fn save_follows_links_to_a_missing_file() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    fs::remove_file(&file.path).expect("removed");
    fs::create_dir(file.folder.join("folder")).expect("a folder");
    symlink("folder/link", &file.path).expect("a link");
    symlink("file", file.folder.join("folder/link")).expect("a link");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    let written = file.folder.join("folder/file");
    assert!(fs::symlink_metadata(&written).expect("a file").is_file());
    assert_eq!(fs::read_to_string(&written).expect("a text"), format!("{API}\n"));
    assert!(fs::symlink_metadata(&file.path).expect("a link").is_symlink());
    // The most links that the system follows when it reads a file.
    let mut target = "folder/file".to_owned();
    for number in 0..40 {
        let link = format!("link{number}");
        symlink(&target, file.folder.join(&link)).expect("a link");
        target = link;
    }
    fs::rename(file.folder.join(target), &file.path).expect("renamed");
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
}
