//! The configuration parameters: in the configuration file, at run time, as arguments of the module, and after
//! restarts.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, process};

use redis::Value;

use crate::common::policies::policies;
use crate::common::policy_file::PolicyFile;
use crate::common::{module, Client, Server};

const SWITCHED_OFF: &str = "ERR CL.THROTTLE is disabled, see ratelimit.cl-throttle";

/// The values of all parameters: `top-size`, `cl-throttle` and `policy-file`.
fn config(client: &mut Client) -> [String; 3] {
    let mut found: BTreeMap<String, String> = client.get("CONFIG GET ratelimit.*");
    let values = ["top-size", "cl-throttle", "policy-file"]
        .map(|name| found.remove(&format!("ratelimit.{name}")).unwrap_or_else(|| panic!("{name} in {found:?}")));
    assert!(found.is_empty(), "{found:?}");
    values
}

fn throttles(client: &mut Client) -> bool {
    client.call("CL.THROTTLE cell 15 30 60").is_ok()
}

#[test]
fn the_three_parameters_have_defaults() {
    let server = Server::start(&[]);
    assert_eq!(config(&mut server.connect()), ["100", "yes", ""]);
}

#[test]
fn top_size_can_be_changed_within_its_range() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for size in ["0", "1", "1000", "100"] {
        client.get::<()>(&format!("CONFIG SET ratelimit.top-size {size}"));
        assert_eq!(config(&mut client), [size, "yes", ""]);
    }
    for (bad, problem) in [
        ("-1", "argument must be between 0 and 1000 inclusive"),
        ("1001", "argument must be between 0 and 1000 inclusive"),
        ("x", "argument couldn't be parsed into an integer"),
    ] {
        let error = client.error(&format!("CONFIG SET ratelimit.top-size {bad}"));
        assert!(error.contains(problem), "{bad}: {error}");
    }
    assert_eq!(config(&mut client), ["100", "yes", ""]);
}

#[test]
fn cl_throttle_is_switched_off_and_on_again() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.limit("CL.THROTTLE cell 15 30 60")[..3], [0, 16, 15]);
    for _ in 0..2 {
        client.get::<()>("CONFIG SET ratelimit.cl-throttle no");
        assert_eq!(config(&mut client)[1], "no");
        assert_eq!(client.error("CL.THROTTLE cell 15 30 60"), SWITCHED_OFF);
        assert_eq!(client.error("CL.THROTTLE cell 15 30 60 0"), SWITCHED_OFF);
        client.get::<()>("CONFIG SET ratelimit.cl-throttle yes");
        assert_eq!(config(&mut client)[1], "yes");
    }
    assert_eq!(client.limit("CL.THROTTLE cell 15 30 60 3")[..3], [0, 16, 12], "the key keeps its state");
    assert!(client.error("CONFIG SET ratelimit.cl-throttle maybe").contains("argument must be 'yes' or 'no'"));
}

#[test]
fn the_path_of_the_policy_file_cannot_be_changed_at_run_time() {
    let file = PolicyFile::new("login SLIDINGLOG 5 1m");
    for server in [file.server(&[]), Server::start(&[])] {
        let mut client = server.connect();
        let before = config(&mut client);
        let error = client.error("CONFIG SET ratelimit.policy-file /elsewhere");
        assert!(error.contains("can't set immutable config"), "{error}");
        assert_eq!(config(&mut client), before);
    }
}

#[test]
fn cl_throttle_that_is_off_at_the_start_stays_off() {
    // As an argument of the module, or in the configuration.
    for start in [["cl-throttle", "no"], ["--ratelimit.cl-throttle", "no"]] {
        let server = Server::start(&start);
        let mut client = server.connect();
        assert!(client.error("CL.THROTTLE cell 15 30 60").to_lowercase().contains("unknown command"), "{start:?}");
        let names: Vec<String> = client.get("COMMAND LIST FILTERBY MODULE ratelimit");
        assert!(!names.iter().any(|name| name.to_uppercase().starts_with("CL.")), "{names:?}");
        let error = client.error("CONFIG SET ratelimit.cl-throttle yes");
        let problem =
            "CL.THROTTLE was disabled when the module was loaded, or belongs to another module; restart to enable it";
        assert!(error.ends_with(problem), "{error}");
        // No parameter of a command that fails is set.
        client.error("CONFIG SET ratelimit.top-size 5 ratelimit.cl-throttle yes");
        assert_eq!(config(&mut client), ["100", "no", ""]);
        client.get::<()>("CONFIG SET ratelimit.cl-throttle no");
        assert_eq!(client.limit("RL.TOKENBUCKET bucket 10 1/h")[..3], [1, 10, 9]);
    }
}

#[test]
fn a_rewritten_configuration_keeps_the_parameters() {
    let file = PolicyFile::new("login SLIDINGLOG 5 1m");
    let named = format!("ratelimit.policy-file \"{}\"\n", file.path);
    for (text, start) in [
        ("loadmodule {module}\n", ["100", "yes", ""]),
        ("loadmodule {module} top-size 50\n", ["50", "yes", ""]),
        ("loadmodule {module} top-size 50\nratelimit.top-size 60\n", ["60", "yes", ""]),
        (&format!("loadmodule {{module}}\n{named}ratelimit.top-size 0\n"), ["0", "yes", &file.path]),
    ] {
        let mut server = Server::with_configuration(text);
        let mut client = server.connect();
        assert_eq!(config(&mut client), start, "{text}");
        // The present values, then the defaults, then others.
        for (size, throttle) in [(start[0], "yes"), ("100", "yes"), ("7", "no")] {
            client.get::<()>(&format!("CONFIG SET ratelimit.top-size {size} ratelimit.cl-throttle {throttle}"));
            client.get::<()>("CONFIG REWRITE");
            server.restart();
            client = server.connect();
            assert_eq!(config(&mut client), [size, throttle, start[2]], "{text}");
            assert_eq!(throttles(&mut client), throttle == "yes", "{text}");
            assert_eq!(policies(&mut client).len(), usize::from(!start[2].is_empty()), "{text}");
        }
    }
}

#[test]
fn an_included_file_may_set_parameters_before_or_after_loadmodule() {
    let included = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("included-{}.conf", process::id()));
    fs::write(&included, "ratelimit.top-size 7\nratelimit.cl-throttle no\n").expect("written");
    let include = format!("include {}\n", included.display());
    for text in [format!("loadmodule {{module}}\n{include}"), format!("{include}loadmodule {{module}}\n")] {
        let mut server = Server::with_configuration(&text);
        // The rewritten configuration also has them in the main file.
        for _ in 0..2 {
            let mut client = server.connect();
            assert_eq!(config(&mut client), ["7", "no", ""], "{text}");
            client.get::<()>("CONFIG REWRITE");
            server.restart();
        }
    }
    fs::remove_file(included).expect("removed");
}

#[test]
fn an_included_file_with_loadmodule_breaks_a_rewritten_configuration() {
    let included = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("loading-{}.conf", process::id()));
    fs::write(&included, format!("loadmodule {}\n", module().display())).expect("written");
    let mut server = Server::with_configuration(&format!("include {}\n", included.display()));
    assert!(server.try_restart());
    server.connect().get::<()>("CONFIG REWRITE");
    assert!(!server.try_restart(), "the module must be loaded twice, as the README says");
    assert!(server.log().contains("a module named ratelimit is loaded already"), "{}", server.log());
    fs::remove_file(included).expect("removed");
}

#[test]
fn arguments_of_the_module_are_defaults_for_the_configuration() {
    let file = PolicyFile::new("login SLIDINGLOG 5 1m");
    for (arguments, expected) in [
        (&["top-size", "50"][..], ["50", "yes", ""]),
        (&["ratelimit.top-size", "0", "ratelimit.cl-throttle", "NO"], ["0", "no", ""]),
        (&["Top-Size", "1000", "CL-Throttle", "Yes"], ["1000", "yes", ""]),
        (&["cl-throttle", "no", "policy-file", &file.path, "top-size", "7"], ["7", "no", &file.path]),
        (&["top-size", "50", "top-size", "51"], ["51", "yes", ""]),
        (&["top-size", "50", "--ratelimit.top-size", "60"], ["60", "yes", ""]),
        (&["cl-throttle", "no", "--ratelimit.cl-throttle", "yes"], ["100", "yes", ""]),
        (&["policy-file", "/nowhere", "--ratelimit.policy-file", &file.path], ["100", "yes", &file.path]),
    ] {
        let server = Server::start(arguments);
        let mut client = server.connect();
        assert_eq!(config(&mut client), expected, "{arguments:?}");
        assert_eq!(throttles(&mut client), expected[1] == "yes", "{arguments:?}");
    }
}

#[test]
fn errors_of_bad_arguments_say_what_is_expected() {
    let unknown = "expected policy-file, top-size or cl-throttle, and a value";
    for (arguments, problem) in [
        (&["nonsense"][..], format!("unknown argument 'nonsense': {unknown}")),
        (&["top-size", "5", "nonsense", "1"], format!("unknown argument 'nonsense': {unknown}")),
        (&["other.top-size", "5"], format!("unknown argument 'other.top-size': {unknown}")),
        (&["top-size"], "the argument 'top-size' requires a value".to_owned()),
        (&["cl-throttle", "no", "policy-file"], "the argument 'policy-file' requires a value".to_owned()),
        (&["top-size", "x"], "invalid 'top-size' 'x': expected an integer from 0 to 1000".to_owned()),
        (&["top-size", "1001"], "invalid 'top-size' '1001': expected an integer from 0 to 1000".to_owned()),
        (
            &["ratelimit.top-size", "1.5"],
            "invalid 'ratelimit.top-size' '1.5': expected an integer from 0 to 1000".to_owned(),
        ),
        (&["cl-throttle", "1"], "invalid 'cl-throttle' '1': expected yes or no".to_owned()),
    ] {
        let log = Server::refuses_to_start(arguments, &[]);
        assert!(log.contains(&format!("redis-ratelimit cannot be loaded: {problem}")), "{arguments:?}: {log}");
    }
}

#[test]
fn module_loadex_sets_parameters() {
    let file = PolicyFile::new("login SLIDINGLOG 5 1m");
    for (more, expected) in [
        ("CONFIG ratelimit.top-size 7".to_owned(), ["7", "yes", ""]),
        ("CONFIG ratelimit.cl-throttle no ARGS top-size 9".to_owned(), ["9", "no", ""]),
        (format!("CONFIG ratelimit.top-size 7 CONFIG ratelimit.policy-file {}", file.path), ["7", "yes", &file.path]),
        ("CONFIG ratelimit.top-size 7 ARGS top-size 9 cl-throttle no".to_owned(), ["7", "no", ""]),
    ] {
        let server = Server::without_module();
        let mut client = server.connect();
        client.get::<Value>(&format!("MODULE LOADEX {} {more}", module().display()));
        assert_eq!(config(&mut client), expected, "{more}");
        assert_eq!(throttles(&mut client), expected[1] == "yes", "{more}");
        client.get::<()>("CONFIG SET ratelimit.top-size 8");
        assert_eq!(config(&mut client)[0], "8");
    }
}
