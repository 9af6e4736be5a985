//! `RL.POLICY SAVE` writes the policy file: whole, and only over what it has read.

use std::fs;
use std::os::unix::fs::{symlink, FileTypeExt, PermissionsExt};

use crate::common::policies::{policies, set_policies};
use crate::common::policy_file::{wait_for_looks, with_end, PolicyFile, NO_SUCH_FILE, REFUSED};
use crate::common::{eventually, Server};

const API: &str = "api TOKENBUCKET 100 10/s FIXEDWINDOW 1000 1d";
const LOGIN: &str = "login SLIDINGLOG 5 1m";
const OTHER: &str = "other LEAKYBUCKET 7 7/d";

#[test]
fn save_writes_what_is_in_force() {
    let file = PolicyFile::new(&format!("# Policies\n{LOGIN}\n"));
    let link = file.folder.join("link").to_string_lossy().into_owned();
    symlink(&file.path, &link).expect("a link");
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o640)).expect("permissions");
    let mut server = Server::start(&["--ratelimit.policy-file", &link]);
    let mut client = server.connect();
    set_policies(&mut client, &[OTHER, "api tokenbucket 100 10/s fixedwindow 1000 1d"]);
    assert_eq!(client.get::<i64>("RL.POLICY DEL login"), 1);
    wait_for_looks(&mut client);
    assert_eq!(policies(&mut client), [API, OTHER], "a file that has not changed was read");
    // Whoever reads it meanwhile has the old one, whole: another is put in its place.
    let before = fs::File::open(&file.path).expect("a file");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    assert_eq!(std::io::read_to_string(before).expect("a text"), format!("# Policies\n{LOGIN}\n"));
    assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{OTHER}\n"));
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(fs::metadata(&file.path).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(&file.folder).expect("files").count(), 2, "something was left behind");
    server.restart();
    let mut client = server.connect();
    assert_eq!(policies(&mut client), [API, OTHER]);

    fs::remove_dir_all(&file.folder).expect("removed");
    assert_eq!(client.error("RL.POLICY SAVE"), format!("ERR {link}: {NO_SUCH_FILE}"));
    assert_eq!(policies(&mut client), [API, OTHER]);
}

#[test]
fn save_overwrites_nothing_that_it_has_not_read() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    // Somebody has edited it, well or badly, or just now.
    let problem = "changed since it was loaded; RL.POLICY LOAD loads it, and discards what was set since";
    for text in [LOGIN, "login SLIDINGLOG 5"] {
        // Just after a look, so that the next one is a second away. On a busy machine that may be too soon.
        eventually("nothing comes in between", || {
            let refused = server.log().matches(REFUSED).count();
            let before = if policies(&mut client) == [API] { OTHER } else { API };
            file.replace(before);
            eventually("it is looked at", || policies(&mut client) == [before]);
            file.replace(text);
            let reply = client.call("RL.POLICY SAVE");
            if policies(&mut client) != [before] || server.log().matches(REFUSED).count() > refused {
                return false;
            }
            let error = reply.expect_err("an edit that was not read is overwritten");
            assert_eq!(error.detail(), Some(&*format!("{}: {problem}", file.path)));
            assert_eq!(fs::read_to_string(&file.path).expect("a text"), with_end(text));
            true
        });
    }
    eventually("it is refused", || server.log().contains(REFUSED));
    let problem = "changed since it was loaded, and is invalid; correct it, or remove it and save again";
    assert_eq!(client.error("RL.POLICY SAVE"), format!("ERR {}: {problem}", file.path));
    file.replace(API);
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    set_policies(&mut client, &[LOGIN]);
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    // A file that is gone is made again.
    fs::remove_file(&file.path).expect("removed");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{LOGIN}\n"));
}

#[test]
fn save_replaces_nothing_that_it_could_not_read() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    set_policies(&mut client, &[OTHER]);
    let refused = |problem: &str| format!("ERR {}: {problem}; not overwritten", file.path);
    let large = format!("{LOGIN}\n{}\n", "#".repeat(16 << 20));
    file.replace(&large);
    for told in [false, true] {
        if told {
            eventually("it is refused", || server.log().contains(REFUSED));
        }
        assert_eq!(client.error("RL.POLICY SAVE"), refused("too large for a policy file"));
        assert_eq!(fs::read_to_string(&file.path).expect("a text"), large);
    }
    // Nor what is no file, be it named or linked to.
    let (pipe, folder) = (file.folder.join("pipe"), file.folder.join("folder"));
    file.replace_by_pipe();
    fs::rename(&file.path, &pipe).expect("renamed");
    fs::create_dir(&folder).expect("a folder");
    for target in [&pipe, &folder] {
        symlink(target, &file.path).expect("a link");
        assert_eq!(client.error("RL.POLICY SAVE"), refused("not a regular file"));
        assert_eq!(client.error("RL.POLICY LOAD"), format!("ERR {}: not a regular file; the policies stay", file.path));
        assert!(fs::symlink_metadata(&file.path).expect("a link").is_symlink());
        fs::remove_file(&file.path).expect("removed");
    }
    assert!(fs::symlink_metadata(&pipe).expect("a pipe").file_type().is_fifo());
    fs::rename(&pipe, &file.path).expect("renamed");
    assert_eq!(client.error("RL.POLICY SAVE"), refused("not a regular file"));
    assert!(fs::symlink_metadata(&file.path).expect("a pipe").file_type().is_fifo());
    // A link that leads in a circle leads to nothing that could be read.
    fs::remove_file(&file.path).expect("removed");
    symlink(&file.path, &file.path).expect("a link");
    assert!(client.error("RL.POLICY SAVE").ends_with("not overwritten"));
    // Nothing was lost, and nothing else is there.
    assert_eq!(policies(&mut client), [API, OTHER]);
    assert_eq!(fs::read_dir(&file.folder).expect("files").count(), 2);
    fs::remove_file(&file.path).expect("removed");
    assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
    assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{OTHER}\n"));
}

#[test]
fn save_follows_links_to_where_there_is_nothing_yet() {
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
    // As many links as the system follows when the file is read, if none is in the path of the folder.
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
