//! The policy file: it takes the place of saved and replicated policies, like an ACL file.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use redis::Value;

use crate::common::policies::{policies, set_policies};
use crate::common::policy_file::{wait_for_checks, PolicyFile, NO_SUCH_FILE, REJECTED};
use crate::common::replicas::{attach, catch_up};
use crate::common::{eventually, module, Server, START};

const API: &str = "api TOKENBUCKET 100 10/s FIXEDWINDOW 1000 1d";
const LOGIN: &str = "login SLIDINGLOG 5 1m";
const OTHER: &str = "other LEAKYBUCKET 7 7/d";

#[test]
fn a_file_has_one_policy_a_line() {
    let text = format!("# Policies\r\n\r\n{API} # for all\r\n\t login  slidinglog\t5 1m \n\n#{OTHER}");
    let file = PolicyFile::new(&text);
    let server = file.server(&[]);
    let mut client = server.connect();
    assert_eq!(policies(&mut client), [API, LOGIN]);
    assert_eq!(client.get::<Vec<Value>>("RL.CHECK api key COST 101")[0], Value::Int(0));
    assert_eq!(client.get::<Vec<Value>>("RL.CHECK api key COST 100")[0], Value::Int(1));
    assert_eq!(client.error("RL.CHECK other key"), "ERR unknown policy 'other', known policies: api, login");
    // An empty file has no policies.
    file.write("");
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    assert_eq!(policies(&mut client), Vec::<String>::new());
    let server = file.server(&[]);
    assert_eq!(policies(&mut server.connect()), Vec::<String>::new());
}

#[test]
fn the_example_file_matches_its_comments() {
    let example = format!("{}/examples/policies.conf", env!("CARGO_MANIFEST_DIR"));
    let server = Server::with_clock(&["--ratelimit.policy-file", &example]);
    let mut client = server.connect();
    // How many requests are allowed at once, and after how many seconds the next one is.
    for (policy, at_once, next_after) in [
        ("default", 10, 1),
        ("default-strict", 10, 60),
        ("post", 2, 1),
        ("signup", 10, 86_400),
        ("reward", 5, 7 * 86_400),
        ("login", 5, 900),
        ("payment", 3, 60),
    ] {
        let mut ask = || client.get::<Vec<Value>>(&format!("RL.CHECK {policy} {policy}:42"))[..2].to_vec();
        for _ in 0..at_once {
            assert_eq!(ask()[0], Value::Int(1), "{policy}");
        }
        assert_eq!(ask(), [Value::Int(0), Value::Int(next_after * 1_000)], "{policy}");
    }
    for (policy, limit, daily) in [("api-free", 20, 1_000), ("api-pro", 200, 100_000), ("mail", 100, 50_000)] {
        let (_, _, burst, day): (i64, i64, Vec<i64>, Vec<i64>) = client.get(&format!("RL.CHECK {policy} {policy}:42"));
        assert_eq!((burst[1], day[1]), (limit, daily), "{policy}");
    }
    let names: Vec<String> = client.get("RL.POLICY LIST");
    assert_eq!(names.len(), 11, "all policies are tested");
    let settled: (i64, i64, Vec<i64>, Vec<i64>) = client.get("RL.CHECK llm-tokens llm:42 COST 4000");
    assert_eq!((settled.0, settled.2[2], settled.3[2]), (1, 96_000, 1_996_000));
    let settled: (i64, i64, Vec<i64>, Vec<i64>) = client.get("RL.REFUND llm:42 1250");
    assert_eq!((settled.2[2], settled.3[2]), (97_250, 1_997_250));
}

#[test]
fn the_path_is_set_in_the_configuration_or_as_an_argument_of_the_module() {
    let file = PolicyFile::new(API);
    let configuration = file.folder.join("more.conf");
    fs::write(&configuration, format!("ratelimit.policy-file \"{}\"\n", file.path)).expect("written");
    let included = configuration.to_string_lossy();
    // The test server passes arguments to the module.
    for settings in [file.setting(), ["--include", &included], ["policy-file", &file.path]] {
        let server = Server::start(&settings);
        let mut client = server.connect();
        assert_eq!(policies(&mut client), [API], "{settings:?}");
        let setting: [String; 2] = client.get("CONFIG GET ratelimit.policy-file");
        assert_eq!(setting, ["ratelimit.policy-file", &file.path], "{settings:?}");
        let error = client.error(&format!("CONFIG SET ratelimit.policy-file {included}"));
        assert!(error.contains("can't set immutable config"), "{error}");
        set_policies(&mut client, &[LOGIN]);
        assert_eq!(client.get::<String>("RL.POLICY SAVE"), "OK");
        assert_eq!(fs::read_to_string(&file.path).expect("a text"), format!("{API}\n{LOGIN}\n"), "{settings:?}");
        file.write(API);
    }
    // A path may be relative to the server's folder.
    let relative = ["--ratelimit.policy-file", "policies.conf", "--dir", file.folder.to_str().expect("a path")];
    assert_eq!(policies(&mut Server::start(&relative).connect()), [API]);
    let server = Server::start(&[]);
    assert_eq!(server.connect().get::<[String; 2]>("CONFIG GET ratelimit.policy-file")[1], "");
}

#[test]
fn a_server_does_not_start_with_an_invalid_or_missing_file() {
    let file = PolicyFile::new("");
    let reason = |arguments: &[&str]| Server::refuses_to_start(arguments, &[]);
    for (text, problem) in [
        (format!("{API}\n\n# more\nlogin SLIDINGLOG 5"), "line 4: limit 1 is incomplete: expected ALGORITHM a b"),
        (format!("{API}\r\nlogin\r\n"), "line 2: a policy requires at least one limit: ALGORITHM a b"),
        (format!("{LOGIN} FIXEDWINDOW 0 1d"), "line 1: limit 2: invalid limit '0': expected an integer"),
        (format!("lo!gin {API}"), "line 1: invalid name 'lo!gin': expected up to 128 letters"),
        (format!("{LOGIN}\n{API}\n{LOGIN}"), "line 3: duplicate policy 'login'"),
    ] {
        file.write(&text);
        let (log, path) = (reason(&file.setting()), &file.path);
        assert!(log.contains(&format!("redis-ratelimit cannot be loaded: {path}: {problem}")), "{problem}:\n{log}");
    }
    fs::remove_file(&file.path).expect("removed");
    let rejected = |problem: &str| {
        for settings in [file.setting(), ["policy-file", &file.path]] {
            let (log, path) = (reason(&settings), &file.path);
            assert!(log.contains(&format!("redis-ratelimit cannot be loaded: {path}: {problem}")), "{log}");
        }
    };
    rejected(NO_SUCH_FILE);
    file.replace_by_pipe();
    rejected("not a regular file");
    fs::remove_file(&file.path).expect("removed");
    fs::create_dir(&file.path).expect("a folder");
    rejected("not a regular file");
    assert!(reason(&["policy-file"])
        .contains("redis-ratelimit cannot be loaded: the argument 'policy-file' requires a value"));
    let log = reason(&["policy-file", &file.path, "more"]);
    assert!(log.contains("redis-ratelimit cannot be loaded: unknown argument 'more': expected"), "{log}");
}

#[test]
fn a_running_server_works_on_if_the_module_rejects_the_file() {
    let file = PolicyFile::new("nonsense");
    let mut server = Server::without_module();
    let mut client = server.connect();
    let load = format!("MODULE LOAD {} policy-file {}", module().display(), file.path);
    assert!(client.call(&load).is_err());
    assert!(server
        .log()
        .contains(&format!("cannot be loaded: {}: line 1: a policy requires at least one limit", file.path)));
    assert_eq!(client.get::<Vec<String>>("CONFIG GET ratelimit.*"), Vec::<String>::new());
    client.get::<()>("DEBUG RELOAD");
    file.write(API);
    client.get::<()>(&load);
    assert_eq!(policies(&mut client), [API]);
    assert!(server.is_running());
}

#[test]
fn a_change_is_noticed_and_an_invalid_file_is_logged_once() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    let mut expect = |expected: &[&str]| {
        eventually("the change is noticed", || policies(&mut client) == expected);
    };
    file.write(&[API, LOGIN].join("\n"));
    expect(&[API, LOGIN]);
    file.replace(LOGIN);
    expect(&[LOGIN]);
    // The same size, and an older file, are changes too.
    file.write(&LOGIN.replace('5', "6"));
    expect(&["login SLIDINGLOG 6 1m"]);
    let old = file.folder.join("old");
    assert!(Command::new("touch").args(["-d", "2001-01-01"]).arg(&old).status().expect("a program").success());
    fs::rename(old, &file.path).expect("renamed");
    expect(&[]);
    file.write(LOGIN);
    expect(&[LOGIN]);

    file.replace(&format!("{API}\n{OTHER} and more"));
    eventually("the file is rejected", || server.log().contains(REJECTED));
    let mut client = server.connect();
    wait_for_checks(&mut client);
    assert_eq!(policies(&mut client), [LOGIN]);
    file.write(OTHER);
    eventually("the change is noticed", || policies(&mut client) == [OTHER]);
    let log = server.log();
    let problem = format!("{REJECTED}: {}: line 2: limit 2 is incomplete: expected ALGORITHM a b\n", file.path);
    assert_eq!((log.matches(REJECTED).count(), log.matches(&problem).count()), (1, 1), "{log}");
    assert_eq!(log.matches("redis-ratelimit: reloaded the policy file, 2 policies").count(), 1, "{log}");
}

#[test]
fn policies_stay_when_the_file_is_removed() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    for (number, problem) in [NO_SUCH_FILE, "not a regular file"].iter().enumerate() {
        if number == 0 {
            fs::remove_file(&file.path).expect("removed");
        } else {
            file.replace_by_pipe();
        }
        eventually("it is logged", || server.log().contains(&format!("{REJECTED}: {}: {problem}", file.path)));
        wait_for_checks(&mut client);
        assert_eq!(policies(&mut client), [API]);
        assert_eq!(server.log().matches(REJECTED).count(), 1 + number, "{}", server.log());
        let error = client.error("RL.POLICY LOAD");
        assert_eq!(error, format!("ERR {}: {problem}; the policies stay", file.path));
        file.replace(LOGIN);
        eventually("the file is read again", || policies(&mut client) == [LOGIN]);
        file.replace(API);
        eventually("it changes", || policies(&mut client) == [API]);
    }
}

#[test]
fn a_removed_file_may_come_back_empty_or_unchanged() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    let rejections = || server.log().matches(REJECTED).count();
    // Once the file can be read, earlier problems do not matter.
    for (number, (text, expected)) in [("", &[][..]), (API, &[API]), (API, &[API]), ("", &[])].into_iter().enumerate() {
        fs::remove_file(&file.path).expect("removed");
        eventually("it is missed", || rejections() == number + 1);
        let changes = server.log().matches("reloaded the policy file").count();
        file.replace(text);
        eventually("the file is read again", || {
            server.log().matches("reloaded the policy file").count() == changes + 1
        });
        assert_eq!(policies(&mut client), expected);
    }
}

#[test]
fn a_different_problem_is_logged_too() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let problems = [
        ("line 1: a policy requires at least one limit", "nonsense".to_owned()),
        (NO_SUCH_FILE, String::new()),
        ("not a regular file", String::new()),
        ("too large for a policy file", "#".repeat(16 << 20)),
        ("line 2: duplicate policy 'api'", [API, API].join("\n")),
        (NO_SUCH_FILE, String::new()),
    ];
    for (number, (problem, text)) in problems.iter().enumerate() {
        match *problem {
            NO_SUCH_FILE => fs::remove_file(&file.path).expect("removed"),
            "not a regular file" => file.replace_by_pipe(),
            _ => file.replace(text),
        }
        let logged = format!("{REJECTED}: {}: {problem}", file.path);
        eventually(problem, || server.log().lines().filter(|line| line.contains(REJECTED)).count() == number + 1);
        assert!(server.log().lines().rfind(|line| line.contains(REJECTED)).expect("a line").contains(&logged));
        assert_eq!(policies(&mut server.connect()), [API]);
    }
}

#[test]
fn a_file_is_read_once_it_can_be_opened_again() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    // Only the three standard streams.
    let before = limit_open_files(&server, 3);
    file.replace(LOGIN);
    assert!(client.error("RL.POLICY LOAD").contains("Too many open files"));
    wait_for_checks(&mut client);
    assert_eq!(policies(&mut client), [API]);
    limit_open_files(&server, before);
    eventually("it is read", || policies(&mut client) == [LOGIN]);
}

/// Sets the server's limit of open files, and returns the former limit.
fn limit_open_files(server: &Server, count: u64) -> u64 {
    let pid = i32::try_from(server.pid()).expect("a process");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: system calls that write and read what is here.
    unsafe {
        assert_eq!(libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit), 0);
        let new = libc::rlimit { rlim_cur: count, ..limit };
        assert_eq!(libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const new, std::ptr::null_mut()), 0);
    }
    limit.rlim_cur
}

#[test]
fn a_problem_that_load_finds_first_is_logged_once() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    let logged = || server.log().lines().filter(|line| line.contains(REJECTED)).map(str::to_owned).collect::<Vec<_>>();
    for (number, (text, problem)) in
        [("nonsense", "line 1: a policy requires at least one limit"), ("lo!gin", "line 1: invalid name")]
            .into_iter()
            .enumerate()
    {
        file.replace(text);
        for _ in 0..2 {
            assert!(client.error("RL.POLICY LOAD").contains(problem));
        }
        eventually(problem, || logged().len() == number + 1);
        assert!(logged()[number].contains(problem), "{:?}", logged());
        // Only once, however often the file is read.
        assert!(client.error("RL.POLICY LOAD").contains(problem));
        wait_for_checks(&mut client);
        assert_eq!(logged().len(), number + 1, "{:?}", logged());
    }
    assert_eq!(policies(&mut client), [API]);
}

#[test]
fn a_file_that_is_empty_while_it_is_written_is_not_used() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    let start = Instant::now();
    fs::write(&file.path, "").expect("written");
    let mut seen = Vec::new();
    while start.elapsed() < Duration::from_millis(1_400) {
        seen.push(policies(&mut client));
    }
    // On a very busy machine the file may be unchanged for long enough.
    if start.elapsed() < Duration::from_millis(1_900) {
        assert!(seen.iter().all(|seen| *seen == [API]), "an empty file must not be used at once");
    }
    eventually("a file that stays empty is used", || policies(&mut client).is_empty());
}

#[test]
fn the_file_is_checked_every_second_whatever_the_clock_does() {
    let file = PolicyFile::new(API);
    let mut server = Server::with_clock(&file.setting());
    let mut client = server.connect();
    for (number, now) in [START, START - 60_000_000, 0, START + 3_600_000_000, START].into_iter().enumerate() {
        server.clock().set(now);
        let mut quickest = Duration::MAX;
        for change in 0..3 {
            let policy = format!("api FIXEDWINDOW {} 1h", number * 3 + change + 1);
            file.replace(&policy);
            let start = Instant::now();
            eventually("the change is noticed", || policies(&mut client) == [&*policy]);
            quickest = quickest.min(start.elapsed());
        }
        // A busy machine may delay some of them.
        assert!(quickest < Duration::from_secs(3), "only after {quickest:?} at {now}");
    }
}

#[test]
fn load_reads_the_file_at_once_and_entirely_or_not_at_all() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    file.replace(&[LOGIN, OTHER].join("\n"));
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    assert_eq!(policies(&mut client), [LOGIN, OTHER]);
    for (text, problem) in [
        (format!("{API}\n{LOGIN}\nother FIXEDWINDOW 7"), "line 3: limit 1 is incomplete: expected ALGORITHM a b"),
        (format!("{API}\n{API}"), "line 2: duplicate policy 'api'"),
        ("#".repeat(16 << 20), "too large for a policy file"),
    ] {
        file.replace(&text);
        let error = client.error("RL.POLICY LOAD");
        assert_eq!(error, format!("ERR {}: {problem}; the policies stay", file.path));
        assert_eq!(policies(&mut client), [LOGIN, OTHER]);
    }
    // The largest file.
    file.replace(&format!("{API}\n{}\n", "#".repeat((16 << 20) - API.len() - 2)));
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    assert_eq!(policies(&mut client), [API]);
    // Policies that were set are gone once the file is read, even if it is unchanged.
    set_policies(&mut client, &[OTHER]);
    client.get::<()>("RL.POLICY DEL api");
    assert_eq!(client.get::<String>("RL.POLICY LOAD"), "OK");
    assert_eq!(policies(&mut client), [API]);
}

#[test]
fn a_last_line_without_an_end_is_not_used_at_once() {
    let file = PolicyFile::new(API);
    let server = file.server(&[]);
    let mut client = server.connect();
    let complete = "login SLIDINGLOG 5 10d";
    let mut tries = 0;
    loop {
        tries += 1;
        let start = Instant::now();
        fs::write(&file.path, &complete[..complete.len() - 2]).expect("written");
        let mut seen = Vec::new();
        while start.elapsed() < Duration::from_millis(1_400) {
            seen.push(policies(&mut client));
        }
        file.write(complete);
        // On a very busy machine the file may be unchanged for long enough.
        if start.elapsed() < Duration::from_millis(1_900) {
            assert!(seen.iter().all(|seen| *seen != ["login SLIDINGLOG 5 1"]), "a partial line must not be used");
            break;
        }
        assert!(tries < 20, "too busy");
    }
    eventually("the complete line is used", || policies(&mut client) == [complete]);
    fs::write(&file.path, LOGIN).expect("written");
    eventually("a line that stays without an end is used too", || policies(&mut client) == [LOGIN]);
}

#[test]
fn with_a_file_saved_policies_are_ignored() {
    for appendonly in ["no", "yes"] {
        let settings = ["--appendonly", appendonly, "--aof-use-rdb-preamble", "no"];
        let mut server = Server::start(&settings);
        let mut client = server.connect();
        set_policies(&mut client, &[OTHER, "api FIXEDWINDOW 1 1h"]);
        client.get::<()>("RL.CHECK other key");
        client.get::<()>("SAVE");
        let file = PolicyFile::new(&[API, LOGIN].join("\n"));
        server.set(&[&file.setting(), &settings[..]].concat());
        server.restart();
        let mut client = server.connect();
        assert_eq!(client.get::<i64>("EXISTS key"), 1);
        assert_eq!(policies(&mut client), [API, LOGIN], "appendonly {appendonly}");
        let loading = if appendonly == "yes" { "DEBUG LOADAOF" } else { "DEBUG RELOAD" };
        set_policies(&mut client, &["mine FIXEDWINDOW 1 1h"]);
        client.get::<()>(loading);
        assert_eq!(policies(&mut client), [API, LOGIN, "mine FIXEDWINDOW 1 1h"], "{loading}");
    }
}

#[test]
fn with_a_file_policies_are_not_saved() {
    for preamble in ["yes", "no"] {
        let file = PolicyFile::new(API);
        let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
        let mut server = file.server(&settings);
        for rewrite in [false, true] {
            let mut client = server.connect();
            set_policies(&mut client, &[LOGIN, OTHER]);
            client.get::<()>("RL.POLICY DEL other");
            client.get::<()>("SET key value");
            if rewrite {
                client.get::<()>("BGREWRITEAOF");
                client.wait_for_files();
            }
            client.get::<()>("SAVE");
            for appendonly in ["no", "yes"] {
                server.set(&["--appendonly", appendonly]);
                server.restart();
                let mut client = server.connect();
                assert_eq!(client.get::<i64>("EXISTS key"), 1, "appendonly {appendonly}");
                assert_eq!(policies(&mut client), Vec::<String>::new(), "appendonly {appendonly}, {preamble}");
            }
            server.set(&[&file.setting(), &settings[..]].concat());
            server.restart();
            assert_eq!(policies(&mut server.connect()), [API], "policies that were set are not saved");
        }
    }
}

#[test]
fn with_a_file_policies_are_not_replicated() {
    let file = PolicyFile::new(API);
    for load in ["disabled", "swapdb"] {
        let in_a_file = file.server(&["--repl-diskless-load", load, "--repl-diskless-sync-delay", "0"]);
        let as_data = Server::start(&["--repl-diskless-load", load, "--repl-diskless-sync-delay", "0"]);
        let (mut ours, mut theirs) = (in_a_file.connect(), as_data.connect());
        set_policies(&mut theirs, &[LOGIN]);
        // A replica with a file gets no policies, by the sync or later.
        attach(&in_a_file, &as_data);
        assert_eq!(policies(&mut ours), [API], "load {load}");
        for command in ["MULTI", "RL.POLICY SET api FIXEDWINDOW 1 1h", "RL.POLICY DEL api", "SET key value", "EXEC"] {
            theirs.get::<()>(command);
        }
        set_policies(&mut theirs, &[OTHER]);
        catch_up(&mut theirs, &mut ours);
        assert_eq!(ours.get::<i64>("EXISTS key"), 1);
        assert_eq!(policies(&mut ours), [API], "load {load}");
        assert!(ours.error("RL.POLICY DEL api").starts_with("READONLY"));
        // The replica of a primary with a file loses its policies by the sync, and gets none.
        ours.get::<()>("REPLICAOF NO ONE");
        let fresh = Server::start(&["--repl-diskless-load", load]);
        set_policies(&mut fresh.connect(), &[OTHER]);
        let mut follower = attach(&fresh, &in_a_file);
        assert_eq!(policies(&mut follower), Vec::<String>::new(), "load {load}");
        set_policies(&mut ours, &["mine FIXEDWINDOW 1 1h"]);
        ours.get::<()>("SET more value");
        catch_up(&mut ours, &mut follower);
        assert_eq!(follower.get::<i64>("EXISTS more"), 1);
        assert_eq!(policies(&mut follower), Vec::<String>::new(), "load {load}");
    }
}
