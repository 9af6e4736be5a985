//! The example programs as processes, in the environment that `make test-clients` installs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::{env, thread};

use super::http::{Address, Connection};
use crate::common::{end, eventually, free_port, signal, spawn, Server};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The Python with the packages that the examples need.
pub fn python() -> Command {
    let program = Path::new(ROOT).join("target/clients/python/bin/python");
    assert!(program.exists(), "there is no {}: `make test-clients` installs it", program.display());
    // No cache files in the examples' folder, and no delayed output.
    in_folder("python", program, &[("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUNBUFFERED", "1")])
}

/// The Node that is installed for the tests, or the system's.
pub fn node() -> Command {
    let installed = Path::new(ROOT).join("target/clients/python/bin/node");
    in_folder("node", if installed.exists() { installed } else { "node".into() }, &[])
}

/// A program that runs in a folder of the examples, without other environment variables of this machine.
fn in_folder(folder: &str, program: PathBuf, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    let path = env::var_os("PATH").unwrap_or_default();
    command.current_dir(example(folder)).env_clear().env("PATH", path).envs(environment.iter().copied());
    command
}

/// A file or folder of the examples.
pub fn example(name: &str) -> PathBuf {
    Path::new(ROOT).join("examples").join(name)
}

/// A file of the repository.
pub fn read(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

/// A process that is killed on drop. Its output is in the folder of the server, which must live longer.
pub struct Program {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Program {
    pub fn start(server: &Server, name: &str, command: &mut Command) -> Self {
        let output = server.folder().join(format!("{name}.output"));
        // A restarted program appends to the same file.
        let file = File::options().create(true).append(true).open(&output).expect("a file");
        command.stdout(file.try_clone().expect("a file")).stderr(file);
        let child = spawn(command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, name: name.to_owned(), output }
    }

    pub fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Sends SIGTERM, and waits until it has ended.
    pub fn terminate(&mut self) -> ExitStatus {
        signal(&self.child, libc::SIGTERM);
        self.wait()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("it ends", || !self.is_running());
        self.child.wait().expect("a status")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let status = self.child.try_wait();
        end(&mut self.child);
        if thread::panicking() {
            eprintln!("the output of {} ({status:?}):\n{}", self.name, self.output());
        }
    }
}

/// A program that serves HTTP.
pub struct Service {
    pub program: Program,
    pub address: Address,
}

impl Service {
    /// Starts a program on a free port, and waits until it listens.
    pub fn start(server: &Server, name: &str, command: impl Fn(&Address) -> Command) -> Self {
        // Another process may take the port in between; then the program ends.
        let started = (0..3).find_map(|_| Self::start_at(server, name, Address::Port(free_port()), &command));
        started.unwrap_or_else(|| panic!("{name} does not start"))
    }

    /// As [`Self::start`], at a given address; `None` if the program ends instead.
    pub fn start_at(
        server: &Server,
        name: &str,
        address: Address,
        command: impl Fn(&Address) -> Command,
    ) -> Option<Self> {
        let mut program = Program::start(server, name, &mut command(&address));
        let mut is_running = true;
        eventually("it listens", || {
            is_running = program.is_running();
            !is_running || Connection::to(&address).is_ok()
        });
        if !is_running {
            eprintln!("{name} has ended:\n{}", program.output());
        }
        is_running.then_some(Self { program, address })
    }
}

/// The command that serves a Python application.
pub fn uvicorn(application: &str, address: &Address) -> Command {
    let mut command = python();
    command.args(["-m", "uvicorn", application]);
    match address {
        Address::Port(port) => command.args(["--host", "127.0.0.1", "--port", &port.to_string()]),
        Address::Socket(path) => command.arg("--uds").arg(path),
    };
    command
}
