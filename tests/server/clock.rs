//! A wall clock that jumps by microseconds to years under traffic. A step back of up to one window or fill time admits
//! nothing extra, a longer one at most one limit, and waits are at most a window or fill time plus the step.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fastrand::Rng;

use crate::common::load::under_load;
use crate::common::multi::{ask, set};
use crate::common::replicas::{attach, catch_up};
use crate::common::traffic::all_digests;
use crate::common::{eventually, Client, Server, START};

/// Each has a limit of ten, and resets fully after ten seconds.
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
/// The last time in 64-bit nanoseconds, in 2262.
const YEAR_2262: u64 = (i64::MAX as u64) / 1_000;
/// The last time of the year 9999.
const YEAR_9999: u64 = 253_402_300_799_999_999;

/// How much may be admitted while the clock jumps, by the contract.
#[derive(Default)]
struct Allowance {
    /// Before the last step back that reset the limiters.
    before: [u64; REQUESTS.len()],
    /// The latest time since then. No time passes until the clock is there again.
    latest: u64,
    /// The time that has passed since then. A jump counts for at most one window, in which limits fully reset.
    length: u64,
    /// How many windows have begun since then.
    windows: u64,
}

impl Allowance {
    fn turn(&mut self, to: u64) {
        if self.latest.saturating_sub(to) > WINDOW {
            *self = Self { before: self.so_far(), latest: to, ..Self::default() };
        } else if to > self.latest {
            self.length += (to - self.latest).min(WINDOW);
            self.windows += u64::from(self.latest / WINDOW != to / WINDOW);
            self.latest = to;
        }
    }

    fn so_far(&self) -> [u64; REQUESTS.len()] {
        let bucket = LIMIT + self.length / SECOND;
        let window = LIMIT * (1 + self.windows);
        // A stretch of exactly one window touches two half-open windows.
        let log = LIMIT * (1 + self.length / WINDOW);
        // The counter admits about as much as the log, and no more than its windows.
        let stretch = [bucket, bucket, window, log, window];
        std::array::from_fn(|index| self.before[index] + stretch[index])
    }
}

#[test]
fn jumps_under_traffic_keep_waits_short_and_admit_at_most_one_limit_extra() {
    let mut server = Server::with_clock(&["--appendonly", "yes"]);
    let admitted: [AtomicI64; REQUESTS.len()] = Default::default();
    let rounds = AtomicU64::new(0);
    let worker = |_| {
        |client: &mut Client| {
            for (request, admitted) in REQUESTS.iter().zip(&admitted) {
                let reply = client.limit(request);
                // Without force a wait is at most one window or fill time, plus a step back of at most the same.
                assert!(reply[3] <= 20_001, "{request}: blocked for {} ms", reply[3]);
                assert!((0..=10).contains(&reply[2]) && reply[4] <= 30_000, "{request}: {reply:?}");
                admitted.fetch_add(reply[0], Ordering::SeqCst);
            }
            rounds.fetch_add(1, Ordering::SeqCst);
        }
    };
    let mut clock = server.take_clock();
    let mut allowance = Allowance { latest: clock.now(), ..Allowance::default() };
    let mut random = Rng::with_seed(7);
    under_load(&server, 3, worker, || {
        for jump in 0..400 {
            let most = [SECOND, 3 * SECOND, 15 * SECOND, 5 * 3_600 * SECOND, 80 * YEAR][jump % 5];
            let (from, by) = (clock.now(), random.u64(1..=most));
            let to = if random.bool() { from.saturating_add(by).min(YEAR_9999) } else { from.saturating_sub(by) };
            clock.set(to);
            allowance.turn(to);
            // Traffic between any two jumps.
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
    // The append-only file restores the same keys.
    let before = all_digests(&mut server.connect());
    assert_eq!(before.len(), REQUESTS.len());
    server.restart();
    assert_eq!(all_digests(&mut server.connect()), before);
    assert_no_bug(&mut server);
}

#[test]
fn small_steps_back_admit_no_more_than_the_limit() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    set_policies(&mut client);
    let mut random = Rng::with_seed(11);
    for (limit, request) in requests() {
        for most in [1, 1_000, SECOND, 10 * SECOND] {
            client.get::<()>("FLUSHALL");
            server.clock().set(MIDDLE);
            assert!(answer(&mut client, &format!("{request} COST {limit}")).allowed);
            let used_up = client.digest("key");
            for _ in 0..40 {
                server.clock().set(MIDDLE - random.u64(0..=most));
                for request in [request.clone(), format!("{request} COST {limit}")] {
                    assert!(!answer(&mut client, &request).allowed, "{request} by up to {most} us");
                }
            }
            assert_eq!(client.digest("key"), used_up, "a denial writes nothing");
            // A forced cost counts at the latest time, so the next step back admits nothing extra either.
            server.clock().set(MIDDLE - most);
            answer(&mut client, &format!("{request} FORCE"));
            server.clock().set(MIDDLE);
            assert!(!answer(&mut client, &request).allowed, "{request} by up to {most} us");
        }
    }
}

/// The middle of a window, so that steps of up to half a window stay within it.
const MIDDLE: u64 = START / WINDOW * WINDOW + WINDOW / 2;

/// As [`REQUESTS`], to one key, also by policies and with a limit of one; each with its limit.
fn requests() -> impl Iterator<Item = (i64, String)> {
    let plain = [
        ("TOKENBUCKET", "1", "0.1"),
        ("LEAKYBUCKET", "1", "0.1"),
        ("FIXEDWINDOW", "10", "10"),
        ("SLIDINGLOG", "10", "10"),
        ("SLIDINGCOUNTER", "10", "10"),
    ];
    let plain = plain.into_iter().flat_map(|(algorithm, of_ten, of_one)| {
        [(10, format!("RL.{algorithm} key 10 {of_ten}")), (1, format!("RL.{algorithm} key 1 {of_one}"))]
    });
    plain.chain([(10, "RL.CHECK ten key".to_owned()), (1, "RL.CHECK one key".to_owned())])
}

fn set_policies(client: &mut Client) {
    for (name, limit, rate) in [("ten", 10, "1"), ("one", 1, "0.1")] {
        let buckets = ["TOKENBUCKET", "LEAKYBUCKET"].map(|it| format!("{it} {limit} {rate}"));
        let windows = ["FIXEDWINDOW", "SLIDINGLOG", "SLIDINGCOUNTER"].map(|it| format!("{it} {limit} 10"));
        set(client, name, &[buckets.as_slice(), &windows].concat().join(" "));
    }
}

/// The reply of one limit or of a policy.
struct Answer {
    allowed: bool,
    wait: u64,
    reset: i64,
}

fn answer(client: &mut Client, request: &str) -> Answer {
    let (allowed, wait, limits) = if request.starts_with("RL.CHECK") {
        ask(client, request)
    } else {
        let reply = client.limit(request);
        (reply[0], reply[3], vec![reply])
    };
    let reset = limits.iter().map(|reply| reply[4]).max().expect("a limit");
    Answer { allowed: allowed == 1, wait: u64::try_from(wait).expect("a wait"), reset }
}

#[test]
fn a_step_back_admits_nothing_extra_or_one_limit_and_the_wait_is_exact() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    set_policies(&mut client);
    let steps = [1, 999, SECOND, WINDOW - 1, WINDOW, WINDOW + 1, 60 * SECOND, 3_600 * SECOND, YEAR, MIDDLE];
    let steps = steps.into_iter().map(|step| (MIDDLE, MIDDLE - step));
    let jumps: Vec<_> = steps.chain([(YEAR_9999, START), (START, YEAR_2262), (YEAR_2262, 1)]).collect();
    for (limit, request) in requests() {
        for ((from, to), force) in jumps.iter().flat_map(|jump| [(*jump, false), (*jump, true)]) {
            let shown = format!("{request} from {from} to {to}, forced: {force}");
            client.get::<()>("FLUSHALL");
            server.clock().set(from);
            assert!(answer(&mut client, &format!("{request} COST {limit}")).allowed, "{shown}");
            if force {
                assert!(!answer(&mut client, &format!("{request} COST {limit} FORCE")).allowed, "{shown}");
            }
            server.clock().set(to);
            let mut extra = 0;
            let wait = loop {
                match answer(&mut client, &request) {
                    Answer { allowed: true, .. } => extra += 1,
                    Answer { wait, .. } => break wait,
                }
            };
            let step = from.saturating_sub(to);
            let is_reset = step > WINDOW || to > from;
            assert_eq!(extra, if is_reset { limit } else { 0 }, "{shown}");
            let behind = if is_reset { 0 } else { step.div_ceil(1_000) };
            let longest = if force && !is_reset { 20_001 } else { 10_001 } + behind;
            assert!(wait <= longest, "{shown}: blocked for {wait} ms");
            server.clock().advance_ms(wait - 1);
            assert!(!answer(&mut client, &request).allowed, "{shown}: before {wait} ms");
            server.clock().advance_ms(1);
            let Answer { allowed, reset, .. } = answer(&mut client, &request);
            assert!(allowed, "{shown}: not after {wait} ms");
            // The key expires after the reset, by the present clock.
            let ttl = client.get::<i64>("PTTL key");
            assert!(
                (reset..=reset + reset / 4 + 1_000).contains(&ttl),
                "{shown}: resets in {reset} ms, expires in {ttl} ms"
            );
        }
    }
    assert_no_bug(&mut server);
}

#[test]
fn replicas_agree_while_the_clock_jumps() {
    // The timeouts of the link depend on the same clock, which jumps by years.
    let steady = [["--repl-timeout", "2000000000"], ["--repl-backlog-ttl", "0"], ["--repl-diskless-sync-delay", "0"]];
    let mut primary = Server::with_clock(&steady.concat());
    // By the replica's clock nothing ever expires.
    let mut replica = Server::with_clock(&steady.concat());
    replica.clock().set(1);
    let mut client = primary.connect();
    set_policies(&mut client);
    set(&mut client, "mixed", "FIXEDWINDOW 10 1 SLIDINGLOG 10 1h TOKENBUCKET 10 1 SLIDINGCOUNTER 10 10s");
    let mut follower = attach(&replica, &primary);
    let mut random = Rng::with_seed(13);
    // Both limits of each algorithm use one key, so that its quota changes, and two commands share these keys.
    let requests: Vec<String> = requests()
        .enumerate()
        .map(|(index, (_, request))| request.replace(" key", &format!(" key{}", index / 2)))
        .chain(["CL.THROTTLE key0 9 10 10", "RL.ALL 2 SLIDINGLOG key3 10 10 TOKENBUCKET key0 10 1"].map(str::to_owned))
        // Steps that reset one limit and not another, in one key and in two.
        .chain(["RL.CHECK mixed key6", "RL.ALL 2 FIXEDWINDOW key2 10 10 SLIDINGLOG key7 10 1h"].map(str::to_owned))
        .collect();
    let mut compared = 0;
    for round in 0..300 {
        let most = [1_000, 3 * SECOND, 15 * SECOND, YEAR][round % 4];
        // Compares before a long step, which resets all limits, and so any difference.
        if most == YEAR {
            catch_up(&mut client, &mut follower);
            let expected = all_digests(&mut client);
            assert_eq!(all_digests(&mut follower), expected);
            compared += expected.len();
        }
        let by = random.u64(0..=most);
        let now = primary.clock().now();
        primary.clock().set(if random.bool() { now + by } else { now - by });
        for request in &requests {
            let words: &[&str] = match &request[..3] {
                "CL." => &["", " 3"],
                _ if request.starts_with("RL.ALL") => &["", " COST 3"],
                _ => &["", " COST 3", " FORCE"],
            };
            client.call(&format!("{request}{}", words[random.usize(..words.len())])).expect("an answer");
            client.call(&format!("RL.REFUND key{} {}", random.usize(..8), random.u64(1..3))).expect("a refund");
        }
    }
    assert!(compared > 75 * 6, "only {compared} keys of eight were compared, 75 times");
    assert_eq!(client.number("sync_full"), 1, "the replica must receive every effect, and no second full sync");
    assert_no_bug(&mut primary);
    assert_no_bug(&mut replica);
}

#[test]
fn extreme_times_and_numbers_are_handled() {
    let mut server = Server::with_clock(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = server.connect();
    let most = "9007199254740991";
    let buckets =
        [("1", "1/3650d"), ("1", "1000000000"), (most, "1000000000"), ("36500", "1/d"), (most, "999999999.999999999")];
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
                    let reply = client.limit(&request);
                    assert_eq!(reply[1], limit_number, "{request} at {now}");
                    assert!((0..=limit_number).contains(&reply[2]), "{request} at {now}: {reply:?}");
                    assert!(reply[3] >= -1 && reply[4] >= 0, "{request} at {now}: {reply:?}");
                    assert_eq!(reply[3] == 0, reply[0] == 1, "{request} at {now}: {reply:?}");
                }
            }
        }
        // Values of such times can be saved, loaded and copied.
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

/// Overflows and other bugs are panics, which are caught and logged, as are effects of files that cannot be applied.
fn assert_no_bug(server: &mut Server) {
    assert!(server.is_running());
    let log = server.log();
    assert!(!log.contains("a bug was caught") && !log.contains("== CRITICAL =="), "{log}");
}
