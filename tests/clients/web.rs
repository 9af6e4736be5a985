//! The web applications of the examples, and checks of their replies.

use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::json;

use super::http::{get, Address, Connection, Message};
use super::program::{node, url, uvicorn, Program, Service};
use crate::common::{eventually, free_port, Server};

/// The capacity of a user's bucket.
pub const LIMIT: i64 = 100;
/// The time in which one token refills.
pub const INTERVAL_MS: i64 = 600;
/// The longest time of a reply while Redis hangs, for which the applications wait half a second.
pub const AT_BEST: Duration = Duration::from_secs(1);
/// The same on a slow and busy machine.
pub const SOON: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
pub enum App {
    /// The name of a module with an application for uvicorn.
    Python(&'static str),
    /// The name of a program.
    Node(&'static str),
}

/// What an application does while Redis fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenRedisFails {
    Open,
    Closed,
}
pub use WhenRedisFails::{Closed, Open};

/// On a busy machine a request may take more than half a second, and would not be counted.
const PATIENT: (&str, &str) = ("PATIENCE", "5");

impl WhenRedisFails {
    fn setting(self) -> (&'static str, &'static str) {
        ("WHEN_REDIS_FAILS", if self == Open { "open" } else { "closed" })
    }
}

impl App {
    /// Starts the application, and waits until it is connected to its server.
    pub fn start(self, server: &Server, choice: WhenRedisFails) -> Service {
        self.start_connected(server, &[choice.setting()])
    }

    /// As [`Self::start`], with more patience.
    pub fn start_patient(self, server: &Server, choice: WhenRedisFails) -> Service {
        self.start_connected(server, &[choice.setting(), PATIENT])
    }

    fn start_connected(self, server: &Server, settings: &[(&str, &str)]) -> Service {
        let service = Service::start(server, self.name(), |address| self.command(server, address, settings));
        wait_until_connected(&service, server);
        service
    }

    /// As [`Self::start_patient`], on a unix socket.
    pub fn start_on_socket(self, server: &Server) -> Service {
        let socket = Address::Socket(server.folder().join("app.sock"));
        let command = |address: &Address| self.command(server, address, &[PATIENT]);
        let service = Service::start_at(server, self.name(), socket, command).expect("it starts");
        wait_until_connected(&service, server);
        service
    }

    /// Starts the application with defaults, also if its server is down.
    pub fn start_unset(self, server: &Server) -> Service {
        Service::start(server, self.name(), |address| self.command(server, address, &[]))
    }

    /// Starts the application with an invalid choice; returns its exit status and output.
    pub fn start_misconfigured(self, server: &Server, choice: &str) -> (ExitStatus, String) {
        let address = Address::Port(free_port());
        let mut command = self.command(server, &address, &[("WHEN_REDIS_FAILS", choice)]);
        let mut program = Program::start(server, self.name(), &mut command);
        (program.wait(), program.output())
    }

    fn name(self) -> &'static str {
        let (Self::Python(name) | Self::Node(name)) = self;
        name
    }

    fn command(self, server: &Server, address: &Address, settings: &[(&str, &str)]) -> Command {
        let mut command = match self {
            Self::Python(name) => uvicorn(&format!("{name}:app"), address),
            Self::Node(name) => {
                let mut command = node();
                command.arg(name).env("PORT", address.to_string());
                command
            }
        };
        command.env("REDIS_URL", url(server)).envs(settings.iter().copied());
        command
    }
}

/// Waits until a service limits its requests, and deletes the key of that.
fn wait_until_connected(service: &Service, server: &Server) {
    eventually("it is connected", || is_limited(&ask(service, "first")));
    server.connect().get::<()>("DEL api:user:first");
}

/// The reply to a request of a user.
pub fn ask(service: &Service, user: &str) -> Message {
    get(&service.address, &[("X-User-Id", user)]).unwrap_or_else(|error| panic!("no answer: {error}"))
}

/// The same, with the time that it took.
pub fn ask_timed(service: &Service, user: &str) -> (Message, Duration) {
    let start = Instant::now();
    (ask(service, user), start.elapsed())
}

/// The replies to `requests`, which threads send concurrently, each on one connection.
pub fn load(address: &Address, threads: usize, requests: usize, headers: &[(&str, &str)]) -> Vec<Message> {
    let sent = AtomicUsize::new(0);
    let work = || -> io::Result<Vec<Message>> {
        let mut connection = Connection::to(address)?;
        let mut answers = Vec::new();
        while sent.fetch_add(1, Ordering::Relaxed) < requests {
            answers.push(connection.get(headers)?);
        }
        Ok(answers)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread").expect("answers")).collect()
    })
}

/// The remaining quota and the seconds until the limit fully resets, from the headers of a reply.
fn limit_of(answer: &Message) -> (i64, i64) {
    assert_eq!(answer.header("RateLimit-Policy"), Some("\"default\";q=100;w=60"), "{answer:?}");
    let numbers = answer.header("RateLimit").and_then(|limit| {
        let (remaining, reset) = limit.strip_prefix("\"default\";r=")?.split_once(";t=")?;
        Some((remaining.parse().ok()?, reset.parse().ok()?))
    });
    numbers.unwrap_or_else(|| panic!("{answer:?}"))
}

/// Checks the reply to an allowed request, and returns the remaining quota. The clock has not moved since the first
/// one.
pub fn allowed(answer: &Message) -> i64 {
    assert_eq!((answer.status(), answer.header("Retry-After")), (200, None), "{answer:?}");
    assert_eq!(answer.json(), json!({"hello": "world"}));
    let (remaining, reset) = limit_of(answer);
    assert_eq!(reset, in_seconds((LIMIT - remaining) * INTERVAL_MS), "{answer:?}");
    remaining
}

/// Checks the reply to a denied request.
pub fn denied(answer: &Message, retry_after_ms: i64, reset_after_ms: i64) {
    assert_eq!(answer.status(), 429, "{answer:?}");
    assert_eq!(answer.json(), json!({"error": "too many requests", "retry_after_ms": retry_after_ms}));
    assert_eq!(answer.header("Retry-After"), Some(in_seconds(retry_after_ms).to_string().as_str()), "{answer:?}");
    assert_eq!(limit_of(answer), (0, in_seconds(reset_after_ms)), "{answer:?}");
}

/// Rounded up, so that no client retries too early.
fn in_seconds(ms: i64) -> i64 {
    (ms + 999) / 1000
}

/// Whether Redis has decided on the request.
pub fn is_limited(answer: &Message) -> bool {
    answer.header("RateLimit").is_some()
}

/// Checks a reply that was given without Redis.
pub fn unlimited(answer: &Message, choice: WhenRedisFails) {
    let (status, retry, body) = match choice {
        Open => (200, None, json!({"hello": "world"})),
        Closed => (503, Some("1"), json!({"error": "the rate limiter is not available"})),
    };
    assert_eq!((answer.status(), answer.header("Retry-After")), (status, retry), "{answer:?}");
    assert_eq!((answer.header("RateLimit"), answer.header("RateLimit-Policy")), (None, None), "{answer:?}");
    assert_eq!(answer.json(), body);
}
