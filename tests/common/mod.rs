//! Real servers for the tests, each on a free loopback port and in a temporary folder, until they are dropped.

#![allow(dead_code)] // every test program uses a part of it

pub mod aof;
mod client;
mod clock;
pub mod cluster;
pub mod dump;
pub mod live_keys;
pub mod load;
pub mod long_log;
pub mod multi;
pub mod mutation;
pub mod policies;
pub mod policy_file;
pub mod redis_cell;
pub mod replicas;
pub mod stats;
pub mod traffic;
pub mod watch;

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, io, thread};

pub use client::Client;
pub use clock::{Clock, START};

/// The timeout of everything, for slow and busy machines.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
        Self::launch(&[], with_module(settings), Vec::new(), false)
    }

    /// A server without modules, to which clients can load some.
    pub fn without_module() -> Self {
        let settings = ["--enable-module-command", "yes"].map(str::to_owned).to_vec();
        Self::launch(&[], settings, Vec::new(), false)
    }

    /// A server with this configuration file, in which `{module}` stands for the path of the module.
    pub fn with_configuration(text: &str) -> Self {
        let (folder, text) = (new_folder(), text.replace("{module}", &module().to_string_lossy()));
        fs::write(folder.join(CONFIGURATION), text).expect("written");
        Self::try_launch_in(folder, &[], Vec::new(), Vec::new(), false)
            .unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    /// As [`Self::start`], run by another program, such as valgrind; `{folder}` in its arguments stands for the
    /// server's folder.
    pub fn under(wrapper: &[String], settings: &[&str]) -> Self {
        Self::launch(wrapper, with_module(settings), Vec::new(), false)
    }

    /// As [`Self::under`]; if the server does not start, the result is its log.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn try_under(
        wrapper: &[String],
        settings: &[&str],
        environment: Vec<(&'static str, PathBuf)>,
    ) -> Result<Self, String> {
        Self::try_launch(wrapper, with_module(settings), environment, false)
    }

    /// A server with the module and a test clock.
    pub fn with_clock(settings: &[&str]) -> Self {
        Self::with_clock_under(&[], settings)
    }

    /// As [`Self::with_clock`], run by another program.
    pub fn with_clock_under(wrapper: &[String], settings: &[&str]) -> Self {
        let mut server = Self::launch(wrapper, with_module(settings), Vec::new(), true);
        let mut client = server.connect();
        // The server and the module must use the test clock, also after it has moved.
        for (now, until_midnight) in [(START + 1_000_000, 86_399_000), (START, 86_400_000)] {
            server.clock().set(now);
            let (seconds, micros): (u64, u64) = client.get("TIME");
            assert_eq!(seconds * 1_000_000 + micros, now, "the server does not use the test clock");
            assert_eq!(
                client.limit("RL.FIXEDWINDOW probe 10 1d")[4],
                until_midnight,
                "the module does not use the test clock"
            );
            client.get::<()>("DEL probe");
        }
        server
    }

    /// A server with this environment variable.
    pub fn with_environment(variable: &'static str, value: &str) -> Self {
        Self::launch(&[], with_module(&[]), vec![(variable, value.into())], false)
    }

    /// Starts a server that must fail, and returns its log.
    pub fn refuses_to_start(settings: &[&str], environment: &[(&'static str, PathBuf)]) -> String {
        let folder = new_folder();
        let (mut child, port) = spawn_once(&folder, &[], &with_module(settings), environment);
        let started = wait_until_ready(&mut child, port);
        end(&mut child);
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let _ = fs::remove_dir_all(folder);
        assert!(!started, "it starts:\n{log}");
        log
    }

    fn launch(
        wrapper: &[String],
        settings: Vec<String>,
        environment: Vec<(&'static str, PathBuf)>,
        with_clock: bool,
    ) -> Self {
        Self::try_launch(wrapper, settings, environment, with_clock)
            .unwrap_or_else(|log| panic!("the server does not start:\n{log}"))
    }

    /// Starts a server in a new folder. If it does not start, the result is its log.
    fn try_launch(
        wrapper: &[String],
        settings: Vec<String>,
        environment: Vec<(&'static str, PathBuf)>,
        with_clock: bool,
    ) -> Result<Self, String> {
        Self::try_launch_in(new_folder(), wrapper, settings, environment, with_clock)
    }

    fn try_launch_in(
        folder: PathBuf,
        wrapper: &[String],
        settings: Vec<String>,
        mut environment: Vec<(&'static str, PathBuf)>,
        with_clock: bool,
    ) -> Result<Self, String> {
        let wrapper = wrapper.to_vec();
        let clock = with_clock.then(|| Clock::new(&folder));
        environment.extend(clock.iter().flat_map(Clock::environment));
        if let Some((child, port)) = try_spawn(&folder, &wrapper, &settings, &environment) {
            return Ok(Self { child, port, folder, wrapper, settings, environment, clock });
        }
        let logs = fs::read_dir(&folder).expect("files").map(|file| file.expect("a file").path());
        let logged: String = logs.filter_map(|path| fs::read_to_string(path).ok()).collect();
        let _ = fs::remove_dir_all(folder);
        Err(logged)
    }

    pub fn clock(&mut self) -> &mut Clock {
        self.clock.as_mut().expect("a server with a test clock")
    }

    /// Moves the clock out, so that it can be set while other code uses the server.
    pub fn take_clock(&mut self) -> Clock {
        self.clock.take().expect("a server with a test clock")
    }

    pub fn test_clock(&mut self) -> Option<&mut Clock> {
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
        Client::to(self.port).expect("a connection")
    }

    /// Stops the server by `SHUTDOWN`, and starts it again with the same files.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Stops the server by `SHUTDOWN`.
    pub fn stop(&mut self) {
        eventually("the server ends", || {
            // It may fail at first.
            let _ = Client::to(self.port).map(|mut client| client.call("SHUTDOWN"));
            !self.is_running()
        });
    }

    /// Kills the server and its children.
    pub fn crash(&mut self) {
        end(&mut self.child);
    }

    /// As [`Self::crash`], by a shared reference.
    pub fn kill(&self) {
        kill(&self.child);
    }

    /// Starts the server again with the same files after it has ended.
    pub fn start_again(&mut self) {
        let started = try_spawn(&self.folder, &self.wrapper, &self.settings, &self.environment);
        (self.child, self.port) = started.unwrap_or_else(|| panic!("the server does not start:\n{}", self.log()));
    }

    /// As [`Self::start_again`], on the same port.
    pub fn start_again_in_place(&mut self) {
        let port = self.port;
        // Another process may use the port for a moment.
        eventually("the server starts on its port", || {
            self.child = spawn_on(port, &self.folder, &self.wrapper, &self.settings, &self.environment);
            wait_until_ready(&mut self.child, port)
        });
    }

    /// Suspends the server until [`Self::go_on`].
    pub fn hang(&self) {
        signal(&self.child, libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        signal(&self.child, libc::SIGCONT);
    }

    /// Sets other arguments for the next start.
    pub fn set(&mut self, settings: &[&str]) {
        self.settings = with_module(settings);
    }

    /// Kills the server, and returns whether it starts again with the same files.
    pub fn try_restart(&mut self) -> bool {
        self.crash();
        (self.child, self.port) = spawn_once(&self.folder, &self.wrapper, &self.settings, &self.environment);
        wait_until_ready(&mut self.child, self.port)
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
        if thread::panicking() {
            eprintln!("the log of the server on port {}:\n{}", self.port, self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A new empty folder.
fn new_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("ratelimit-test-{}-{number}", std::process::id()));
    // A process with the same id may have left such a folder.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The module in `RATELIMIT_MODULE`, or the one that cargo has just built.
pub fn module() -> PathBuf {
    let built = || env::current_exe().expect("a path").with_file_name("libredis_ratelimit.so");
    env::var_os("RATELIMIT_MODULE").map_or_else(built, PathBuf::from)
}

/// A library, compiled from the C file of this name in this folder.
pub fn compile(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = format!("{}/tests/common/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let output = folder.join(format!("{name}-{}-{number}.so", std::process::id()));
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    let done = compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&output).arg(source).status();
    assert!(done.expect("a C compiler").success(), "{name} does not compile");
    // Other test programs may compile the same library, so it is replaced atomically.
    let library = folder.join(format!("{name}.so"));
    fs::rename(&output, &library).expect("renamed");
    library
}

/// Arguments that load the module, followed by others.
fn with_module(settings: &[&str]) -> Vec<String> {
    let module = module().to_string_lossy().into_owned();
    let loaded = ["--loadmodule".to_owned(), module];
    loaded.into_iter().chain(settings.iter().map(|setting| (*setting).to_owned())).collect()
}

/// Starts a server and waits until it replies; `None` if it does not. Another process may take a free port before the
/// server does; then another port is tried.
fn try_spawn(
    folder: &Path,
    wrapper: &[String],
    settings: &[String],
    environment: &[(&'static str, PathBuf)],
) -> Option<(Child, u16)> {
    (0..5).find_map(|_| {
        let (mut child, port) = spawn_once(folder, wrapper, settings, environment);
        if wait_until_ready(&mut child, port) {
            return Some((child, port));
        }
        end(&mut child);
        None
    })
}

/// The configuration file in a server's folder, if it has one.
const CONFIGURATION: &str = "server.conf";

/// An argument that stands for a free port.
pub const FREE_PORT: &str = "{free port}";

/// A free port that was not returned before, outside of the range that the system uses for connections.
pub fn free_port() -> u16 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let ports = 10_000..32_000_u16;
    // Processes start at different ports.
    let first = std::process::id().wrapping_mul(251);
    let mut tried = std::iter::repeat_with(|| first.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)));
    let port = tried.by_ref().take(ports.len()).find_map(|number| {
        let port = ports.start + u16::try_from(number % u32::try_from(ports.len()).ok()?).ok()?;
        TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
    });
    port.expect("a free port")
}

/// Microseconds since the epoch, by the real clock.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after the epoch");
    u64::try_from(now.as_micros()).expect("a time of these days")
}

fn spawn_once(
    folder: &Path,
    wrapper: &[String],
    settings: &[String],
    environment: &[(&'static str, PathBuf)],
) -> (Child, u16) {
    let port = free_port();
    (spawn_on(port, folder, wrapper, settings, environment), port)
}

fn spawn_on(
    port: u16,
    folder: &Path,
    wrapper: &[String],
    settings: &[String],
    environment: &[(&'static str, PathBuf)],
) -> Child {
    let program = env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let wrapper = wrapper.iter().map(|word| word.replace("{folder}", &folder.to_string_lossy()).into());
    let mut words = wrapper.chain([program.clone()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    let configuration = Some(folder.join(CONFIGURATION)).filter(|file| file.exists());
    command
        .args(words)
        .args(configuration)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--enable-debug-command", "yes", "--logfile", "log", "--dir"])
        .arg(folder)
        .args(settings.iter().map(|setting| setting.replace(FREE_PORT, &free_port().to_string())))
        .envs(environment.iter().map(|(name, value)| (*name, value)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    spawn(&mut command).unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// Starts a program that ends with the thread of its test, even if that is killed.
///
/// # Errors
/// When there is no such program.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // A separate process group, so that its children can be killed too.
    command.stdin(Stdio::null()).process_group(0);
    // SAFETY: only a system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command.spawn()
}

/// Kills a program that has not been waited for, and its children.
fn kill(child: &Child) {
    signal(child, libc::SIGKILL);
}

/// Sends a signal to a program that has not been waited for, and to its children.
pub fn signal(child: &Child, signal: i32) {
    let group = i32::try_from(child.id()).expect("a process");
    // SAFETY: a system call on the process group of a child that has not been waited for, so no other group has its id.
    unsafe { libc::kill(-group, signal) };
}

/// Kills a program and its children, if it has not ended yet.
pub fn end(child: &mut Child) {
    if child.try_wait().is_ok_and(|ended| ended.is_none()) {
        kill(child);
        let _ = child.wait();
    }
}

fn wait_until_ready(child: &mut Child, port: u16) -> bool {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait().expect("a status").is_some() {
            return false;
        }
        // Another process may reply if it has taken the port.
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

/// The append-only file to which the server adds effects.
pub fn effects_file(server: &Server) -> PathBuf {
    let folder = server.folder().join("appendonlydir");
    let files = fs::read_dir(folder).expect("files").map(|file| file.expect("a file").path());
    files.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max().expect("a file")
}

/// Waits until a condition holds.
pub fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happens() {
        assert!(Instant::now() < deadline, "timeout: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
