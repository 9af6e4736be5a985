//! The pictures of the README (`make pictures`) are up to date, accessible and correct.

#[path = "../../examples/pictures/outcome.rs"]
mod outcome;
#[path = "../../examples/pictures/traffic.rs"]
mod traffic;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use fastrand::Rng;
use limiter::{Algorithm, Micros};
use outcome::{admitted, ask, in_last_window, most, quota, Outcome};
use regex::Regex;
use traffic::SECOND;

/// The example program that cargo has just built.
fn program() -> PathBuf {
    let tests = env::current_exe().expect("a path");
    let program = tests.parent().and_then(Path::parent).expect("a folder").join("examples/pictures");
    assert!(program.exists(), "{} is not built: run `cargo build --examples` first", program.display());
    program
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn readme() -> String {
    fs::read_to_string(in_repository("README.md")).expect("a file")
}

/// The pictures in a folder by name.
fn pictures(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.map(|path| (name(&path), fs::read_to_string(&path).expect("text"))).collect()
}

fn kept() -> BTreeMap<String, String> {
    pictures(&in_repository("docs/pictures"))
}

/// Whether all elements are closed in the right order, and the text between them is escaped.
fn is_well_formed(text: &str) -> bool {
    let token = r#"^(?:<([a-z]+)(?: [a-zA-Z]+="[^"<&]*")*(/?)>|</([a-z]+)>|[^<>&]+)"#;
    let token = Regex::new(token).expect("a pattern");
    let (mut rest, mut open) = (text, Vec::new());
    while let Some(found) = token.captures(rest) {
        let name = |group: usize| found.get(group).map(|name| name.as_str());
        match (name(1), name(2), name(3)) {
            (Some(begun), Some(""), _) => open.push(begun),
            (_, _, Some(ended)) if open.pop() != Some(ended) => return false,
            _ => {}
        }
        rest = &rest[found[0].len()..];
    }
    rest.is_empty() && open.is_empty() && text.starts_with("<svg ")
}

#[test]
fn the_pictures_and_figures_of_the_readme_are_up_to_date() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pictures-{}", process::id()));
    let output = Command::new(program()).arg(&folder).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let now = pictures(&folder);
    fs::remove_dir_all(folder).expect("removed");
    assert_eq!(now.len(), 4);
    assert!(now == kept(), "docs/pictures is not up to date: run `make pictures`");
    let figures = String::from_utf8(output.stdout).expect("text");
    let stated = figures.lines().next().expect("a line");
    let readme = readme().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stated.contains('%') && readme.contains(stated), "README.md does not say: {stated}");
}

#[test]
fn every_picture_is_shown_and_accessible() {
    let readme = readme();
    for (name, picture) in kept() {
        assert!(is_well_formed(&picture), "{name}");
        for part in ["role=\"img\"", "<title>", "<desc>", "class=\"card\"", "prefers-color-scheme: dark"] {
            assert!(picture.contains(part), "{name} has no {part}");
        }
        let shown = Regex::new(&format!(r"!\[[^\]]{{20,}}\]\(docs/pictures/{name}\)")).expect("a pattern");
        assert!(shown.is_match(&readme), "README.md does not show {name} with an alternative text");
    }
    for bad in ["<svg >", "<svg ><a></svg>", "<svg x=\"1\"><a></svg></a>", "<svg x=\"1\">&</svg>", "<svg x=1></svg>"] {
        assert!(!is_well_formed(bad), "{bad}");
    }
}

/// The most requests admitted in any ten seconds.
fn most_in_ten_seconds(outcomes: &[Outcome]) -> u64 {
    most(&in_last_window(outcomes, 10 * SECOND))
}

/// The most requests admitted in any window of the clock.
fn most_in_a_window(outcomes: &[Outcome], window: Micros) -> u64 {
    let mut counts = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.allowed) {
        *counts.entry(outcome.came / window).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

#[test]
fn around_a_boundary_a_fixed_window_admits_two_limits_and_a_log_one() {
    let traffic = traffic::around_a_boundary();
    let [window, log] =
        [Algorithm::FixedWindow, Algorithm::SlidingLog].map(|algorithm| ask(&quota(algorithm, "10", "10"), &traffic));
    assert_eq!((admitted(&window), most_in_ten_seconds(&window), most_in_a_window(&window, 10 * SECOND)), (20, 20, 10));
    assert_eq!((admitted(&log), most_in_ten_seconds(&log)), (10, 10));
    let time = traffic[traffic.len() - 1] - traffic[0];
    assert!(time < 10 * SECOND / 2, "the two limits are {time} us apart");
}

#[test]
fn each_algorithm_keeps_its_bound_under_bursts() {
    let traffic = traffic::bursty();
    let through = |algorithm, b| ask(&quota(algorithm, "10", b), &traffic);
    let bucket = through(Algorithm::TokenBucket, "1");
    for (i, first) in bucket.iter().enumerate() {
        for (n, last) in (1..).zip(&bucket[i..]) {
            let seconds = (last.came - first.came) / SECOND;
            assert!(admitted(&bucket[i..i + n]) <= 10 + seconds, "more than ten and {seconds}");
        }
    }
    assert_eq!(most_in_a_window(&through(Algorithm::FixedWindow, "10"), 10 * SECOND), 10);
    assert_eq!(most_in_ten_seconds(&through(Algorithm::SlidingLog, "10")), 10);
    let counter = through(Algorithm::SlidingCounter, "10");
    assert_eq!(most_in_a_window(&counter, 10 * SECOND), 10);
    assert!((10..20).contains(&most_in_ten_seconds(&counter)));
}

#[test]
fn a_leaky_bucket_admits_like_a_token_bucket_and_spaces_requests_evenly() {
    let [leaky, token] = [Algorithm::LeakyBucket, Algorithm::TokenBucket]
        .map(|algorithm| ask(&quota(algorithm, "8", "1"), &traffic::three_bursts()));
    let decisions = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.allowed).collect::<Vec<_>>();
    assert_eq!(decisions(&leaky), decisions(&token));
    assert!(token.iter().all(|outcome| outcome.leaves == outcome.came));
    let admitted: Vec<Outcome> = leaky.into_iter().filter(|outcome| outcome.allowed).collect();
    let delayed = admitted.iter().filter(|outcome| outcome.leaves > outcome.came).count();
    assert!(delayed > 15 && delayed < admitted.len(), "{delayed} of {} are delayed", admitted.len());
    for pair in admitted.windows(2) {
        // A request leaves at once only if the queue is empty.
        let next = pair[0].leaves + SECOND;
        assert_eq!(pair[1].leaves, next.max(pair[1].came));
    }
}

#[test]
fn a_sliding_counter_admits_up_to_two_limits_and_a_log_one() {
    let minute = 60 * SECOND;
    let through = |algorithm, traffic: &[Micros]| ask(&quota(algorithm, "100", "60"), traffic);
    let most_in_a_minute = |outcomes: &[Outcome]| most(&in_last_window(outcomes, minute));
    let unlucky = traffic::unlucky(100, minute);
    assert_eq!(most_in_a_minute(&through(Algorithm::SlidingCounter, &unlucky)), 200);
    assert_eq!(most_in_a_minute(&through(Algorithm::SlidingLog, &unlucky)), 100);
    let mut rng = Rng::with_seed(2);
    let bursts = traffic::random_bursts(&mut rng, minute / 150, 20_000);
    let counter = through(Algorithm::SlidingCounter, &bursts);
    assert_eq!(most_in_a_window(&counter, minute), 100);
    assert!((110..=200).contains(&most_in_a_minute(&counter)), "not between the usual and the worst case");
    assert_eq!(most_in_a_minute(&through(Algorithm::SlidingLog, &bursts)), 100);
}

#[test]
fn random_gaps_are_exponential_with_the_given_mean() {
    const MEAN: Micros = 600_000;
    let mut rng = Rng::with_seed(3);
    let times: Vec<Micros> = traffic::steady(&mut rng, MEAN).take(100_000).collect();
    let mut gaps: Vec<Micros> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    // In an exponential distribution half of the gaps are below ln 2 of the mean, and 1 in e^2 is above twice the mean.
    let near = |value: Micros, expected: Micros| value.abs_diff(expected) <= expected / 50;
    assert!(near(times[99_999] / 100_000, MEAN), "{}", times[99_999]);
    assert!(near(gaps[50_000], 415_888), "{}", gaps[50_000]);
    assert!(near(gaps[86_466], 2 * MEAN), "{}", gaps[86_466]);
    let bursts = traffic::random_bursts(&mut rng, MEAN, 100_000);
    assert!(bursts.is_sorted() && bursts.len() == 100_000);
    assert!(bursts[99_999].abs_diff(100_000 * MEAN) < 100_000 * MEAN / 10, "{}", bursts[99_999]);
}
