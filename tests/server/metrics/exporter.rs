//! `redis_exporter` as a process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{env, thread};

use super::samples::{parse, Sample, NAME};
use crate::common::{end, eventually, free_port, spawn, Server, PATIENCE};

pub const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/monitoring/ratelimit.lua");

/// An exporter of one server, killed on drop. Its log is in the server's folder, which must live longer.
pub struct Exporter {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Exporter {
    /// Starts an exporter with the script and further options.
    pub fn start(server: &Server, options: &[&str]) -> Self {
        // Another process may take the port in between.
        let mut tries = (0..5).map(|_| Self::start_once(server, options));
        tries.find_map(|exporter| exporter.answers_for(server)).expect("an exporter that stays")
    }

    fn start_once(server: &Server, options: &[&str]) -> Self {
        let port = free_port();
        let log = server.folder().join(format!("exporter-{port}"));
        let program = env::var_os("REDIS_EXPORTER").unwrap_or_else(|| "prometheus-redis-exporter".into());
        let mut command = Command::new(&program);
        command
            // The exporter also takes options from the environment.
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .args(["-redis.addr", &format!("redis://127.0.0.1:{}", server.port)])
            .args(["-web.listen-address", &format!("127.0.0.1:{port}"), "-script", SCRIPT])
            .args(options)
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"));
        let child = spawn(&mut command).unwrap_or_else(|error| {
            panic!("{}: {error}; `make test` installs it, or set REDIS_EXPORTER to another", program.display())
        });
        Self { child, port, log }
    }

    /// Waits until it replies; `None` if it ends instead.
    fn answers_for(mut self, server: &Server) -> Option<Self> {
        // Another exporter may reply, with samples of another server.
        let of_server = format!("process_id=\"{}\"", server.pid());
        let mut ended = false;
        eventually("the exporter replies", || {
            ended = self.child.try_wait().expect("a status").is_some();
            ended || self.page().is_some_and(|page| page.contains(&of_server))
        });
        if ended {
            eprintln!("the exporter has ended:\n{}", self.log());
            return None;
        }
        Some(self)
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The page of metrics; `None` if it does not reply.
    fn page(&self) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, page) = answer.split_once("\r\n\r\n")?;
        head.split(' ').nth(1).is_some_and(|status| status == "200").then(|| page.to_owned())
    }

    /// All samples, with the labels that Prometheus adds.
    pub fn scrape(&self) -> Vec<Sample> {
        let mut samples = parse(&self.page().expect("an answer"));
        for sample in &mut samples {
            for (label, value) in [("job", "redis".to_owned()), ("instance", format!("127.0.0.1:{}", self.port))] {
                sample.labels.insert(label.to_owned(), value);
            }
        }
        samples
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        end(&mut self.child);
        if thread::panicking() {
            eprintln!("the log of the exporter:\n{}", self.log());
        }
    }
}

/// The only sample of this name, if any.
pub fn only<'a>(samples: &'a [Sample], name: &str) -> Option<&'a Sample> {
    let mut found = samples.iter().filter(|sample| sample.labels[NAME] == name);
    let first = found.next();
    assert_eq!(found.next(), None);
    first
}
