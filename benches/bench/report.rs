//! The results, as tables in Markdown and as JSON.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The results of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The server and its version.
    pub server: String,
    /// The unit of costs.
    pub unit: String,
    /// How often each cost is measured.
    pub rounds: usize,
    /// The costs without replica and append-only file.
    pub costs: Vec<Cost>,
    /// The same with an append-only file.
    pub costs_with_aof: Vec<Cost>,
    pub memory: Vec<Memory>,
    pub latency: Vec<Latency>,
    pub growth: Vec<Growth>,
    pub worst_on_a_long_log: Vec<Worst>,
}

/// The cost of a request.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cost {
    pub name: String,
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    /// The median of the ratio to `INCR` in the same round.
    pub to_incr: f64,
    /// The same to `SET … EX`.
    pub to_set: f64,
    /// The ratio of the script's cost, if there is a script.
    pub script: Option<f64>,
}

/// The memory of a key, and of the script's keys.
#[derive(Debug, Serialize, Deserialize)]
pub struct Memory {
    pub name: String,
    pub bytes: f64,
    pub script: Option<f64>,
}

/// The latency in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Latency {
    pub name: String,
    pub p50: f64,
    pub p99: f64,
    pub p99_9: f64,
}

/// The cost of a request as something grows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Growth {
    pub name: String,
    pub with: String,
    pub costs: Vec<(u64, f64)>,
}

/// A single request, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Worst {
    pub name: String,
    pub micros: u64,
}

impl Report {
    pub fn read(path: &Path) -> Self {
        let json = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn write(&self, path: &Path) {
        let json = serde_json::to_string_pretty(self).expect("JSON");
        fs::write(path, json + "\n").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// The tables, in Markdown.
    pub fn tables(&self) -> String {
        let mut text = format!("{}; {} a request, rounds: {}\n", self.server, self.unit, self.rounds);
        costs_table(&mut text, "nobody listens", &self.unit, &self.costs);
        costs_table(&mut text, "append-only file on", &self.unit, &self.costs_with_aof);
        table(&mut text, "| memory, bytes a key | | with the script |", &self.memory, |row| {
            let script = row.script.map_or(String::new(), |bytes| format!("{bytes:.0}"));
            format!("| {} | {:.0} | {script} |", row.name, row.bytes)
        });
        table(&mut text, "| latency, 50 connections, µs | p50 | p99 | p99.9 |", &self.latency, |row| {
            format!("| {} | {:.0} | {:.0} | {:.0} |", row.name, row.p50, row.p99, row.p99_9)
        });
        table(&mut text, "| growth | with | |", &self.growth, |row| {
            let cost = |&(size, cost): &(u64, f64)| format!("{size}: {}", number(cost));
            let costs: Vec<String> = row.costs.iter().map(cost).collect();
            format!("| {} | {} | {} |", row.name, row.with, costs.join(", "))
        });
        table(&mut text, "| one request to a log of a million entries | µs |", &self.worst_on_a_long_log, |row| {
            format!("| {} | {} |", row.name, row.micros)
        });
        text
    }
}

fn costs_table(text: &mut String, title: &str, unit: &str, costs: &[Cost]) {
    let head = format!("| {title} | {unit} | lowest to highest | × INCR | × SET EX | the script costs |");
    table(text, &head, costs, |row| {
        let script = row.script.map_or(String::new(), |times| format!("{times:.1} ×"));
        let spread = format!("{} to {}", number(row.lowest), number(row.highest));
        let median = number(row.median);
        format!("| {} | {median} | {spread} | {:.2} | {:.2} | {script} |", row.name, row.to_incr, row.to_set)
    });
}

fn table<T>(text: &mut String, head: &str, rows: &[T], row: impl Fn(&T) -> String) {
    if rows.is_empty() {
        return;
    }
    let columns = head.matches('|').count() - 1;
    let _ = writeln!(text, "\n{head}\n|---|{}", "--:|".repeat(columns - 1));
    for it in rows {
        let _ = writeln!(text, "{}", row(it));
    }
}

/// About three digits.
fn number(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}
