//! Active defragmentation, on servers that have it: it frees memory and changes no value.

use serial_test::serial;

use crate::common::long_log::make_million;
use crate::common::{eventually, Client, Server};

/// A server with active defragmentation, if it was built with it.
fn with_defragmentation() -> Option<Server> {
    let server = Server::start(&[]);
    if server.connect().call("CONFIG SET activedefrag yes").is_err() {
        eprintln!("skipped: this server was built without active defragmentation");
        return None;
    }
    server.connect().get::<()>("CONFIG SET activedefrag no");
    Some(server)
}

/// Starts defragmentation, with the lowest thresholds.
fn defragment(client: &mut Client) {
    for setting in [
        "active-defrag-ignore-bytes 1",
        "active-defrag-threshold-lower 1",
        "active-defrag-cycle-min 50",
        "active-defrag-cycle-max 75",
        // So that long logs are moved in steps.
        "active-defrag-max-scan-fields 5",
        "activedefrag yes",
    ] {
        client.get::<()>(&format!("CONFIG SET {setting}"));
    }
}

#[test]
#[serial]
fn limiters_are_unchanged_after_defragmentation() {
    let Some(server) = with_defragmentation() else { return };
    let mut client = server.connect();
    // Fragments memory: creates many keys and deletes most of them.
    let fill = "for i = 1, 40000 do \
                redis.call('RL.TOKENBUCKET', 'bucket' .. i, 10, '1/d') redis.call('RL.SLIDINGLOG', 'log' .. i, 10, '10w') \
                end \
                for i = 1, 60000 do redis.call('RL.SLIDINGLOG', 'long' .. i % 3, 100000, '10w', 'COST', i % 2 + 1) end";
    client.eval::<()>(fill, "unused", &[]);
    let thin_out = "for i = 1, 40000 do if i % 10 ~= 0 then redis.call('DEL', 'bucket' .. i, 'log' .. i) end end";
    client.eval::<()>(thin_out, "unused", &[]);
    let keys = ["bucket10", "log10", "bucket40000", "log40000", "long0", "long1", "long2"];
    let before: Vec<_> = keys.iter().map(|key| client.digest(key)).collect();
    eventually("the fragmentation is measured", || client.number("allocator_frag_bytes") > 10_000_000);
    defragment(&mut client);
    eventually("allocations are moved", || client.number("active_defrag_hits") > 5_000);
    eventually("every key is scanned", || {
        client.number("active_defrag_key_hits") + client.number("active_defrag_key_misses") > 16_014
    });
    eventually("the fragmentation is gone", || client.number("allocator_frag_bytes") < 5_000_000);
    client.get::<()>("CONFIG SET activedefrag no");
    assert_eq!(keys.iter().map(|key| client.digest(key)).collect::<Vec<_>>(), before);
    for key in ["long0", "long1", "long2"] {
        assert_eq!(client.limit(&format!("RL.SLIDINGLOG {key} 100000 10w"))[0], 1);
    }
    client.get::<()>("FLUSHALL");
}

#[test]
#[serial]
fn a_log_of_a_million_entries_is_used_and_freed_while_it_is_moved() {
    let Some(server) = with_defragmentation() else { return };
    let mut client = server.connect();
    let base = client.number("used_memory");
    // The allocations of two logs alternate, and one log is deleted.
    make_million(&mut client, &["log", "hole"]);
    client.get::<()>("DEL hole");
    let before = client.digest("log");
    defragment(&mut client);
    eventually("a part of it is moved", || client.number("active_defrag_hits") > 1_000);
    assert_eq!(client.digest("log"), before);

    // The same with requests in between.
    make_million(&mut client, &["other", "hole"]);
    let moved = client.number("active_defrag_hits");
    client.get::<()>("DEL hole");
    let mut remaining = 999_999;
    eventually("another part is moved", || {
        for _ in 0..100 {
            remaining -= 1;
            assert_eq!(client.limit("RL.SLIDINGLOG other 2000000 1d")[..3], [1, 2_000_000, remaining]);
        }
        client.number("active_defrag_hits") > moved + 500
    });
    // The key is deleted while defragmentation is still moving it.
    make_million(&mut client, &["last", "hole"]);
    let moved = client.number("active_defrag_hits");
    client.get::<()>("DEL hole");
    eventually("it is being moved", || client.number("active_defrag_hits") > moved);
    client.get::<()>("UNLINK last");
    client.get::<()>("FLUSHALL ASYNC");
    assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 9]);
    eventually("all keys are freed", || client.number("lazyfree_pending_objects") == 0);
    eventually("the memory is freed", || client.number("used_memory") < base + 500_000);
    assert_eq!(client.limit("RL.SLIDINGLOG log 10 1d")[..3], [1, 10, 8]);
}
