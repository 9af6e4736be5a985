//! The cost of a request: the server's CPU time or its instructions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Client, Server};

/// How costs are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    /// Microseconds of CPU time, from the server's `INFO`. As noisy as the machine.
    CpuTime,
    /// Instructions, counted by callgrind. The same on every run, also on a busy machine.
    Instructions,
}

impl Gauge {
    /// The program that runs the server.
    pub fn wrapper(self) -> Vec<String> {
        match self {
            Self::CpuTime => Vec::new(),
            // Counting starts switched off, as it would make filling the server with keys very slow.
            Self::Instructions => {
                ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file={folder}/counts"]
                    .map(str::to_owned)
                    .to_vec()
            }
        }
    }

    /// The configuration of the server.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Self::CpuTime => &[],
            // Background work depends on the clock, and would count for more on a busy machine.
            Self::Instructions => &["--hz", "1", "--dynamic-hz", "no"],
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::CpuTime => "µs",
            Self::Instructions => "instructions",
        }
    }

    /// A gauge of this kind on a server that runs in [`Self::wrapper`].
    pub fn on(self, server: &Server) -> Meter {
        Meter { gauge: self, pid: server.pid().to_string(), folder: server.folder().to_owned() }
    }
}

/// A gauge on a server.
pub struct Meter {
    gauge: Gauge,
    pid: String,
    folder: PathBuf,
}

impl Meter {
    /// The server's cost of `work`.
    pub fn measure(&self, client: &mut Client, work: impl FnOnce(&mut Client)) -> f64 {
        match self.gauge {
            Gauge::CpuTime => {
                let before = cpu_micros(client);
                work(client);
                cpu_micros(client) - before
            }
            Gauge::Instructions => {
                callgrind(&["-i", "on", &self.pid]);
                work(client);
                callgrind(&["-i", "off", &self.pid]);
                callgrind(&["-d", &self.pid]);
                newest_count(&self.folder)
            }
        }
    }
}

fn cpu_micros(client: &mut Client) -> f64 {
    let info: String = client.get("INFO cpu");
    let seconds = |field: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|value| value.trim().parse().ok()).expect("a field of INFO cpu")
    };
    (seconds("used_cpu_sys:") + seconds("used_cpu_user:")) * 1e6
}

fn callgrind(args: &[&str]) {
    let mut control = Command::new("callgrind_control");
    let done = control.args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("callgrind_control");
    assert!(done.success(), "callgrind_control {args:?} failed");
}

/// The instructions of the last dump. A dump resets the count, and dumps are numbered.
fn newest_count(folder: &Path) -> f64 {
    let dump = |number: u32| -> PathBuf { folder.join(format!("counts.{number}")) };
    let newest = (1..=10_000).take_while(|&number| dump(number).exists()).last().expect("a dump");
    let counts = fs::read_to_string(dump(newest)).expect("a dump that can be read");
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).expect("the totals of a dump")
}
