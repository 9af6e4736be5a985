//! A short fuzz test of every decoder and parser: stored inputs, and random mutations of them. `make fuzz` runs longer,
//! guided by coverage.

use std::fmt::Write;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};

use crate::mutation::mutate;
use crate::targets::{Target, TARGETS};
use fastrand::Rng;

/// The number of mutated inputs for each target.
const RUNS: usize = 20_000;

/// The stored inputs of a target: one hexadecimal line each.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let file = format!("{}/fuzz/seeds/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let byte = |digits: &str| u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{file}: {digits}"));
    text.lines().map(|line| (0..line.len()).step_by(2).map(|at| byte(&line[at..at + 2])).collect()).collect()
}

/// Runs the target on an input. If it panics, prints the input as a line for the file of stored inputs.
fn attempt(name: &str, target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(|| target(input)) {
        let mut digits = String::new();
        for byte in input {
            let _ = write!(digits, "{byte:02x}");
        }
        eprintln!("add this line to fuzz/seeds/{name}.hex:\n{digits}");
        resume_unwind(panic);
    }
}

#[test]
fn stored_inputs_are_handled_without_panic() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(seeds.len() > 50, "{name}: only {} inputs are stored", seeds.len());
        for seed in seeds {
            attempt(name, target, &seed);
        }
    }
}

#[test]
fn mutated_inputs_are_handled_without_panic() {
    let mut random = Rng::new();
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        for _ in 0..RUNS {
            let [input, other] = [(); 2].map(|()| &seeds[random.usize(..seeds.len())]);
            attempt(name, target, &mutate(&mut random, input, other));
        }
    }
}
