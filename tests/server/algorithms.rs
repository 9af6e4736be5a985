//! The replies of each algorithm as time passes, exact thanks to a test clock.

use crate::common::{Client, Server, START};

#[test]
fn token_bucket_of_three_at_three_per_five_seconds() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let command = "RL.TOKENBUCKET user 3 3/5s";
    assert_eq!(client.limit(command), [1, 3, 2, 0, 1_667]);
    assert_eq!(client.limit(command), [1, 3, 1, 0, 3_334]);
    assert_eq!(client.limit(command), [1, 3, 0, 0, 5_000]);
    assert_eq!(client.limit(command), [0, 3, 0, 1_667, 5_000]);
    server.clock().advance_ms(1_666);
    assert_eq!(client.limit(command), [0, 3, 0, 1, 3_334]);
    server.clock().advance_ms(1);
    assert_eq!(client.limit(command), [1, 3, 0, 0, 5_000]);
    // Full again after 5 s.
    server.clock().advance_ms(5_000);
    assert_eq!(client.limit("RL.TOKENBUCKET user 3 3/5s COST 3"), [1, 3, 0, 0, 5_000]);
    // From here on 0.6 per second: 60 in 100 s.
    let mut admitted = 0;
    for _ in 0..1_000 {
        server.clock().advance_ms(100);
        admitted += client.limit(command)[0];
    }
    assert_eq!(admitted, 60);
}

#[test]
fn token_bucket_of_ten_at_one_per_second() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let command = "RL.TOKENBUCKET user 10 1";
    for taken in 1..=10 {
        assert_eq!(client.limit(command), [1, 10, 10 - taken, 0, taken * 1_000]);
    }
    assert_eq!(client.limit(command), [0, 10, 0, 1_000, 10_000]);
    server.clock().advance_us(999_999);
    assert_eq!(client.limit(command), [0, 10, 0, 1, 9_001]);
    server.clock().advance_us(1);
    assert_eq!(client.limit(command), [1, 10, 0, 0, 10_000]);
    assert_eq!(client.limit(command), [0, 10, 0, 1_000, 10_000]);
}

#[test]
fn leaky_bucket_drains_evenly_and_returns_the_delay() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let command = "RL.LEAKYBUCKET jobs 4 0.5";
    assert_eq!(client.limit(command), [1, 4, 3, 0, 2_000, 0]);
    assert_eq!(client.limit(command), [1, 4, 2, 0, 4_000, 2_000]);
    assert_eq!(client.limit(command), [1, 4, 1, 0, 6_000, 4_000]);
    assert_eq!(client.limit(command), [1, 4, 0, 0, 8_000, 6_000]);
    assert_eq!(client.limit(command), [0, 4, 0, 2_000, 8_000, 0]);
    // 1.5 drain in 3 s, so three in twice that.
    server.clock().advance_ms(3_000);
    assert_eq!(client.limit("RL.LEAKYBUCKET jobs 4 0.5 COST 2"), [0, 4, 1, 1_000, 5_000, 0]);
    server.clock().advance_ms(3_000);
    assert_eq!(client.limit("RL.LEAKYBUCKET jobs 4 0.5 COST 3"), [1, 4, 0, 0, 8_000, 2_000]);
    assert_eq!(client.limit("RL.LEAKYBUCKET thirds 3 3"), [1, 3, 2, 0, 334, 0]);
    assert_eq!(client.limit("RL.LEAKYBUCKET thirds 3 3"), [1, 3, 1, 0, 667, 334]);
    assert_eq!(client.limit("RL.LEAKYBUCKET thirds 3 3"), [1, 3, 0, 0, 1_000, 667]);
}

#[test]
fn fixed_window_resets_at_multiples_of_the_window() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let command = "RL.FIXEDWINDOW user 3 10";
    server.clock().set(START + 9_999_000);
    for remaining in [2, 1, 0] {
        assert_eq!(client.limit(command), [1, 3, remaining, 0, 1]);
    }
    assert_eq!(client.limit(command), [0, 3, 0, 1, 1]);
    // Twice the limit around the boundary, as fixed windows allow.
    server.clock().set(START + 10_000_000);
    for remaining in [2, 1, 0] {
        assert_eq!(client.limit(command), [1, 3, remaining, 0, 10_000]);
    }
    server.clock().set(START + 13_700_000);
    assert_eq!(client.limit(command), [0, 3, 0, 6_300, 6_300]);
    server.clock().set(START + 19_999_999);
    assert_eq!(client.limit(command), [0, 3, 0, 1, 1]);
    server.clock().set(START + 20_000_000);
    assert_eq!(client.limit(command), [1, 3, 2, 0, 10_000]);
}

#[test]
fn sliding_counter_weighs_the_previous_window() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let previous_8_current_3 = |server: &mut Server, client: &mut Client, key: &str| {
        server.clock().set(START);
        assert_eq!(client.limit(&format!("RL.SLIDINGCOUNTER {key} 20 10 COST 8"))[0], 1);
        server.clock().set(START + 10_000_000);
        assert_eq!(client.limit(&format!("RL.SLIDINGCOUNTER {key} 20 10 COST 3"))[0], 1);
    };
    // A tenth of the way: 8 * 0.9 + 3 = 10.2, so 10 are used.
    previous_8_current_3(&mut server, &mut client, "early");
    server.clock().set(START + 11_000_000);
    let denied = client.limit("RL.SLIDINGCOUNTER early 10 10");
    assert_eq!(denied[..3], [0, 10, 0]);
    // 8 * rest + 3 is below 10 once the rest is less than 7/8 of the window, a quarter of a second later.
    assert_eq!(denied[3], 251);
    server.clock().advance_ms(250);
    assert_eq!(client.limit("RL.SLIDINGCOUNTER early 10 10")[0], 0);
    server.clock().advance_ms(1);
    assert_eq!(client.limit("RL.SLIDINGCOUNTER early 10 10")[..4], [1, 10, 0, 0]);
    // Half-way: 8 * 0.5 + 3 = 7 are used.
    previous_8_current_3(&mut server, &mut client, "late");
    server.clock().set(START + 15_000_000);
    assert_eq!(client.limit("RL.SLIDINGCOUNTER late 10 10")[..4], [1, 10, 2, 0]);
}

#[test]
fn sliding_log_counts_every_request_of_the_same_microsecond() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let command = "RL.SLIDINGLOG user 5 10";
    for remaining in [4, 3, 2, 1, 0] {
        assert_eq!(client.limit(command), [1, 5, remaining, 0, 10_000]);
    }
    assert_eq!(client.limit(command), [0, 5, 0, 10_000, 10_000]);
    server.clock().advance_us(9_999_999);
    assert_eq!(client.limit(command), [0, 5, 0, 1, 1]);
    // A request exactly a window old no longer counts.
    server.clock().advance_us(1);
    assert_eq!(client.limit(command), [1, 5, 4, 0, 10_000]);
}

#[test]
fn sliding_log_never_has_more_than_the_limit_in_any_window() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let mut admitted = Vec::new();
    for step in 0..2_000_u64 {
        server.clock().advance_us(step * 7_919 % 300_000);
        if client.limit("RL.SLIDINGLOG user 5 1")[0] == 1 {
            admitted.push(server.clock().now());
        }
    }
    assert!(admitted.len() > 500);
    assert!(admitted.windows(6).all(|six| six[5] - six[0] >= 1_000_000));
}

#[test]
fn a_cost_is_taken_entirely_or_not_at_all() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        let key = format!("{command} cost:{command} 10 10");
        assert_eq!(client.limit(&format!("{key} COST 7"))[..4], [1, 10, 3, 0], "{command}");
        let denied = client.limit(&format!("{key} COST 4"));
        assert_eq!(denied[..3], [0, 10, 3], "{command}");
        assert!(denied[3] > 0, "{command}");
        assert_eq!(client.limit(&format!("{key} COST 3"))[..4], [1, 10, 0, 0], "{command}");
        // A cost above the limit is never allowed, and creates no key.
        let never = client.limit(&format!("{command} never:{command} 10 10 COST 11"));
        assert_eq!(never[..5], [0, 10, 10, -1, 0], "{command}");
        assert_eq!(client.get::<i64>(&format!("EXISTS never:{command}")), 0, "{command}");
    }
}

const FIVE: [&str; 5] = ["RL.TOKENBUCKET", "RL.LEAKYBUCKET", "RL.FIXEDWINDOW", "RL.SLIDINGLOG", "RL.SLIDINGCOUNTER"];

#[test]
fn forced_costs_are_taken_even_when_denied_up_to_twice_the_limit() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    // The replies when 10 of 10 are taken and 5 more are forced, at the start of a window.
    let expectations = [
        ("RL.TOKENBUCKET", vec![0, 10, 0, 1_000, 1_500]),
        ("RL.LEAKYBUCKET", vec![0, 10, 0, 1_000, 1_500, 0]),
        ("RL.FIXEDWINDOW", vec![0, 10, 0, 10_000, 10_000]),
        ("RL.SLIDINGLOG", vec![0, 10, 0, 10_000, 10_000]),
        ("RL.SLIDINGCOUNTER", vec![0, 10, 0, 16_001, 19_334]),
    ];
    for (command, expected) in expectations {
        let key = format!("{command} forced:{command} 10 10");
        assert_eq!(client.limit(&format!("{key} COST 10 FORCE"))[..3], [1, 10, 0], "{command}");
        assert_eq!(client.limit(&format!("{key} FORCE COST 5")), expected, "{command}");
        // Forced costs add up to at most twice the limit.
        for _ in 0..3 {
            client.limit(&format!("{key} COST 9007199254740991 force"));
        }
        let reply = client.limit(&key);
        assert_eq!(reply[..3], [0, 10, 0], "{command}");
        let longest = if command.ends_with("BUCKET") { 2_000 } else { 20_000 };
        assert!(reply[3] <= longest && reply[4] <= longest, "{command}: {reply:?}");
    }
}

#[test]
fn a_change_of_parameters_keeps_what_is_used() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        let key = format!("{command} changed:{command}");
        assert_eq!(client.limit(&format!("{key} 10 10 COST 8"))[..3], [1, 10, 2], "{command}");
        // A higher limit applies at once.
        assert_eq!(client.limit(&format!("{key} 20 10"))[..3], [1, 20, 11], "{command}");
        // With a lower one nothing remains, and there is no debt.
        let lowered = client.limit(&format!("{key} 5 10"));
        assert_eq!(lowered[..3], [0, 5, 0], "{command}");
        // The same with another rate or window.
        assert_eq!(client.limit(&format!("{key} 20 20"))[..3], [1, 20, 10], "{command}");
    }
    // No debt: the bucket of 5 is empty, and the next token comes after a second.
    assert_eq!(client.limit("RL.TOKENBUCKET lowered 10 1 COST 10")[0], 1);
    assert_eq!(client.limit("RL.TOKENBUCKET lowered 5 1"), [0, 5, 0, 1_000, 5_000]);
    server.clock().advance_ms(1_000);
    assert_eq!(client.limit("RL.TOKENBUCKET lowered 5 1"), [1, 5, 0, 0, 5_000]);
}

#[test]
fn different_keys_do_not_affect_each_other() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        assert_eq!(client.limit(&format!("{command} a:{command} 1 10"))[0], 1);
        assert_eq!(client.limit(&format!("{command} a:{command} 1 10"))[0], 0);
        assert_eq!(client.limit(&format!("{command} b:{command} 1 10"))[0], 1);
    }
}

#[test]
fn a_long_step_back_of_the_clock_admits_at_most_one_extra_limit() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    for command in FIVE {
        let request = format!("{command} jump:{command} 10 10s");
        let request = if command.ends_with("BUCKET") { format!("{command} jump:{command} 10 1") } else { request };
        for back in [3_600_000_000_u64, 365 * 86_400_000_000, START - 1] {
            server.clock().set(START);
            client.get::<i64>(&format!("DEL jump:{command}"));
            while client.limit(&request)[0] == 1 {}
            server.clock().set(START - back);
            let mut extra = 0;
            let denied = loop {
                let reply = client.limit(&request);
                if reply[0] == 0 {
                    break reply;
                }
                extra += 1;
            };
            assert!(extra <= 10, "{command}: {extra} more than the limit");
            assert!(denied[3] <= 10_001, "{command}: blocked for {} ms", denied[3]);
            server.clock().advance_ms(u64::try_from(denied[3]).expect("a wait"));
            assert_eq!(client.limit(&request)[0], 1, "{command}");
            // The expiry follows the new clock too.
            let (reset, ttl) = (client.limit(&request)[4], client.get::<i64>(&format!("PTTL jump:{command}")));
            assert!((reset..=2 * reset + 1_000).contains(&ttl), "{command}: {reset} {ttl}");
        }
    }
}
