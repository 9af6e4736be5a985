//! A wall clock that jumps back and forth by anything from microseconds to years, to the ends of time, while traffic
//! runs: a step back of up to a window, or a fill, forgives nothing, a longer one at most one limit, and nobody is blocked
//! for longer than a window, or a fill, and the step.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fastrand::Rng;

use crate::common::load::under_load;
use crate::common::multi::{ask, set};
use crate::common::replicas::{attach, catch_up};
use crate::common::traffic::all_digests;
use crate::common::{eventually, Client, Server, START};

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
    /// Before the clock was last turned back by so much that everything was forgotten.
    before: [u64; REQUESTS.len()],
    /// The latest time since then, to which the clock has to come again before any time passes.
    latest: u64,
    /// How long it took to get there; a jump counts for a window at most, since more waiting is of no more use.
    length: u64,
    /// How many windows of the clock were entered since then.
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
                // Without force a wait is one window or fill at most, plus a step back that is no longer than that.
                assert!(told[3] <= 20_001, "{request}: blocked for {} ms", told[3]);
                assert!((0..=10).contains(&told[2]) && told[4] <= 30_000, "{request}: {told:?}");
                admitted.fetch_add(told[0], Ordering::SeqCst);
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
fn a_clock_that_trembles_never_admits_one_more() {
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
            // What is taken all the same is taken at the latest time, so that the next step back wins nothing either.
            server.clock().set(MIDDLE - most);
            answer(&mut client, &format!("{request} FORCE"));
            server.clock().set(MIDDLE);
            assert!(!answer(&mut client, &request).allowed, "{request} by up to {most} us");
        }
    }
}

/// The middle of a window, so that no step forward within half of it enters the next.
const MIDDLE: u64 = START / WINDOW * WINDOW + WINDOW / 2;

/// As [`REQUESTS`] to one key, by policies too, and with a limit of one, where even the smallest step back is as long as all
/// that was used took. With each its limit.
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

/// What a request is told, by one limit or by a policy.
struct Answer {
    allowed: bool,
    wait: u64,
    reset: i64,
}

fn answer(client: &mut Client, request: &str) -> Answer {
    let (allowed, wait, limits) = if request.starts_with("RL.CHECK") {
        ask(client, request)
    } else {
        let told = client.limit(request);
        (told[0], told[3], vec![told])
    };
    let reset = limits.iter().map(|told| told[4]).max().expect("a limit");
    Answer { allowed: allowed == 1, wait: u64::try_from(wait).expect("a wait"), reset }
}

#[test]
fn a_step_back_forgives_nothing_or_one_limit_and_the_wait_that_is_told_is_exact() {
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
            let forgives = step > WINDOW || to > from;
            assert_eq!(extra, if forgives { limit } else { 0 }, "{shown}");
            let behind = if forgives { 0 } else { step.div_ceil(1_000) };
            let longest = if force && !forgives { 20_001 } else { 10_001 } + behind;
            assert!(wait <= longest, "{shown}: blocked for {wait} ms");
            server.clock().advance_ms(wait - 1);
            assert!(!answer(&mut client, &request).allowed, "{shown}: before {wait} ms");
            server.clock().advance_ms(1);
            let Answer { allowed, reset, .. } = answer(&mut client, &request);
            assert!(allowed, "{shown}: not after {wait} ms");
            // And the key lives as long as it is needed, by the clock as it is now.
            let left = client.get::<i64>("PTTL key");
            assert!(
                (reset..=reset + reset / 4 + 1_000).contains(&left),
                "{shown}: {reset} ms but expires in {left} ms"
            );
        }
    }
    assert_no_bug(&mut server);
}

#[test]
fn replicas_agree_while_the_clock_is_turned_back_and_forth() {
    // The link takes its time-outs from the same clock, which jumps by years here.
    let steady = [["--repl-timeout", "2000000000"], ["--repl-backlog-ttl", "0"], ["--repl-diskless-sync-delay", "0"]];
    let mut primary = Server::with_clock(&steady.concat());
    // By the replica's own clock nothing ever expires.
    let mut replica = Server::with_clock(&steady.concat());
    replica.clock().set(1);
    let mut client = primary.connect();
    set_policies(&mut client);
    set(&mut client, "mixed", "FIXEDWINDOW 10 1 SLIDINGLOG 10 1h TOKENBUCKET 10 1 SLIDINGCOUNTER 10 10s");
    let mut follower = attach(&replica, &primary);
    let mut random = Rng::with_seed(13);
    // Both limits of each algorithm on one key, so that the quota changes too, and two commands that share these keys.
    let requests: Vec<String> = requests()
        .enumerate()
        .map(|(index, (_, request))| request.replace(" key", &format!(" key{}", index / 2)))
        .chain(["CL.THROTTLE key0 9 10 10", "RL.ALL 2 SLIDINGLOG key3 10 10 TOKENBUCKET key0 10 1"].map(str::to_owned))
        // A step that one limit forgets and another does not, in one key and in two.
        .chain(["RL.CHECK mixed key6", "RL.ALL 2 FIXEDWINDOW key2 10 10 SLIDINGLOG key7 10 1h"].map(str::to_owned))
        .collect();
    let mut compared = 0;
    for round in 0..300 {
        let most = [1_000, 3 * SECOND, 15 * SECOND, YEAR][round % 4];
        // What was used is forgotten by a long step, and so is any difference.
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
    assert_eq!(client.number("sync_full"), 1, "the replica was to be told of every step, not of the end");
    assert_no_bug(&mut primary);
    assert_no_bug(&mut replica);
}

#[test]
fn the_ends_of_time_and_of_the_numbers_meet_without_harm() {
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
