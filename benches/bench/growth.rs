//! Growth of the cost of a request: with the number of keys, the limit, the request's cost, or the length of a log.

use crate::cases::{words, Algorithm, Case, Expected, Per, ALGORITHMS};
use crate::common::Server;
use crate::gauge::Gauge;
use crate::load::{per_request, send_batch, Bench};
use crate::progress::Progress;
use crate::report::{Growth, Worst};

const HOUR: u64 = 3_600_000_000;
/// Requests at the same time; at most the entries of the shortest log.
const BATCH: usize = 10;

/// Requests to each key in measurements with a fixed number of keys; at most the smallest limit.
const VISITS: usize = 5;

fn command(algorithm: &Algorithm, limit: u64, more: &str) -> Case {
    let mut request = algorithm.command(limit, Per::Day);
    request.extend(words(more));
    let name = format!("RL.{} allowed", algorithm.name);
    Case { name, prime: request.clone(), request, expected: Expected::Allowed }
}

/// The commands on more and more keys, and `INCR` on as many: more memory means more cache misses for both.
pub fn with_keys(bench: &mut Bench, most: usize, requests: usize, progress: &Progress) -> Vec<Growth> {
    let sizes = [1_000, 10_000, 100_000, 1_000_000];
    let cases = std::iter::once(crate::cases::incr()).chain(ALGORITHMS.iter().map(|it| command(it, 1_000, "")));
    let grow = |case: Case| Growth {
        name: case.name.clone(),
        with: "keys".to_owned(),
        costs: sizes
            .iter()
            .take_while(|&&keys| keys <= most)
            .map(|&keys| {
                progress.show(&format!("growth with keys: {} on {keys}", case.name));
                (keys as u64, bench.cost(&case, keys, requests))
            })
            .collect(),
    };
    cases.map(grow).collect()
}

/// The commands with higher and higher limits. Logs are measured separately, as they are filled up to the limit.
pub fn with_limit(bench: &mut Bench, requests: usize, progress: &Progress) -> Vec<Growth> {
    let grow = |algorithm: &Algorithm| Growth {
        name: format!("RL.{} allowed", algorithm.name),
        with: "limit".to_owned(),
        costs: [10, 1_000, 100_000, 1_000_000]
            .iter()
            .map(|&limit| {
                progress.show(&format!("growth with the limit: {} {limit}", algorithm.name));
                (limit, bench.cost(&command(algorithm, limit, ""), requests / VISITS, requests))
            })
            .collect(),
    };
    ALGORITHMS.iter().filter(|it| it.name != "SLIDINGLOG").map(grow).collect()
}

/// The commands with higher and higher costs.
pub fn with_cost(bench: &mut Bench, requests: usize, progress: &Progress) -> Vec<Growth> {
    let grow = |algorithm: &Algorithm| Growth {
        name: format!("RL.{} allowed", algorithm.name),
        with: "cost".to_owned(),
        costs: [1, 1_000, 1_000_000]
            .iter()
            .map(|&cost| {
                progress.show(&format!("growth with the cost: {} {cost}", algorithm.name));
                let case = command(algorithm, 1_000_000_000, &format!("COST {cost}"));
                (cost, bench.cost(&case, requests / VISITS, requests))
            })
            .collect(),
    };
    ALGORITHMS.iter().map(grow).collect()
}

/// Requests to a full log, of which each drops the oldest entry; and denied requests to a full log.
pub fn with_log_length(gauge: Gauge, requests: usize, progress: &Progress) -> Vec<Growth> {
    let mut server = Server::with_clock_under(&gauge.wrapper(), gauge.settings());
    let (mut client, meter) = (server.connect(), gauge.on(&server));
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for length in [10_usize, 1_000, 100_000, 1_000_000] {
        progress.show(&format!("growth with the length of a log: {length}"));
        client.get::<()>("FLUSHALL");
        let request = words(&format!("RL.SLIDINGLOG log {length} 1h"));
        let step = HOUR / (length / BATCH) as u64;
        for _ in 0..length / BATCH {
            send_batch(&mut client, &request, 0..BATCH, Expected::Allowed);
            server.clock().advance_us(step);
        }
        // One step back, where the oldest entries still count.
        let now = server.clock().now();
        server.clock().set(now - step);
        let cost = meter.measure(&mut client, |client| {
            (0..requests / BATCH).for_each(|_| send_batch(client, &request, 0..BATCH, Expected::Denied));
        });
        denied.push((length as u64, per_request(cost, requests)));
        server.clock().set(now);
        let cost = meter.measure(&mut client, |client| {
            for _ in 0..requests / BATCH {
                send_batch(client, &request, 0..BATCH, Expected::Allowed);
                server.clock().advance_us(step);
            }
        });
        allowed.push((length as u64, per_request(cost, requests)));
    }
    let growth = |outcome: &str, costs| Growth {
        name: format!("RL.SLIDINGLOG {outcome}, full"),
        with: "entries".to_owned(),
        costs,
    };
    vec![growth("allowed", allowed), growth("denied", denied)]
}

/// The most expensive requests to a log of a million entries, in microseconds by the server's statistics. Each is
/// measured several times, and the least counts, as a busy machine adds to the others.
pub fn worst_on_a_long_log(progress: &Progress) -> Vec<Worst> {
    let mut server = Server::with_clock(&[]);
    let cases = [
        ("denied, with a cost of half the limit", "COST 500000", 0),
        ("forced, when it is full", "COST 500000 FORCE", 0),
        ("the first after all entries have left", "", 2 * HOUR),
    ];
    let worst = |(name, options, later): (&str, &str, u64)| {
        progress.show(&format!("a log of a million entries: {name}"));
        let micros = (0..3).map(|_| micros_on_a_long_log(&mut server, options, later)).min();
        Worst { name: name.to_owned(), micros: micros.unwrap_or(0) }
    };
    cases.map(worst).into()
}

/// The time of a request with these options, this long after the log was filled.
fn micros_on_a_long_log(server: &mut Server, options: &str, later: u64) -> u64 {
    const LENGTH: usize = 1_000_000;
    let mut client = server.connect();
    client.get::<()>("FLUSHALL");
    let filling = words(&format!("RL.SLIDINGLOG log {LENGTH} 1h"));
    let batches = (LENGTH / 100) as u64;
    let start = server.clock().now();
    for batch in 1..=batches {
        send_batch(&mut client, &filling, 0..100, Expected::Allowed);
        server.clock().set(start + batch * (HOUR / 2) / batches);
    }
    // The server measures with the test clock, so it must run.
    server.clock().run_from(start + HOUR / 2 + later);
    client.get::<()>("CONFIG RESETSTAT");
    client.limit(&format!("RL.SLIDINGLOG log {LENGTH} 1h {options}"));
    let stats = client.info("cmdstat_RL.SLIDINGLOG");
    let micros = stats.split(',').find_map(|part| part.strip_prefix("usec=")).and_then(|usec| usec.parse().ok());
    micros.expect("the command's statistics")
}
