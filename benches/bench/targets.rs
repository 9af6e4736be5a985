//! The performance targets, and whether a run meets them.

use std::fmt::Write;

use crate::cases::{comparisons, Compared};
use crate::report::Report;

struct Target {
    promise: String,
    found: f64,
    reached: bool,
}

fn at_most(promise: impl Into<String>, found: f64, most: f64) -> Target {
    Target { promise: promise.into(), found, reached: found <= most }
}

fn targets(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    for cost in report.costs.iter().filter(|cost| cost.script.is_some()) {
        if cost.name.ends_with("allowed") {
            targets.push(at_most(format!("{}: at most 1 × SET EX", cost.name), cost.to_set, 1.0));
        } else {
            targets.push(at_most(format!("{}: at most 1.7 × INCR", cost.name), cost.to_incr, 1.7));
        }
        let script = cost.script.unwrap_or(0.0);
        let promise = format!("{}: at least 8 × cheaper than the script", cost.name);
        targets.push(Target { promise, found: script, reached: script >= 8.0 });
    }
    for (costs, listened) in [(&report.costs, ""), (&report.costs_with_aof, ", append-only file on")] {
        let cost = |name: &String| costs.iter().find(|cost| cost.name == *name).map(|cost| cost.median);
        for (name, Compared { with, at_most: most }) in comparisons() {
            let others: Option<f64> = with.iter().map(cost).sum();
            if let (Some(found), Some(others)) = (cost(&name), others) {
                let promise = format!("{name}: at most {most} × {}{listened}", with.join(" + "));
                targets.push(at_most(promise, found / others, most));
            }
        }
    }
    let bytes = |name: &str| report.memory.iter().find(|row| row.name == name).map_or(f64::NAN, |row| row.bytes);
    for row in report.memory.iter().filter(|row| row.name.starts_with("RL.") && !row.name.contains("LOG")) {
        targets.push(at_most(
            format!("{}: at most 1.25 × SET EX in memory", row.name),
            row.bytes / bytes("SET EX"),
            1.25,
        ));
    }
    if !report.memory.is_empty() {
        let log = |length: u32| bytes(&format!("RL.SLIDINGLOG of {length} entries"));
        let (early, late) = ((log(100) - log(3)) / 97.0, (log(1_000) - log(100)) / 900.0);
        targets.push(at_most("RL.SLIDINGLOG: at most 8 bytes an entry, 3 to 100", early, 8.0));
        targets.push(at_most("RL.SLIDINGLOG: at most 8 bytes an entry, 100 to 1000", late, 8.0));
    }
    for growth in &report.growth {
        let smallest = growth.costs.first().map_or(f64::NAN, |it| it.1);
        let dearest = growth.costs.iter().map(|it| it.1).fold(0.0, f64::max);
        // Longer numbers take a few more instructions to parse and to write, which is not growth.
        targets.push(at_most(format!("{}: no growth with {}", growth.name, growth.with), dearest / smallest, 1.1));
    }
    for worst in &report.worst_on_a_long_log {
        #[allow(clippy::cast_precision_loss)] // microseconds
        let millis = worst.micros as f64 / 1_000.0;
        targets.push(at_most(format!("a log of a million, {}: at most 1 ms", worst.name), millis, 1.0));
    }
    targets
}

pub fn table(report: &Report) -> String {
    let targets = targets(report);
    if targets.is_empty() {
        return String::new();
    }
    let mut text = "| promise | found | |\n|---|--:|---|\n".to_owned();
    for target in targets {
        let verdict = if target.reached { "reached" } else { "MISSED" };
        let _ = writeln!(text, "| {} | {:.2} | {verdict} |", target.promise, target.found);
    }
    text
}
