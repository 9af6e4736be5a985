//! `CL.THROTTLE` replies like redis-cell, and its key is a token bucket like any other.

mod key;
mod takeover;
mod takeover_propagation;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use fastrand::Rng;
use redis::Value;

use crate::common::traffic::keys_without_expiry;
use crate::common::Server;
use crate::models::cell::Cell;

/// The bytes of the replies to inline commands.
fn bytes_of(server: &Server, commands: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    connection.write_all(commands.as_bytes()).expect("sent");
    connection.shutdown(Shutdown::Write).expect("all is sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn replies_are_those_of_the_documentation_of_redis_cell() {
    let server = Server::with_clock(&[]);
    for protocol in [2, 3] {
        let hello = format!("HELLO {protocol}\r\nDEL user123 k\r\n");
        let commands = "CL.THROTTLE user123 15 30 60\r\nCL.THROTTLE k 0 1 2\r\ncl.throttle k 0 1 2 1\r\n";
        let answer = bytes_of(&server, &format!("{hello}{commands}"));
        let expected =
            ["*5 :0 :16 :15 :-1 :2 ", "*5 :0 :1 :0 :-1 :2 ", "*5 :1 :1 :0 :2 :2 "].concat().replace(' ', "\r\n");
        assert!(answer.ends_with(&expected), "{answer}");
    }
}

#[test]
fn replies_are_those_of_the_tests_of_redis_cell() {
    let mut server = Server::with_clock(&[]);
    let (mut client, start) = (server.connect(), server.clock().now());
    // The time in milliseconds and the quantity; the remaining quota, the seconds until reset and retry, and limited or
    // not.
    let cases: [(u64, u64, [i64; 4]); 15] = [
        (0, 6, [5, 0, -1, 1]),
        (0, 1, [4, 1, -1, 0]),
        (0, 1, [3, 2, -1, 0]),
        (0, 1, [2, 3, -1, 0]),
        (0, 1, [1, 4, -1, 0]),
        (0, 1, [0, 5, -1, 0]),
        (0, 1, [0, 5, 1, 1]),
        (3_000, 1, [2, 3, -1, 0]),
        (3_100, 1, [1, 4, -1, 0]),
        (4_000, 1, [1, 4, -1, 0]),
        (8_000, 1, [4, 1, -1, 0]),
        (9_500, 1, [4, 1, -1, 0]),
        (9_500, 0, [4, 1, -1, 0]),
        (9_500, 2, [2, 3, -1, 0]),
        (9_500, 5, [2, 3, 3, 1]),
    ];
    for (at, quantity, [remaining, reset, retry, limited]) in cases {
        server.clock().set(start + at * 1_000);
        let reply = client.limit(&format!("CL.THROTTLE key 4 1 1 {quantity}"));
        assert_eq!(reply, [limited, 5, remaining, retry, reset], "{quantity} after {at} ms");
        assert_eq!(
            client.get::<i64>("EXISTS key"),
            i64::from(quantity < 6),
            "a request above the limit creates no key"
        );
    }
}

#[test]
fn after_a_step_back_of_the_clock_time_stands_still() {
    let mut server = Server::with_clock(&[]);
    let (mut client, start) = (server.connect(), server.clock().now());
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60"), [0, 16, 15, -1, 2]);
    // redis-cell would count the ten seconds as five used tokens.
    server.clock().set(start - 10_000_000);
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60"), [0, 16, 14, -1, 14]);
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60 15"), [1, 16, 14, 12, 14]);
    // A step beyond the fill time resets the key.
    server.clock().set(start - 32_000_001);
    assert_eq!(client.limit("CL.THROTTLE key 15 30 60 0"), [0, 16, 16, -1, 0]);
}

/// A pause before an interesting request: none, within a millisecond, a few tokens, until a token has just refilled, or
/// until the time to the full reset is about a whole second.
fn pause(random: &mut Rng, cell: &Cell, token_us: u64, now: u64) -> u64 {
    const EDGES: [u64; 8] = [0, 1, 2, 400, 999, 1_000, 1_001, 999_001];
    let full_in = cell.full_in(now);
    let pause = match random.u8(..6) {
        0 => 0,
        1 => random.u64(..2_000),
        2 => random.u64(..=3 * token_us),
        3 => full_in % token_us.max(1) + random.u64(..2),
        4 => (full_in + 1_000_000 - EDGES[random.usize(..EDGES.len())]) % 1_000_000,
        _ => random.u64(..=full_in + full_in / 8),
    };
    pause.min(86_400_000_000)
}

#[test]
fn every_reply_is_that_of_redis_cell() {
    const STEPS: usize = 500;
    let mut server = Server::with_clock(&[]);
    let (mut client, mut random) = (server.connect(), Rng::with_seed(7));
    // A token takes whole microseconds, whole nanoseconds, or neither.
    let known = [(15, 30, 60), (0, 1, 2), (4, 1, 1), (0, 1, 1), (9, 1_000, 1), (99, 64, 1), (7, 1_000_000_000, 1)];
    let uneven = [(2, 3, 1), (0, 3, 7), (30, 13, 60), (1_000_000, 999_983, 11), (5, 7_919, 86_400), (3, 1, 31_536_000)];
    let others: Vec<_> = (0..20).map(|_| (random.u64(..50), random.u64(1..200), random.u64(1..120))).collect();
    for (number, (max_burst, count, period)) in known.into_iter().chain(uneven).chain(others).enumerate() {
        client.get::<Value>(&format!("HELLO {}", 2 + number % 2));
        let (mut cell, mut limited) = (Cell::new(max_burst, count, period), 0);
        for step in 0..STEPS {
            let most = if random.bool() { max_burst + 3 } else { 3 };
            let (quantity, now) = (random.u64(..=most.min(max_burst + 3)), server.clock().now());
            let request = format!("CL.THROTTLE key:{number} {max_burst} {count} {period} {quantity}");
            let (reply, expected) = (client.limit(&request), cell.throttle(quantity, now));
            assert_eq!(reply, expected, "step {step}: {request} on {cell:?} at {now}");
            limited += reply[0];
            let pause = pause(&mut random, &cell, period * 1_000_000 / count, now);
            server.clock().advance_us(pause);
        }
        assert!((20..480).contains(&limited), "{max_burst} {count} {period}: {limited} of {STEPS} limited");
        assert_eq!(keys_without_expiry(&mut client), [""; 0]);
    }
}

#[test]
fn seconds_are_rounded_up_from_whole_milliseconds() {
    let mut server = Server::with_clock(&[]);
    let (mut client, start) = (server.connect(), server.clock().now());
    client.limit("CL.THROTTLE key 0 1 5");
    // The wait in microseconds, and its seconds in the reply.
    let reply = [
        (2_000_001, 2),
        (1_999_999, 2),
        (1_001_000, 2),
        (1_000_999, 1),
        (1_000_400, 1),
        (1_000_000, 1),
        (999_900, 1),
        (1_000, 1),
        (999, 0),
        (1, 0),
    ];
    for (wait, seconds) in reply {
        server.clock().set(start + 5_000_000 - wait);
        assert_eq!(client.limit("CL.THROTTLE key 0 1 5"), [1, 1, 0, seconds, seconds], "{wait} us");
        assert_eq!(client.limit("CL.THROTTLE key 0 1 5 0"), [0, 1, 0, -1, seconds], "{wait} us");
        assert_eq!(client.limit("CL.THROTTLE key 0 1 5 2"), [1, 1, 0, -1, seconds], "{wait} us");
    }
    server.clock().set(start + 5_000_000);
    assert_eq!(client.limit("CL.THROTTLE key 0 1 5 0"), [0, 1, 1, -1, 0]);
    assert_eq!(client.limit("CL.THROTTLE key 0 1 5"), [0, 1, 0, -1, 5]);
}

#[test]
fn errors_of_bad_arguments_say_what_is_expected() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let arguments = ["max_burst", "count", "period", "quantity"];
    for bad in ["x", "-1", "1.5", "1e3", "", " 1", "9007199254740992", "18446744073709551616", "\u{fc}"] {
        for (place, (name, least)) in arguments.into_iter().zip([0, 1, 1, 0]).enumerate() {
            let mut words = [b"CL.THROTTLE".as_slice(), b"key", b"15", b"30", b"60", b"1"];
            words[place + 2] = bad.as_bytes();
            let most = 9_007_199_254_740_991_u64 - u64::from(name == "max_burst");
            let given = bad.replace('\u{fc}', "\\xc3\\xbc");
            let expected = format!("ERR invalid {name} '{given}': expected an integer from {least} to {most}");
            assert_eq!(client.error_of(&words), expected);
        }
    }
    let amount = "expected an integer from 1 to 9007199254740991";
    assert_eq!(client.error("CL.THROTTLE key 15 0 60"), format!("ERR invalid count '0': {amount}"));
    assert_eq!(client.error("CL.THROTTLE key 15 30 0"), format!("ERR invalid period '0': {amount}"));
    let rate = "ERR invalid count and period: expected a rate from 1 per 10 years to 1000000000 per second, period in \
                seconds";
    for bad in ["1000000001 1", "1 315360001", "9007199254740991 1", "1 9007199254740991"] {
        assert_eq!(client.error(&format!("CL.THROTTLE key 15 {bad}")), rate);
    }
    let fill = "ERR invalid count and period: a bucket of 11 would take longer than 100 years to fill";
    assert_eq!(client.error("CL.THROTTLE key 10 1 315360000"), fill);
    assert_eq!(client.error("CL.THROTTLE key 15 30 60 1 1"), "ERR wrong number of arguments");
    for missing in ["", "key", "key 15", "key 15 30"] {
        let error = client.error(&format!("CL.THROTTLE {missing}")).to_lowercase();
        assert_eq!(error, "err wrong number of arguments for 'cl.throttle' command");
    }
    assert_eq!(client.get::<i64>("DBSIZE"), 0);
    // Numbers are parsed like in redis-cell.
    assert_eq!(client.limit("CL.THROTTLE signed +15 030 +60 +1"), [0, 16, 15, -1, 2]);
    // The extremes.
    assert_eq!(client.limit("CL.THROTTLE slow 9 1 315360000 10"), [0, 10, 0, -1, 3_153_600_000]);
    let most = 9_007_199_254_740_991;
    assert_eq!(client.limit(&format!("CL.THROTTLE fast {} 1000000000 1 0", most - 1)), [0, most, most, -1, 0]);
    assert_eq!(
        client.limit(&format!("CL.THROTTLE fast {} 1000000000 1 {most}", most - 1)),
        [0, most, 0, -1, 9_007_200]
    );
}

#[test]
fn a_key_of_another_type_is_left_alone() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get::<()>("RPUSH list 1 2 3");
    client.get::<()>("SET string hello EX 1000");
    client.limit("RL.LEAKYBUCKET leaky 16 30/m");
    client.get::<()>("RL.POLICY SET policy TOKENBUCKET 16 30/m SLIDINGLOG 5 1d");
    client.get::<Value>("RL.CHECK policy policy");
    let (wrong_type, start_over) =
        ("Operation against a key holding the wrong kind of value", "; delete the key to start over");
    for (key, problem) in [
        ("list", wrong_type.to_owned()),
        ("string", wrong_type.to_owned()),
        ("leaky", format!("key holds a LEAKYBUCKET limiter, not TOKENBUCKET{start_over}")),
        ("policy", format!("key holds the limits of a policy (TOKENBUCKET, SLIDINGLOG), not TOKENBUCKET{start_over}")),
    ] {
        let before = client.digest(key);
        for quantity in 0..3 {
            let error = client.error(&format!("CL.THROTTLE {key} 15 30 60 {quantity}"));
            assert_eq!(error, format!("WRONGTYPE {problem}"));
        }
        assert_eq!(client.digest(key), before);
    }
}
