//! A wall clock that jumps back and forth by anything from seconds to years, to the ends of time, while traffic runs:
//! nobody is blocked for longer than a window or a fill, and nobody gains more than one extra limit a jump.

mod common;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use common::load::under_load;
use common::traffic::all_digests;
use common::{eventually, Client, Server, START};
use fastrand::Rng;

/// Each has a limit of ten and is as good as new after ten seconds.
const REQUESTS: [&str; 5] = [
    "RL.TOKENBUCKET bucket 10 1",
    "RL.LEAKYBUCKET queue 10 1",
    "RL.FIXEDWINDOW window 10 10",
    "RL.SLIDINGLOG log 10 10",
    "RL.SLIDINGCOUNTER counter 10 10",
];
const LIMIT: u64 = 10;
const WINDOW: u64 = 10_000_000;

const SECOND: u64 = 1_000_000;
const YEAR: u64 = 365 * 86_400 * SECOND;
/// The last moment that nanoseconds in 64 bits can tell, in 2262.
const YEAR_2262: u64 = (i64::MAX as u64) / 1_000;
/// The last moment of the year 9999.
const YEAR_9999: u64 = 253_402_300_799_999_999;

/// What may be admitted while the clock goes its way, counted as the contract says.
#[derive(Default)]
struct Allowance {
    /// Of finished stretches in which the clock went forward only.
    before: [u64; REQUESTS.len()],
    /// How long this stretch has been; a jump counts for a window at most, since more waiting is of no more use.
    length: u64,
    /// How many windows of the clock this stretch has seen.
    windows: u64,
}

impl Allowance {
    /// The clock is turned: forward is like waiting, back starts anew with one extra limit.
    fn turn(&mut self, from: u64, to: u64) {
        if to < from {
            *self = Self { before: self.so_far(), ..Self::default() };
        } else {
            self.length += (to - from).min(WINDOW);
            self.windows += u64::from(from / WINDOW != to / WINDOW);
        }
    }

    fn so_far(&self) -> [u64; REQUESTS.len()] {
        let bucket = LIMIT + self.length / SECOND;
        let window = LIMIT * (1 + self.windows);
        // Half-open windows, each with a limit of its own; a stretch of exactly one window touches two of them.
        let log = LIMIT * (1 + self.length / WINDOW);
        // The counter is close to the log, and never above what its windows admit.
        let stretch = [bucket, bucket, window, log, window];
        std::array::from_fn(|index| self.before[index] + stretch[index])
    }
}

#[test]
fn jumps_under_traffic_block_nobody_for_long_and_give_nobody_more_than_a_limit() {
    let mut server = Server::with_clock(&["--appendonly", "yes"]);
    let admitted: [AtomicI64; REQUESTS.len()] = Default::default();
    let rounds = AtomicU64::new(0);
    let worker = |_| {
        |client: &mut Client| {
            for (request, admitted) in REQUESTS.iter().zip(&admitted) {
                let told = client.limit(request);
                // Nobody has used force, so whoever is denied waits for a window or a fill at most.
                assert!(told[3] <= 10_001, "{request}: blocked for {} ms", told[3]);
                assert!((0..=10).contains(&told[2]) && told[4] <= 20_000, "{request}: {told:?}");
                admitted.fetch_add(told[0], Ordering::SeqCst);
            }
            rounds.fetch_add(1, Ordering::SeqCst);
        }
    };
    let mut clock = server.take_clock();
    let mut allowance = Allowance::default();
    let mut random = Rng::with_seed(7);
    under_load(&server, 3, worker, || {
        for jump in 0..400 {
            let most = [SECOND, 3 * SECOND, 15 * SECOND, 5 * 3_600 * SECOND, 80 * YEAR][jump % 5];
            let (from, by) = (clock.now(), random.u64(1..=most));
            let to = if random.bool() { from.saturating_add(by).min(YEAR_9999) } else { from.saturating_sub(by) };
            clock.set(to);
            allowance.turn(from, to);
            // So that there is traffic between any two jumps.
            let seen = rounds.load(Ordering::SeqCst);
            eventually("requests are served", || rounds.load(Ordering::SeqCst) >= seen + 6);
        }
    });
    for (index, request) in REQUESTS.iter().enumerate() {
        let (admitted, most) = (admitted[index].load(Ordering::SeqCst), allowance.so_far()[index]);
        assert!(u64::try_from(admitted).expect("a count") <= most, "{request}: {admitted} of at most {most}");
        assert!(admitted > 400, "{request}: only {admitted} of {most} were admitted");
    }
    assert_no_bug(&mut server);
    // What was written down of all this makes the same keys again.
    let before = all_digests(&mut server.connect());
    assert_eq!(before.len(), REQUESTS.len());
    server.restart();
    assert_eq!(all_digests(&mut server.connect()), before);
    assert_no_bug(&mut server);
}

#[test]
fn a_clock_that_trembles_within_a_window_gives_nobody_anything() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for request in REQUESTS {
        let mut admitted = 0;
        for step in 0..500 {
            // Within three seconds in the middle of a window.
            server.clock().set(START + 3 * SECOND + step * 1_234_567 % (3 * SECOND));
            admitted += client.limit(request)[0];
        }
        let refilled = if request.contains("BUCKET") { 3 } else { 0 };
        assert!((10..=10 + refilled).contains(&admitted), "{request}: {admitted}");
    }
}

/// As [`REQUESTS`], with a limit of one: even the smallest step back is as long as all that was used took.
const SINGLE: [&str; 5] = [
    "RL.TOKENBUCKET bucket 1 0.1",
    "RL.LEAKYBUCKET queue 1 0.1",
    "RL.FIXEDWINDOW window 1 10",
    "RL.SLIDINGLOG log 1 10",
    "RL.SLIDINGCOUNTER counter 1 10",
];

#[test]
fn whoever_waits_as_told_after_a_jump_is_admitted() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let jumps = [
        (START, 0),
        // Out of a window, and within one.
        (START, START - 1),
        (START + 1, START),
        (START, START - 5 * SECOND),
        (YEAR_9999, START),
        (START, YEAR_2262),
        (YEAR_2262, 1),
    ];
    let requests = || REQUESTS.map(|request| (10, request)).into_iter().chain(SINGLE.map(|request| (1, request)));
    for ((from, to), force) in jumps.into_iter().flat_map(|jump| [(jump, false), (jump, true)]) {
        for (limit, request) in requests() {
            let shown = format!("{request} from {from} to {to}, forced: {force}");
            client.get::<()>("FLUSHALL");
            server.clock().set(from);
            while client.limit(request)[0] == 1 {}
            if force {
                assert_eq!(client.limit(&format!("{request} COST {limit} FORCE"))[..3], [0, limit, 0], "{shown}");
            }
            server.clock().set(to);
            let mut extra = 0;
            let wait = loop {
                match client.limit(request)[..] {
                    [1, ..] => extra += 1,
                    [_, _, _, wait, ..] => break u64::try_from(wait).expect("a wait"),
                    _ => panic!("too short a reply"),
                }
            };
            assert!(extra <= limit, "{shown}: {extra} more than the limit");
            assert!(wait <= if force { 20_001 } else { 10_001 }, "{shown}: blocked for {wait} ms");
            server.clock().advance_ms(wait);
            let told = client.limit(request);
            assert_eq!(told[0], 1, "{shown}: not after {wait} ms");
            // And the key lives as long as it is needed, by the clock as it is now.
            let key = request.split(' ').nth(1).expect("a key");
            let left = client.get::<i64>(&format!("PTTL {key}"));
            assert!((told[4]..=2 * told[4] + 1_000).contains(&left), "{shown}: {told:?} but expires in {left} ms");
        }
    }
    assert_no_bug(&mut server);
}

#[test]
fn the_ends_of_time_and_of_the_numbers_meet_without_harm() {
    let mut server = Server::with_clock(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = server.connect();
    let most = "9007199254740991";
    let buckets = [
        ("1", "1/3650d"),
        ("1", "1000000000"),
        (most, "1000000000"),
        ("36500", "1/d"),
        (most, "999999999.999999999999"),
    ];
    let windows = [("1", "1ms"), ("1", "3650d"), (most, "1ms"), (most, "3650d"), ("7", "1000001us")];
    let ends = [START, 0, 1, 999_999, 1, 0, YEAR_2262 - 1, YEAR_2262, YEAR_2262 + 1, YEAR_9999, 1, YEAR_9999, 0, START];
    for now in ends {
        server.clock().set(now);
        for command in ["TOKENBUCKET", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGLOG", "SLIDINGCOUNTER"] {
            let quotas = if command.ends_with("BUCKET") { buckets } else { windows };
            for (number, (limit, pace)) in quotas.into_iter().enumerate() {
                let limit_number: i64 = limit.parse().expect("a number");
                for options in ["", "COST 2 FORCE", &format!("COST {most} FORCE"), &format!("COST {most}")] {
                    let request = format!("RL.{command} {command}{number} {limit} {pace} {options}");
                    let told = client.limit(&request);
                    assert_eq!(told[1], limit_number, "{request} at {now}");
                    assert!((0..=limit_number).contains(&told[2]), "{request} at {now}: {told:?}");
                    assert!(told[3] >= -1 && told[4] >= 0, "{request} at {now}: {told:?}");
                    assert_eq!(told[3] == 0, told[0] == 1, "{request} at {now}: {told:?}");
                }
            }
        }
        // What is held at such a time can be saved, loaded and copied.
        let before = all_digests(&mut client);
        assert_eq!(before.len(), 25, "at {now}");
        client.get::<()>("DEBUG RELOAD");
        assert_eq!(all_digests(&mut client), before, "at {now}");
        for (key, digest) in &before {
            client.get::<()>(&format!("COPY {key} copy REPLACE"));
            assert_eq!(client.digest("copy"), *digest, "{key} at {now}");
        }
        client.get::<()>("DEL copy");
        client.get::<()>("BGREWRITEAOF");
        client.wait_for_files();
        assert_eq!(client.info("aof_last_bgrewrite_status"), "ok", "at {now}");
    }
    assert_no_bug(&mut server);
    let before = all_digests(&mut client);
    server.restart();
    assert_eq!(all_digests(&mut server.connect()), before);
    assert_no_bug(&mut server);
}

/// Every overflow and every other bug is a panic, which is caught and logged; so is what cannot be applied while a file
/// is loaded.
fn assert_no_bug(server: &mut Server) {
    assert!(server.is_running());
    let log = server.log();
    assert!(!log.contains("a bug was caught") && !log.contains("== CRITICAL =="), "{log}");
}
