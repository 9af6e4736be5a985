//! Active defragmentation, on servers that have it: holes are closed, and what is moved is still the same.

mod common;

use common::{eventually, Server};

#[test]
fn limiters_survive_being_moved() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    if client.call("CONFIG SET activedefrag yes").is_err() {
        eprintln!("skipped: this server was built without active defragmentation");
        return;
    }
    client.get::<()>("CONFIG SET activedefrag no");
    // Many keys of which most go again leave holes; what stays is worth moving.
    let fill = "for i = 1, 40000 do \
                redis.call('RL.TOKENBUCKET', 'bucket' .. i, 10, '1/d') redis.call('RL.SLIDINGLOG', 'log' .. i, 10, '10w') \
                end \
                for i = 1, 60000 do redis.call('RL.SLIDINGLOG', 'long' .. i % 3, 100000, '10w', 'COST', i % 2 + 1) end";
    client.eval::<()>(fill, "unused", &[]);
    let thin_out = "for i = 1, 40000 do if i % 10 ~= 0 then redis.call('DEL', 'bucket' .. i, 'log' .. i) end end";
    client.eval::<()>(thin_out, "unused", &[]);
    let keys = ["bucket10", "log10", "bucket40000", "log40000", "long0", "long1", "long2"];
    let before: Vec<_> = keys.iter().map(|key| client.digest(key)).collect();
    let unused = |client: &mut common::Client| client.info("allocator_frag_bytes").parse::<i64>().expect("a number");
    eventually("the holes are seen", || unused(&mut client) > 10_000_000);
    for setting in [
        "active-defrag-ignore-bytes 1",
        "active-defrag-threshold-lower 1",
        "active-defrag-cycle-min 50",
        "active-defrag-cycle-max 75",
        // Long logs are moved in steps.
        "active-defrag-max-scan-fields 5",
        "activedefrag yes",
    ] {
        client.get::<()>(&format!("CONFIG SET {setting}"));
    }
    let mut count = |field: &str| client.info(field).parse::<i64>().expect("a number");
    eventually("much is moved", || count("active_defrag_hits") > 5_000);
    eventually("every key was looked at", || {
        count("active_defrag_key_hits") + count("active_defrag_key_misses") > 16_014
    });
    eventually("the holes are closed", || unused(&mut client) < 5_000_000);
    client.get::<()>("CONFIG SET activedefrag no");
    assert_eq!(keys.iter().map(|key| client.digest(key)).collect::<Vec<_>>(), before);
    for key in ["long0", "long1", "long2"] {
        assert_eq!(client.limit(&format!("RL.SLIDINGLOG {key} 100000 10w"))[0], 1);
    }
    client.get::<()>("FLUSHALL");
}
