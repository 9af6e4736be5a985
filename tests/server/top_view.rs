//! The live view (`make top`) in a real terminal: its content, and the restored terminal afterwards.

// These modules have tests that need no terminal. They run here, because cargo would otherwise build the example as a
// test instead of the program that the tests below start.
#[path = "../../examples/top/rates.rs"]
mod rates;
#[path = "../../examples/top/sample.rs"]
mod sample;
#[path = "../../examples/top/view.rs"]
mod view;
#[path = "../../examples/top/watch.rs"]
mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use redis::Value;

use crate::common::load::under_load;
use crate::common::policies::set_policies;
use crate::common::{eventually, spawn, Client, Server};

/// The example program that cargo has just built.
fn program() -> PathBuf {
    let tests = env::current_exe().expect("a path");
    let program = tests.parent().and_then(Path::parent).expect("a folder").join("examples/top");
    assert!(program.exists(), "{} is not built: run `cargo build --examples` first", program.display());
    program
}

/// A terminal of 100 columns and 30 rows, in which a shell runs the program and prints its exit status.
struct Terminal {
    tmux: Child,
    /// The socket of tmux, and the prefix of other files.
    socket: PathBuf,
}

impl Terminal {
    /// Runs the program with this address; files are in the server's folder.
    fn watch(server: &Server, address: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let socket = server.folder().join(format!("tmux{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let name = |extension| socket.with_extension(extension).display().to_string();
        let [script, settings, pid] = ["sh", "conf", "pid"].map(name);
        let program = program();
        let lines = [
            "before=$(stty -g); echo before".to_owned(),
            format!("sh -c 'echo $$ >{pid}; exec \"$0\" \"$1\"' '{}' '{address}'", program.display()),
            "status=$?; [ \"$before\" = \"$(stty -g)\" ] || echo 'the terminal is not restored'".to_owned(),
            "echo \"ended with $status\"".to_owned(),
            // Keeps the screen.
            "exec cat".to_owned(),
        ];
        fs::write(&script, lines.join("\n")).expect("a script");
        fs::write(&settings, format!("new-session -d -x 100 -y 30 'sh {script}'\n")).expect("settings");
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(["-D", "-u", "-f", &settings]);
        command.env_remove("TMUX").env("SHELL", "/bin/sh").stdout(Stdio::null());
        Self { tmux: spawn(&mut command).expect("tmux; `make test` installs it"), socket }
    }

    /// Runs the program with a server, and waits until it shows something.
    fn watching(server: &Server) -> Self {
        let terminal = Self::watch(server, &format!("127.0.0.1:{}", server.port));
        terminal.wait_for("ALGORITHM");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let output = command.arg("-S").arg(&self.socket).args(args).env_remove("TMUX").output().expect("tmux");
        String::from_utf8(output.stdout).expect("text")
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn resize(&self, width: u32, height: u32) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// A property of the terminal, by tmux.
    fn property(&self, name: &str) -> String {
        self.tmux(&["display-message", "-p", &format!("#{{{name}}}")]).trim_end().to_owned()
    }

    fn wait_for(&self, text: &str) {
        eventually(text, || self.screen().contains(text));
    }

    fn shows_row(&self, name: &str, row: [&str; 3]) -> bool {
        find_row(&self.screen(), name).is_some_and(|shown| shown == row)
    }

    /// Waits until the program has ended with this status, and checks the restored terminal.
    fn has_ended_with(&self, status: u8) {
        self.wait_for(&format!("ended with {status}"));
        let screen = self.screen();
        assert!(screen.starts_with("before\n") && !screen.contains("ALGORITHM"), "{screen}");
        assert!(!screen.contains("not restored"), "{screen}");
        let properties = ["alternate_on", "cursor_flag", "wrap_flag"].map(|name| self.property(name));
        assert_eq!(properties, ["0", "1", "1"]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the terminal:\n{}", self.screen());
        }
        // The program ends as if the window were closed.
        let _ = self.tmux.kill();
        let _ = self.tmux.wait();
    }
}

/// The row of this name: allowed and denied requests per second, and keys. `None` if it is not shown or has no rates
/// yet.
fn find_row<'a>(screen: &'a str, name: &str) -> Option<[&'a str; 3]> {
    let row = screen.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    let words: Vec<&str> = row.split_whitespace().collect();
    words.try_into().ok().filter(|words: &[&str; 3]| words[0] != "-")
}

/// Sends a request that is allowed, and two that are denied, one of them by a policy.
fn requests(client: &mut Client) {
    client.limit("RL.LEAKYBUCKET queue 1000000 1000/d");
    client.limit("RL.TOKENBUCKET user:42 1 1/d");
    client.get::<Value>("RL.CHECK login bob");
    thread::sleep(Duration::from_millis(5));
}

#[test]
fn it_shows_current_rates_keys_and_denied_keys() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    set_policies(&mut client, &["login SLIDINGLOG 1 1d", "quiet SLIDINGLOG 1 1d"]);
    let terminal = Terminal::watching(&server);
    terminal.wait_for(" none");
    let busy = || {
        let screen = terminal.screen();
        let rows = ["LEAKYBUCKET", "TOKENBUCKET", "login"].map(|name| find_row(&screen, name));
        let [Some([allowed, zero, one]), Some([nil, denied, single]), Some([none, rejected, sole])] = rows else {
            return false;
        };
        let steady = [zero, nil, none] == ["0"; 3] && [one, single, sole] == ["1"; 3];
        // A row that is not a number is half drawn.
        let [allowed, denied, rejected] = [allowed, denied, rejected].map(|rate| rate.parse().unwrap_or(f64::NAN));
        // The rates are equal, except for a request in flight, and bounded by the pauses.
        let alike = (allowed - denied).abs() <= 2.0 && (rejected - denied).abs() <= 2.0;
        steady && alike && allowed > 0.0 && allowed <= 200.0 && find_row(&screen, "quiet") == Some(["0"; 3])
    };
    under_load(&server, 1, |_| requests, || eventually("the rates are shown", busy));
    eventually("the denied keys are shown", || {
        let top: HashMap<String, HashMap<String, Value>> = client.get("RL.TOP");
        let keys: Vec<(String, u64, u64)> = redis::from_redis_value(top["last_minute"]["keys"].clone()).expect("keys");
        let screen = terminal.screen();
        keys.len() == 2 && keys.iter().all(|(key, count, _)| screen.contains(&format!(" {count}  {key}\n")))
    });
    let log_bytes = client.number("ratelimit_log_bytes");
    assert!(log_bytes > 0);
    terminal.wait_for(&format!(" 3 keys, {log_bytes} B in logs, server memory "));
    let names = ["LEAKYBUCKET", "TOKENBUCKET", "login"];
    let idle = || names.iter().all(|name| terminal.shows_row(name, ["0", "0", "1"]));
    eventually("the rates are zero", idle);
    // Other keys of the keyboard do nothing.
    terminal.press("x");
    client.get::<i64>("DEL queue");
    terminal.wait_for(" 2 keys, ");
    let bare = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!bare.contains('\x1b'), "colours: {bare:?}");
}

#[test]
fn keys_cannot_send_control_sequences_to_the_terminal() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let terminal = Terminal::watching(&server);
    for key in [b"\x1b]2;owned\x07\x1b[2J\x1b[?1049lend".as_slice(), b"\r\n\x9b31m\xc3\xa4\x00end"] {
        for _ in 0..3 {
            client.call_bytes(&[b"RL.FIXEDWINDOW", key, b"1", b"100w"]).expect("a reply");
        }
    }
    terminal.wait_for(r"  \x1b]2;owned\x07\x1b[2J\x1b[?1049lend");
    terminal.wait_for(r"  \r\n\x9b31m\xc3\xa4\x00end");
    terminal.wait_for("redis-ratelimit");
    assert_eq!(terminal.property("alternate_on"), "1");
    assert_ne!(terminal.property("pane_title"), "owned");
}

#[test]
fn it_fits_any_size_of_the_terminal() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let policies: Vec<String> = (0..40).map(|number| format!("policy{number:02} FIXEDWINDOW 1 3650d")).collect();
    set_policies(&mut client, &policies.iter().map(String::as_str).collect::<Vec<_>>());
    client.get::<Value>("RL.CHECK policy33 key");
    let terminal = Terminal::watching(&server);
    // The policy with a key comes first, and many do not fit.
    eventually("a policy is shown", || terminal.shows_row("policy33", ["0", "0", "1"]));
    terminal.wait_for(" of 40 shown");
    assert_eq!(find_row(&terminal.screen(), "policy39"), None);
    terminal.resize(30, 6);
    let small = ["redis-ratelimit ", "0 allowed/s, ", "ALGORITHM ", "TOKENBUCKET ", "POLICY ", "policy33 "];
    eventually("it is small", || {
        let screen = terminal.screen();
        let mut lines = screen.lines().zip(small);
        screen.lines().count() == small.len()
            && lines.all(|(line, start)| line.starts_with(start) && line.ends_with("..."))
    });
    for (width, height, start) in [(1, 1, ".\n"), (2, 3, "..\n..\n"), (300, 2, "redis-ratelimit ")] {
        terminal.resize(width, height);
        eventually("it fits", || terminal.screen().starts_with(start));
    }
    terminal.resize(100, 70);
    eventually("all are shown", || terminal.shows_row("policy39", ["0"; 3]));
    terminal.press("q");
    terminal.has_ended_with(0);
}

#[test]
fn it_reconnects_to_a_server_that_restarts() {
    // By a socket, as the server restarts on another port.
    let mut server = Server::start(&["--unixsocket", "socket"]);
    let address = format!("unix://{}", server.folder().join("socket").display());
    let terminal = Terminal::watch(&server, &address);
    server.connect().limit("RL.FIXEDWINDOW key 10 100w");
    eventually("a key is shown", || terminal.shows_row("FIXEDWINDOW", ["0", "0", "1"]));
    server.crash();
    terminal.wait_for("LOST ");
    let screen = terminal.screen();
    assert!(
        screen.contains(" s ago, trying again. Below is what was seen last") && screen.contains(" 1 keys, "),
        "{screen}"
    );
    server.start_again();
    // The server has saved no keys.
    terminal.wait_for(" 0 keys, ");
    server.connect().limit("RL.FIXEDWINDOW key 10 100w");
    eventually("a key is shown again", || terminal.shows_row("FIXEDWINDOW", ["0", "0", "1"]));
    terminal.wait_for("redis-ratelimit ");
    // Also when only the connection is lost.
    let mut client = server.connect();
    assert!(client.get::<i64>("CLIENT KILL TYPE normal") > 0);
    client.get::<i64>("DEL key");
    terminal.wait_for(" 0 keys, ");
    server.crash();
    terminal.wait_for("LOST ");
    terminal.press("q");
    terminal.has_ended_with(0);
}

#[test]
fn it_quits_while_the_server_does_not_reply() {
    let server = Server::start(&[]);
    let terminal = Terminal::watching(&server);
    let pid = i32::try_from(server.pid()).expect("a process");
    // SAFETY: a system call on a child that has not been waited for.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    terminal.wait_for("(it does not answer)");
    terminal.press("q");
    terminal.has_ended_with(0);
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    let server = Server::start(&[]);
    for key in ["q", "Q", "Escape", "C-c"] {
        let terminal = Terminal::watching(&server);
        terminal.press(key);
        terminal.has_ended_with(0);
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let terminal = Terminal::watching(&server);
        let pid = fs::read_to_string(terminal.socket.with_extension("pid")).expect("a file");
        // SAFETY: a system call on a process of the terminal's shell, which has not ended yet.
        unsafe { libc::kill(pid.trim().parse().expect("a process"), signal) };
        terminal.has_ended_with(0);
    }
}

#[test]
fn errors_at_the_start_are_reported_at_once() {
    let (server, without_module) = (Server::start(&[]), Server::without_module());
    server.connect().get::<()>("ACL SETUSER nobody on >secret +ping");
    let [port, other] = [server.port, without_module.port];
    for (address, message) in [
        (format!("127.0.0.1:{other}"), format!("top: 127.0.0.1:{other}: the server does not know RL.STATS")),
        (format!("redis://nobody:secret@127.0.0.1:{port}"), format!("top: 127.0.0.1:{port}: NOPERM ")),
        (format!("redis://nobody:wrong@127.0.0.1:{port}"), format!("top: 127.0.0.1:{port}: Password authentication")),
        ("unix:///nowhere/at/all".to_owned(), "top: /nowhere/at/all: No such file or directory".to_owned()),
        ("http://127.0.0.1".to_owned(), "top: this is no address of a server".to_owned()),
        ("--what".to_owned(), "usage: top [address]".to_owned()),
    ] {
        let terminal = Terminal::watch(&server, &address);
        terminal.has_ended_with(1);
        terminal.wait_for(&message);
    }
}

#[test]
fn missing_permissions_are_named_and_the_rest_is_shown() {
    let server = Server::start(&[]);
    server.connect().get::<()>("ACL SETUSER viewer on >secret +rl.stats");
    let terminal = Terminal::watch(&server, &format!("redis://viewer:secret@127.0.0.1:{}", server.port));
    terminal.wait_for(" RL.TOP: NOPERM ");
    terminal.wait_for("server memory unknown (NOPERM ");
    eventually("the rates are shown", || terminal.shows_row("TOKENBUCKET", ["0"; 3]));
    assert!(!terminal.screen().contains("secret"));
    server.connect().get::<()>("ACL SETUSER viewer +rl.top +info");
    terminal.wait_for("LAST MINUTE: 0 denials");
}

#[test]
fn it_has_a_help_and_requires_a_terminal() {
    let server = Server::start(&[]);
    let run = |argument: &str| Command::new(program()).arg(argument).stdin(Stdio::null()).output().expect("it runs");
    let help = run("--help");
    assert!(help.status.success() && help.stdout.starts_with(b"Shows what redis-ratelimit does"));
    let output = run(&format!("127.0.0.1:{}", server.port));
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()));
    assert_eq!(output.stderr, b"top: the output is not a terminal\n");
}
