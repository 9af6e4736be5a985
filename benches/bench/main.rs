//! The cost of the module's commands on a real server, compared with plain writes and with the scripts that they
//! replace.
//!
//! `make bench` measures the server's CPU time, `make bench-instructions` its instructions. Both print tables and write
//! them as JSON, from which `picture` is drawn.

mod cases;
#[path = "../../tests/common/mod.rs"]
mod common;
mod gauge;
mod growth;
mod latency;
mod load;
mod memory;
mod picture;
mod progress;
mod report;
mod targets;

use std::path::Path;
use std::process::ExitCode;

use cases::{incr, set_ex, Case, ALGORITHMS};
use gauge::Gauge;
use load::Bench;
use progress::Progress;
use report::{Cost, Report};

/// The extent of the measurements.
struct Plan {
    gauge: Gauge,
    rounds: usize,
    keys: usize,
    requests: usize,
    /// The highest number of keys.
    most_keys: usize,
    file: &'static str,
}

const TIME: Plan = Plan {
    gauge: Gauge::CpuTime,
    rounds: 5,
    keys: 100_000,
    requests: 100_000,
    most_keys: 1_000_000,
    file: "docs/bench.json",
};
// Instructions hardly vary between rounds, or with the number of keys.
const INSTRUCTIONS: Plan = Plan {
    gauge: Gauge::Instructions,
    rounds: 1,
    keys: 2_000,
    requests: 10_000,
    most_keys: 100_000,
    file: "docs/bench-instructions.json",
};
const PICTURE: &str = "docs/bench.svg";

/// The parts of a run, all by default.
const PARTS: [&str; 6] = ["costs", "aof", "growth", "latency", "memory", "worst"];

fn main() -> ExitCode {
    // Cargo adds an option.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (mode, parts) = args.split_first().map_or(("", &[][..]), |(mode, parts)| (mode.as_str(), parts));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let plan = match mode {
        "time" => &TIME,
        "instructions" => &INSTRUCTIONS,
        "picture" => {
            picture::draw(&Report::read(&root.join(TIME.file)), &root.join(PICTURE));
            return ExitCode::SUCCESS;
        }
        _ => return usage(),
    };
    if parts.iter().any(|part| !PARTS.contains(&part.as_str())) {
        return usage();
    }
    let report = run(plan, |part| parts.is_empty() || parts.iter().any(|asked| asked == part));
    print!("\n{}", report.tables());
    if plan.gauge == Gauge::Instructions {
        print!("\n{}", targets::table(&report));
    }
    // Only a full run replaces the files.
    if parts.is_empty() {
        report.write(&root.join(plan.file));
        println!("\nwritten: {}", plan.file);
        if plan.gauge == Gauge::CpuTime {
            picture::draw(&Report::read(&root.join(plan.file)), &root.join(PICTURE));
            println!("drawn: {PICTURE}");
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo bench --bench bench -- picture | time | instructions [{}]...", PARTS.join(" | "));
    ExitCode::FAILURE
}

fn run(plan: &Plan, wanted: impl Fn(&str) -> bool) -> Report {
    let progress = Progress::start();
    let mut bench = Bench::start(plan.gauge, &[]);
    let mut report = Report {
        server: server_version(&mut bench),
        unit: plan.gauge.unit().to_owned(),
        rounds: plan.rounds,
        ..Report::default()
    };
    if wanted("costs") {
        let cases = all_cases(&bench);
        report.costs = costs(plan, &mut bench, &progress, &cases);
    }
    if wanted("aof") {
        let mut bench = Bench::start(plan.gauge, &["--appendonly", "yes", "--appendfsync", "no"]);
        set_policies(&bench);
        let cases: Vec<Case> = plain_cases().into_iter().chain(allowed_commands()).chain(allowed_together()).collect();
        report.costs_with_aof = costs(plan, &mut bench, &progress, &cases);
    }
    if wanted("growth") {
        report.growth = growth::with_keys(&mut bench, plan.most_keys, plan.requests, &progress);
        report.growth.extend(growth::with_limit(&mut bench, plan.requests, &progress));
        report.growth.extend(growth::with_cost(&mut bench, plan.requests, &progress));
        report.growth.extend(growth::with_log_length(plan.gauge, plan.requests, &progress));
    }
    if wanted("latency") && plan.gauge == Gauge::CpuTime {
        for case in plain_cases().into_iter().chain(allowed_commands()) {
            progress.show(&format!("latency: {}", case.name));
            report.latency.push(latency::measure(&bench.server, &case));
        }
    }
    if wanted("memory") {
        report.memory = memory::measure(&progress);
    }
    if wanted("worst") {
        report.worst_on_a_long_log = growth::worst_on_a_long_log(&progress);
    }
    progress.end();
    report
}

fn server_version(bench: &mut Bench) -> String {
    match bench.client.info("valkey_version") {
        version if version.is_empty() => format!("Redis {}", bench.client.info("redis_version")),
        version => format!("Valkey {version}"),
    }
}

/// All cases, the plain writes first.
fn plain_cases() -> Vec<Case> {
    vec![incr(), set_ex()]
}

fn allowed_commands() -> impl Iterator<Item = Case> {
    ALGORITHMS.iter().map(|algorithm| {
        let [allowed, _denied] = algorithm.command_cases();
        allowed
    })
}

/// Cases with policies, and with several limits.
fn allowed_together() -> impl Iterator<Item = Case> {
    let checks = ALGORITHMS.iter().map(|algorithm| {
        let [allowed, _denied] = algorithm.check_cases();
        allowed
    });
    let [all_allow, _one_denies] = cases::all_cases();
    checks.chain([all_allow])
}

/// Sets the policies that the cases use.
fn set_policies(bench: &Bench) {
    let mut client = bench.server.connect();
    for policy in ALGORITHMS.iter().flat_map(cases::Algorithm::policies) {
        client.get::<()>(&policy.join(" "));
    }
}

fn all_cases(bench: &Bench) -> Vec<Case> {
    let mut cases = plain_cases();
    cases.extend(ALGORITHMS.iter().flat_map(cases::Algorithm::command_cases));
    set_policies(bench);
    cases.extend(ALGORITHMS.iter().flat_map(cases::Algorithm::check_cases));
    cases.extend(cases::all_cases());
    for algorithm in &ALGORITHMS {
        let sha = memory::load_script(&bench.server, algorithm.script);
        cases.extend(algorithm.script_cases(&sha));
    }
    cases
}

/// Measures all cases in turn, for several rounds.
fn costs(plan: &Plan, bench: &mut Bench, progress: &Progress, cases: &[Case]) -> Vec<Cost> {
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for round in 1..=plan.rounds {
        for (case, costs) in cases.iter().zip(&mut found) {
            progress.show(&format!("round {round} of {}: {}", plan.rounds, case.name));
            costs.push(bench.cost(case, plan.keys, plan.requests));
        }
    }
    let compared = |name: &str, with: &str| -> Option<f64> {
        let costs_of = |name: &str| cases.iter().position(|case| case.name == name).map(|at| &found[at]);
        let (costs, base) = (costs_of(name)?, costs_of(with)?);
        Some(median(costs.iter().zip(base).map(|(cost, base)| cost / base).collect()))
    };
    let cost = |(case, costs): (&Case, &Vec<f64>)| Cost {
        name: case.name.clone(),
        median: median(costs.clone()),
        lowest: costs.iter().copied().fold(f64::INFINITY, f64::min),
        highest: costs.iter().copied().fold(0.0, f64::max),
        to_incr: compared(&case.name, "INCR").unwrap_or(f64::NAN),
        to_set: compared(&case.name, "SET EX").unwrap_or(f64::NAN),
        script: case.name.strip_prefix("RL.").and_then(|rest| compared(&format!("Lua {rest}"), &case.name)),
    };
    cases.iter().zip(&found).map(cost).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
