//! A server under hostile traffic: it stays up and correct, its replica agrees, and no memory is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use limiter::{Algorithm, Quota};
use redis::Value;
use redis_ratelimit::replication::{EffectBytes, PolicyEffectBytes};
use serial_test::serial;

use crate::common::dump::{damaged, with_checksum};
use crate::common::live_keys::{assert_exact, Live};
use crate::common::load::EndOf;
use crate::common::mutation::mutate;
use crate::common::replicas::{attach, catch_up, digests_of};
use crate::common::traffic::Digest;
use crate::common::{eventually, Client, Server};

/// The duration, unless `HOSTILE_SECONDS` is set.
const SECONDS: u64 = 5;
const CONNECTIONS: u64 = 3;

/// The first five take a key and a limit.
const COMMANDS: [&str; 15] = [
    "RL.TOKENBUCKET",
    "rl.leakybucket",
    "RL.FIXEDWINDOW",
    "RL.SlidingLog",
    "RL.SLIDINGCOUNTER",
    "RL.APPLY",
    "RL.ALL",
    "RL.CHECK",
    "RL.PEEK",
    "RL.REFUND",
    "RL.INFO",
    "RL.POLICY",
    "RL.STATS",
    "RL.TOP",
    "CL.THROTTLE",
];
/// Limits of all kinds, some invalid.
const LIMITS: [&str; 8] = [
    "TOKENBUCKET 20 1/s",
    "LEAKYBUCKET 3 1/h",
    "FIXEDWINDOW 9007199254740991 1ms",
    "SLIDINGLOG 20 1h",
    "slidinglog 1000000 7",
    "SLIDINGCOUNTER 20 1h",
    "SLIDINGCOUNTER 0 1h",
    "NONE 1 1",
];
/// Commands of operators and of redis-cell's clients, some invalid.
const ADMINISTRATION: [&str; 20] = [
    "RL.STATS",
    "RL.STATS RESET",
    "RL.STATS RESET NOW",
    "RL.TOP",
    "RL.TOP 1",
    "RL.TOP 1000",
    "RL.TOP -1",
    "RL.TOP 1 1",
    "INFO ratelimit",
    "INFO ratelimit_policies",
    "CONFIG GET ratelimit.*",
    "CONFIG SET ratelimit.top-size 0",
    "CONFIG SET ratelimit.top-size 3",
    "CONFIG SET ratelimit.top-size 1000",
    "CONFIG SET ratelimit.cl-throttle maybe",
    "CL.THROTTLE @ 15 30 60",
    "CL.THROTTLE @ 15 30 60 0",
    "CL.THROTTLE @ 0 1 315360000 9007199254740991",
    "CL.THROTTLE @ 9007199254740990 9007199254740991 1",
    "SET @ 1790000000000000000 PX 5000",
];
/// Amounts, rates, windows and options, valid and invalid.
const WORDS: [&[u8]; 44] = [
    b"1",
    b"3",
    b"10",
    b"10",
    b"60",
    b"1000000",
    b"9007199254740991",
    b"1ms",
    b"1h",
    b"1d",
    b"3650d",
    b"3/5s",
    b"100/m",
    b"1/3650d",
    b"0.6",
    b"COST",
    b"COST",
    b"cost",
    b"FORCE",
    b"force",
    b"0",
    b"-1",
    b"",
    b" 1",
    b"1 ",
    b"+1",
    b"1.",
    b".5",
    b"1.5",
    b"1e9",
    b"0x10",
    b"NaN",
    b"inf",
    b"9007199254740992",
    b"18446744073709551616",
    b"340282366920938463463374607431768211456",
    b"1/0s",
    b"0/1s",
    b"1/1/1",
    b"1000000001",
    b"99999999999999999999d",
    b"1us",
    b"1\0",
    b"\xff\xfe\r\n",
];
const GENERIC: [&str; 22] = [
    "DEL",
    "UNLINK",
    "TYPE",
    "DUMP",
    "TTL",
    "PERSIST",
    "TOUCH",
    "EXISTS",
    "GET",
    "INCR",
    "LLEN",
    "OBJECT ENCODING",
    "OBJECT FREQ",
    "MEMORY USAGE",
    "DEBUG DIGEST-VALUE",
    "PEXPIRE @ 5",
    "PEXPIRE @ 100000",
    "PEXPIREAT @ 9223372036854775",
    "SET @ x",
    "LPUSH @ x",
    "COPY @ other",
    "RENAME @ other",
];

/// A client that sends random commands.
struct Attacker {
    random: Rng,
    dumps: Vec<Vec<u8>>,
    effects: Vec<Vec<u8>>,
}

impl Attacker {
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.random.usize(..from.len())]
    }

    /// One of a few keys, so that commands meet keys of all types.
    fn key(&mut self) -> Vec<u8> {
        match self.random.u8(..12) {
            0 => Vec::new(),
            1 => b"\0binary\xff\r\n".to_vec(),
            2 => vec![b'k'; 20_000],
            number => format!("key:{number}").into_bytes(),
        }
    }

    fn word(&mut self) -> Vec<u8> {
        match self.random.u8(..20) {
            0 => (0..self.random.usize(..40)).map(|_| self.random.u8(..)).collect(),
            1 => b"9".repeat(self.random.usize(1..5_000)),
            2 => mutate(&mut self.random, b"1000/10ms", b"0.333"),
            _ => self.pick(&WORDS).to_vec(),
        }
    }

    /// The words of the next command.
    fn command(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        match self.random.u8(..28) {
            25..28 => words_of(self.pick(&ADMINISTRATION), &key),
            20..22 => self.several_limits(&key),
            22..25 => self.policy_command(&key),
            0..8 => {
                let words = self.random.usize(1..7);
                let mut command = vec![self.pick(&COMMANDS).as_bytes().to_vec(), key];
                command.extend((0..words).map(|_| self.word()));
                command
            }
            8..13 => {
                // Mostly well formed.
                let (command, pace) = (self.pick(&COMMANDS[..5]), self.pick(&["1/s", "1ms", "7", "1h"]));
                let command = [command, "@", self.pick(&["1", "20", "9007199254740991"]), pace];
                let options = self.pick(&["", "COST 3", "FORCE", "COST 9007199254740991 FORCE"]).split_whitespace();
                with_key(&command.into_iter().chain(options).collect::<Vec<_>>().join(" "), &key)
            }
            13..16 => {
                let [dump, other] = [(); 2].map(|()| self.random.usize(..self.dumps.len()));
                let body = damaged(&mut self.random, &self.dumps[dump], &self.dumps[other]);
                let payload = if self.random.u8(..10) == 0 { body } else { with_checksum(&body) };
                vec![b"RESTORE".to_vec(), key, b"0".to_vec(), payload, b"REPLACE".to_vec()]
            }
            16..18 => {
                let [effect, other] = [(); 2].map(|()| self.random.usize(..self.effects.len()));
                let effect = mutate(&mut self.random, &self.effects[effect], &self.effects[other]);
                vec![b"RL.APPLY".to_vec(), key, effect]
            }
            _ => with_key(self.pick(&GENERIC), &key),
        }
    }

    /// A request to several limits, mostly well formed.
    fn several_limits(&mut self, key: &[u8]) -> Vec<Vec<u8>> {
        let count = self.random.usize(1..6);
        let mut command = vec![b"RL.ALL".to_vec(), count.to_string().into_bytes()];
        for place in 0..count {
            let mut limit = self.pick(&LIMITS).split(' ').map(|word| word.as_bytes().to_vec());
            command.extend(limit.next());
            command.push(if place == 0 { key.to_vec() } else { self.key() });
            command.extend(limit);
        }
        if self.random.bool() {
            command.extend([b"COST".to_vec(), self.word()]);
        }
        command
    }

    /// A command on one of a few policies, or on a key with a policy.
    fn policy_command(&mut self, key: &[u8]) -> Vec<Vec<u8>> {
        let policy = self.pick(&["one", "two", "three"]);
        let limits: Vec<&str> = (0..self.random.usize(1..4)).map(|_| self.pick(&LIMITS)).collect();
        let options = self.pick(&["", " COST 3", " FORCE", " COST 9007199254740991 FORCE"]);
        let command = match self.random.u8(..20) {
            0..10 => format!("RL.CHECK {policy} @{options}"),
            10..13 => format!("RL.POLICY SET {policy} {}", limits.join(" ")),
            13 => format!("RL.POLICY DEL {policy}"),
            14 => format!("RL.POLICY GET {policy}"),
            15 => self.pick(&["RL.POLICY LIST", "RL.POLICY HELP", "RL.POLICY LOAD", "RL.POLICY SAVE"]).to_owned(),
            16 => "RL.PEEK @ COST 5".to_owned(),
            17 => "RL.INFO @".to_owned(),
            _ => format!("RL.REFUND @ {}", self.pick(&["1", "7", "9007199254740991"])),
        };
        words_of(&command, key)
    }

    /// Sends commands until the time is up. Every command must have a reply.
    fn attack(mut self, server: &Server, until: Instant) {
        let mut client = server.connect();
        while Instant::now() < until {
            let command = self.command();
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let Err(error) = client.call_bytes(&words) else { continue };
            let shown = words.join(&b' ').escape_ascii().to_string();
            assert!(error.code().is_some(), "no reply, but {error}: {shown}");
            let message = error.detail().unwrap_or_default();
            assert!(!message.contains("internal error"), "{message}: {shown}");
            assert!(message.len() < 500 && message.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{message:?}");
        }
    }
}

/// The words of a command, with the key in place of `@`.
fn words_of(command: &str, key: &[u8]) -> Vec<Vec<u8>> {
    let words = command.split(' ').map(|word| if word == "@" { key.to_vec() } else { word.as_bytes().to_vec() });
    words.collect()
}

/// The words of a command, with the key in place of `@`, or at the end.
fn with_key(command: &str, key: &[u8]) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    match words.iter_mut().find(|word| *word == b"@") {
        Some(place) => *place = key.to_vec(),
        None => words.push(key.to_vec()),
    }
    words
}

/// Valid payloads and effects, to be mutated.
fn samples(client: &mut Client) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut dumps, mut effects) = (Vec::new(), Vec::new());
    for (algorithm, pace) in Algorithm::ALL.into_iter().zip(["1/h", "3/5m", "1h", "1d", "10w"]) {
        let name = algorithm.name();
        for cost in 1..40 {
            client.limit(&format!("RL.{name} {name} 700 {pace} COST {cost} FORCE"));
        }
        let dump: Vec<u8> = client.get(&format!("DUMP {name}"));
        dumps.push(dump[..dump.len() - 8].to_vec());
        let quota = Quota::parse(algorithm, b"700", pace.as_bytes()).expect("a quota");
        effects.push(EffectBytes::take(&quota, 3, 1_790_000_000_000_000).as_ref().to_vec());
    }
    client.get::<()>("RL.POLICY SET material SLIDINGLOG 700 1d TOKENBUCKET 700 1/h");
    for cost in 1..40 {
        client.get::<Value>(&format!("RL.CHECK material material COST {cost} FORCE"));
    }
    let dump: Vec<u8> = client.get("DUMP material");
    dumps.push(dump[..dump.len() - 8].to_vec());
    let quotas = [(Algorithm::SlidingLog, "1d"), (Algorithm::TokenBucket, "1/h")]
        .map(|(algorithm, pace)| Quota::parse(algorithm, b"700", pace.as_bytes()).expect("a quota"));
    effects.push(PolicyEffectBytes::take("policy", &quotas, 3, 1_790_000_000_000_000).as_ref().to_vec());
    effects.push(EffectBytes::refund(3, 1_790_000_000_000_000).as_ref().to_vec());
    client.get::<()>("SET string x");
    let dump: Vec<u8> = client.get("DUMP string");
    dumps.push(dump[..dump.len() - 8].to_vec());
    (dumps, effects)
}

#[test]
#[serial]
fn a_server_survives_hostile_traffic() {
    let setting = |name, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (seconds, seed) = (setting("HOSTILE_SECONDS", SECONDS), setting("HOSTILE_SEED", fastrand::u64(..)));
    println!("HOSTILE_SEED={seed}");
    let settings = [
        "--appendonly",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
        // They would use memory for some of the commands.
        "--slowlog-log-slower-than",
        "-1",
        "--latency-tracking",
        "no",
    ];
    let (mut server, replica) = (Server::start(&settings), Server::start(&settings));
    let mut client = server.connect();
    let mut follower = attach(&replica, &server);
    let (dumps, effects) = samples(&mut client);
    let attack = |server: &Server, duration: Duration| {
        let until = Instant::now() + duration;
        thread::scope(|scope| {
            for number in 0..CONNECTIONS {
                let random = Rng::with_seed(seed.wrapping_add(number));
                let attacker = Attacker { random, dumps: dumps.clone(), effects: effects.clone() };
                scope.spawn(move || attacker.attack(server, until));
            }
        });
    };
    let used_memory = |client: &mut Client| {
        client.get::<()>("FLUSHALL SYNC");
        client.get::<()>("RL.STATS RESET");
        assert_eq!(assert_exact(client, "FLUSHALL"), Live::default());
        // Without the buffers for replicas and the append-only file.
        let [all, replicas, file] = client.numbers(["used_memory", "mem_total_replication_buffers", "mem_aof_buffer"]);
        all - replicas - file
    };
    // Afterwards the server has made all its one-time allocations.
    attack(&server, Duration::from_secs(1));
    let before = used_memory(&mut client);

    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (over, server) = (&over, &server);
        // Another client gets correct replies all the while.
        scope.spawn(move || {
            let mut client = server.connect();
            for taken in 1.. {
                assert_eq!(client.limit("RL.FIXEDWINDOW bystander 1000000000 3650d")[2], 1_000_000_000 - taken);
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let _end = EndOf(over);
        attack(server, Duration::from_secs(seconds));
    });
    catch_up(&mut client, &mut follower);
    eventually("the replica has the same data", || {
        client.get::<String>("DEBUG DIGEST") == follower.get::<String>("DEBUG DIGEST")
    });
    // Buffers of connections shrink some time after their use.
    eventually("the memory is freed", || used_memory(&mut client) < before + 40_000);

    // The append-only file can be loaded, and restores the same keys.
    let mut lasting: Vec<Digest> = Vec::new();
    eventually("some keys last for ten minutes", || {
        attack(&server, Duration::from_millis(300));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after the epoch").as_millis();
        let soon = i64::try_from(now).expect("a time of these days") + 600_000;
        let digests = (0..12).map(|number| format!("key:{number}")).map(|key| (key.clone(), client.digest(&key)));
        lasting = digests.filter(|(_, (_, expires))| *expires == -1 || *expires > soon).collect();
        !lasting.is_empty()
    });
    server.restart();
    assert_eq!(digests_of(&mut server.connect(), &lasting), lasting);
    for log in [server.log(), replica.log()] {
        assert!(!log.contains("a bug was caught") && !log.contains("== CRITICAL =="), "{log}");
    }
}
