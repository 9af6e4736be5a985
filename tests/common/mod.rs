//! Real servers for the tests: each on a free loopback port, in a folder of its own, gone when it goes out of scope.

#![allow(dead_code)] // every test program uses some of it

mod clock;
pub mod replicas;
pub mod traffic;

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use redis::{Connection, ConnectionLike, FromRedisValue, RedisError, Value};

pub use clock::{Clock, START};

/// Longer than anything takes on a slow and busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Server {
    child: Child,
    pub port: u16,
    folder: PathBuf,
    wrapper: Vec<String>,
    settings: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    clock: Option<Clock>,
}

impl Server {
    /// A server with the module, on the real clock.
    pub fn start(settings: &[&str]) -> Self {
        Self::launch(&[], settings, Vec::new(), false)
    }

    /// As [`Self::start`], with the server run by another program, such as valgrind; `{folder}` in its
    /// arguments is the server's folder.
    pub fn under(wrapper: &[String], settings: &[&str]) -> Self {
        Self::launch(wrapper, settings, Vec::new(), false)
    }

    /// A server with the module whose clock the test holds; `None` on servers that do not follow such a clock, for
    /// which these tests say nothing.
    pub fn with_clock(settings: &[&str]) -> Option<Self> {
        Self::with_clock_under(&[], settings)
    }

    /// As [`Self::with_clock`], with the server run by another program.
    pub fn with_clock_under(wrapper: &[String], settings: &[&str]) -> Option<Self> {
        let mut server = Self::launch(wrapper, settings, Vec::new(), true);
        let mut client = server.connect();
        // Neither the server nor the module in it may take its time from elsewhere, now or when it has moved.
        let follows = [START + 1_000_000, START].iter().all(|&now| {
            server.clock().set(now);
            let (seconds, micros): (u64, u64) = client.get("TIME");
            let until_midnight = client.limit("RL.FIXEDWINDOW probe 10 1d")[4];
            client.get::<()>("DEL probe");
            seconds * 1_000_000 + micros == now && until_midnight == if now == START { 86_400_000 } else { 86_399_000 }
        });
        if !follows {
            // Valkey from 8.1 on has a clock of its own; anywhere else the test's clock must be broken.
            let version = client.info("valkey_version");
            assert!(!version.is_empty() && version.as_str() >= "8.1", "the server does not follow the test's clock");
            eprintln!("skipped: this server does not follow a clock that is held");
        }
        follows.then_some(server)
    }

    /// A server with something more in its environment.
    pub fn with_environment(variable: &'static str, value: &str) -> Self {
        Self::launch(&[], &[], vec![(variable, value.into())], false)
    }

    /// Starts a server that is expected to give up, and returns its log.
    pub fn refuses_to_start(settings: &[&str], environment: &[(&'static str, PathBuf)]) -> String {
        let folder = new_folder();
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let (mut child, port) = spawn_once(&folder, &[], &settings, environment);
        let started = wait_until_ready(&mut child, port);
        let _ = child.kill();
        let _ = child.wait();
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let _ = fs::remove_dir_all(folder);
        assert!(!started, "it starts:\n{log}");
        log
    }

    fn launch(
        wrapper: &[String],
        settings: &[&str],
        mut environment: Vec<(&'static str, PathBuf)>,
        with_clock: bool,
    ) -> Self {
        let folder = new_folder();
        let clock = with_clock.then(|| Clock::new(&folder));
        environment.extend(clock.iter().flat_map(Clock::environment));
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let wrapper = wrapper.to_vec();
        let (child, port) = spawn(&folder, &wrapper, &settings, &environment);
        Self { child, port, folder, wrapper, settings, environment, clock }
    }

    pub fn clock(&mut self) -> &mut Clock {
        self.clock.as_mut().expect("a server whose clock is held")
    }

    pub fn held_clock(&mut self) -> Option<&mut Clock> {
        self.clock.as_mut()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn connect(&self) -> Client {
        let client = redis::Client::open(("127.0.0.1", self.port)).expect("an address");
        let connection = client.get_connection().expect("a connection");
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client { connection }
    }

    /// Stops the server as an operator does, and starts it again on the same files.
    pub fn restart(&mut self) {
        let _ = self.connect().call("SHUTDOWN");
        self.child.wait().expect("it ends");
        (self.child, self.port) = spawn(&self.folder, &self.wrapper, &self.settings, &self.environment);
    }

    /// As [`Self::restart`], with other settings.
    pub fn restart_with(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        self.restart();
    }

    /// Stops the server, saving nothing, and says whether one starts on the same files.
    pub fn try_restart(&mut self) -> bool {
        let _ = self.connect().call("SHUTDOWN NOSAVE");
        self.child.wait().expect("it ends");
        (self.child, self.port) = spawn_once(&self.folder, &self.wrapper, &self.settings, &self.environment);
        wait_until_ready(&mut self.child, self.port)
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the log of the server on port {}:\n{}", self.port, self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// An empty folder that no other server has.
fn new_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("ratelimit-test-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The module as cargo has just built it, beside the test program.
pub fn module() -> PathBuf {
    env::current_exe().expect("a path").with_file_name("libredis_ratelimit.so")
}

/// Starts a server and waits until it answers. Between finding a free port and using it, another may take it: then the
/// server ends, and another port is tried.
fn spawn(
    folder: &Path,
    wrapper: &[String],
    settings: &[String],
    environment: &[(&'static str, PathBuf)],
) -> (Child, u16) {
    for _ in 0..10 {
        let (mut child, port) = spawn_once(folder, wrapper, settings, environment);
        if wait_until_ready(&mut child, port) {
            return (child, port);
        }
    }
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let _ = fs::remove_dir_all(folder);
    panic!("the server does not start:\n{log}");
}

fn spawn_once(
    folder: &Path,
    wrapper: &[String],
    settings: &[String],
    environment: &[(&'static str, PathBuf)],
) -> (Child, u16) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let program = env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let wrapper = wrapper.iter().map(|word| word.replace("{folder}", &folder.to_string_lossy()).into());
    let mut words = wrapper.chain([program.clone()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command
        .args(words)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--enable-debug-command", "yes", "--logfile", "log", "--dir"])
        .arg(folder)
        .arg("--loadmodule")
        .arg(module())
        .args(settings)
        .envs(environment.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: only a system call between fork and exec. The server ends with the thread of its test, even if that is
    // killed.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    (child, port)
}

fn wait_until_ready(child: &mut Child, port: u16) -> bool {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait().expect("a status").is_some() {
            return false;
        }
        // Whoever answers may be another, if the port was taken in between.
        if let Ok(mut connection) = client.get_connection() {
            let info = redis::cmd("INFO").arg("server").query::<String>(&mut connection).unwrap_or_default();
            let ready = redis::cmd("PING").query::<String>(&mut connection).is_ok();
            if ready && info.contains(&format!("process_id:{}\r\n", child.id())) {
                return true;
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Waits for something that happens soon.
pub fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happens() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A connection that takes commands as one types them.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Sends a command whose words are separated by blanks.
    pub fn call(&mut self, command: &str) -> Result<Value, RedisError> {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        self.call_bytes(&words)
    }

    pub fn call_bytes(&mut self, words: &[&[u8]]) -> Result<Value, RedisError> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        self.connection.req_command(&command).and_then(Value::extract_error)
    }

    /// The reply of a command that must not fail.
    pub fn get<T: FromRedisValue>(&mut self, command: &str) -> T {
        let reply = self.call(command).unwrap_or_else(|error| panic!("{command}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// The replies to so many commands that are already in the form in which they are sent.
    pub fn pipeline(&mut self, packed: &[u8], count: usize) -> Vec<Value> {
        self.connection.req_packed_commands(packed, 0, count).expect("replies")
    }

    /// The reply of a Lua script that must not fail.
    pub fn eval<T: FromRedisValue>(&mut self, script: &str, key: &str, args: &[&str]) -> T {
        let mut words = vec![b"EVAL".as_slice(), script.as_bytes(), b"1", key.as_bytes()];
        words.extend(args.iter().map(|arg| arg.as_bytes()));
        let reply = self.call_bytes(&words).unwrap_or_else(|error| panic!("{script}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The integers with which a limiting command replies.
    pub fn limit(&mut self, command: &str) -> Vec<i64> {
        self.get(command)
    }

    /// The error of a command that must fail: its code and its message.
    pub fn error(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        self.error_of(&words)
    }

    pub fn error_of(&mut self, words: &[&[u8]]) -> String {
        match self.call_bytes(words) {
            Ok(reply) => panic!("{words:?} replied {reply:?}"),
            Err(error) => format!("{} {}", error.code().unwrap_or(""), error.detail().unwrap_or("")),
        }
    }

    /// A field of `INFO`.
    pub fn info(&mut self, field: &str) -> String {
        let info: String = self.get("INFO everything");
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned));
        line.unwrap_or_default()
    }

    /// What a key holds and when it expires: equal for equal keys on any server.
    pub fn digest(&mut self, key: &str) -> (Vec<String>, i64) {
        (self.get(&format!("DEBUG DIGEST-VALUE {key}")), self.get(&format!("PEXPIRETIME {key}")))
    }
}
