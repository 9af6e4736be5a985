//! `scripts/test-servers` reports every server as passed, failed or skipped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Runs the script with servers that only print their version, and tests that fail on one of them. Returns whether it
/// succeeded, and its summary.
fn test_servers(folder: &Path, names: &[&str]) -> (bool, Vec<String>) {
    let cargo = folder.join("cargo");
    write_program(&cargo, "case $REDIS_SERVER in */valkey-8.0/*) exit 1 ;; esac");
    for (name, version) in
        [("redis-7.0", "7.0.15"), ("redis-8.0", "8.0.2"), ("valkey-8.0", "8.0.1"), ("valkey-9.1", "9.10.0")]
    {
        write_program(&folder.join(name).join("redis-server"), &format!("echo 'A server v={version} sha=0'"));
    }
    let mut script = Command::new(format!("{ROOT}/scripts/test-servers"));
    script.arg("Cargo.toml").args(names).current_dir(ROOT).env("SERVERS_DIR", folder).env("CARGO", cargo);
    let output = script.output().expect("a shell");
    let output_text = String::from_utf8(output.stdout).expect("text");
    let summary = output_text.lines().skip_while(|line| !line.starts_with("== passed:"));
    (output.status.success(), summary.map(str::to_owned).collect())
}

#[test]
fn each_server_is_counted_as_passed_failed_or_skipped() {
    // Not the folder for temporary files, which some machines mount without permission to execute.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scripts-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    let cases: [(&[&str], bool, &[&str]); 4] = [
        (
            &["redis-7.0", "redis-8.0"],
            true,
            &["== passed:  redis-7.0 redis-8.0", "servers: 2 passed, 0 failed, 0 skipped"],
        ),
        (
            &["redis-7.0", "valkey-8.0"],
            false,
            &["== passed:  redis-7.0", "== FAILED:  valkey-8.0", "servers: 1 passed, 1 failed, 0 skipped"],
        ),
        // Unknown servers.
        (
            &["redis-1.0", "redis-7.0"],
            true,
            &[
                "== passed:  redis-7.0",
                "== NOT TESTED, because not available: redis-1.0",
                "servers: 1 passed, 0 failed, 1 skipped",
            ],
        ),
        (
            &["redis-1.0"],
            false,
            &[
                "== passed:  none",
                "== NOT TESTED, because not available: redis-1.0",
                "servers: 0 passed, 0 failed, 1 skipped",
            ],
        ),
    ];
    for (names, succeeds, summary) in cases {
        let summary: Vec<_> = summary.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(test_servers(&folder, names), (succeeds, summary), "{names:?}");
    }
    // A server of another version than its name says is tested, and reported.
    let (succeeds, summary) = test_servers(&folder, &["valkey-9.1"]);
    assert!(succeeds);
    assert_eq!(summary[1], "== DIFFERENT VERSIONS: valkey-9.1 is 9.10.0");
    fs::remove_dir_all(folder).expect("removed");
}
