//! The Lua scripts of the examples: one called by its hash, and one behind a gateway, over HTTP.

use super::http::{get, Message};
use super::program::{example, read, url, uvicorn, Service};
use super::web::load;
use crate::common::{eventually, Server, FREE_PORT};

const ANN: [(&str, &str); 1] = [("X-Principal", "ann")];
/// The keys of the gateway's original script.
const TOKENS: &str = "request_rate_limiter.{ann}.tokens";
const TIMESTAMP: &str = "request_rate_limiter.{ann}.timestamp";

/// A gateway with a rate in tokens a second, a burst capacity, and the tokens that a request takes.
fn gateway(server: &Server, rate: &str, burst: &str, requested: &str) -> Service {
    Service::start(server, "gateway", |address| {
        let mut command = uvicorn("gateway:app", address);
        command
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients"))
            .env("REDIS_URL", url(server))
            .env("SCRIPT", example("lua/request_rate_limiter.lua"))
            .env("REPLENISH_RATE", rate)
            .env("BURST_CAPACITY", burst)
            .env("REQUESTED_TOKENS", requested);
        command
    })
}

fn ask(service: &Service) -> Message {
    get(&service.address, &ANN).expect("an answer")
}

fn remaining(answer: &Message) -> i64 {
    answer.header("X-RateLimit-Remaining").and_then(|left| left.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

/// Checks that of many requests exactly as many pass as `expected` has remaining quotas, and the others are denied.
fn passes_exactly(service: &Service, expected: &[i64], remaining_when_denied: i64) {
    let answers = load(&service.address, 20, 200, &ANN);
    let (passed, denied): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status() == 200);
    let mut left: Vec<_> = passed.into_iter().map(remaining).collect();
    left.sort_unstable();
    assert_eq!(left, expected);
    for answer in denied {
        assert_eq!((answer.status(), remaining(answer)), (429, remaining_when_denied), "{answer:?}");
    }
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn the_token_bucket_can_be_called_by_its_hash() {
    let mut server = Server::with_clock(&[]);
    let mut client = server.connect();
    let script = read("examples/lua/token_bucket.lua");
    let hash = client.call_bytes(&[b"SCRIPT", b"LOAD", script.as_bytes()]).expect("a hash");
    let hash: String = redis::from_redis_value(hash).expect("a hash");
    let by_hash = format!("EVALSHA {hash} 1 user:42 10 2");
    assert_eq!(client.limit(&format!("{by_hash} 3")), [1, 10, 7, 0, 1500]);
    assert_eq!(client.limit("RL.TOKENBUCKET user:42 10 2 COST 3"), [1, 10, 4, 0, 3000]);
    client.get::<()>("SCRIPT FLUSH");
    assert!(client.error(&format!("{by_hash} 5")).starts_with("NOSCRIPT"));
    // Clients then send the script itself, which loads it again.
    assert_eq!(client.eval::<Vec<i64>>(&script, "user:42", &["10", "2", "5"]), [0, 10, 4, 500, 3000]);
    server.clock().advance_ms(500);
    assert_eq!(client.limit(&format!("{by_hash} 5")), [1, 10, 0, 0, 5000]);
    assert!(client.error(&format!("{by_hash} 0")).starts_with("ERR"));
    // Without a cost.
    server.clock().advance_ms(500);
    assert_eq!(client.limit(&by_hash), [1, 10, 0, 0, 5000]);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn behind_the_gateway_exactly_the_burst_passes_and_refills_at_its_rate() {
    let mut server = Server::with_clock(&[]);
    let service = gateway(&server, "10", "40", "1");
    passes_exactly(&service, &(0..40).collect::<Vec<_>>(), 0);
    let denied = ask(&service);
    let header = |name| denied.header(&format!("X-RateLimit-{name}")).map(str::to_owned);
    let configured = ["Burst-Capacity", "Replenish-Rate", "Requested-Tokens"].map(header);
    assert_eq!(configured, ["40", "10", "1"].map(|value| Some(value.to_owned())));

    server.clock().advance_ms(99);
    assert_eq!(ask(&service).status(), 429);
    server.clock().advance_ms(1);
    assert_eq!((ask(&service).status(), ask(&service).status()), (200, 429));
    server.clock().advance_ms(1_000);
    passes_exactly(&service, &(0..10).collect::<Vec<_>>(), 0);
    server.clock().advance_ms(3_600_000);
    passes_exactly(&service, &(0..40).collect::<Vec<_>>(), 0);
    // Another user has a separate limit.
    let other = get(&service.address, &[("X-Principal", "bob")]).expect("an answer");
    assert_eq!((other.status(), remaining(&other)), (200, 39));
    let mut keys: Vec<String> = server.connect().get("KEYS *");
    keys.sort();
    assert_eq!(keys, [format!("{TOKENS}:rl"), format!("{TOKENS}:rl").replace("ann", "bob")]);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn requests_may_take_several_tokens_and_a_burst_of_zero_denies_all() {
    let server = Server::with_clock(&[]);
    passes_exactly(&gateway(&server, "10", "41", "2"), &(0..20).map(|it| 2 * it + 1).collect::<Vec<_>>(), 1);
    server.connect().get::<()>("FLUSHALL");
    passes_exactly(&gateway(&server, "10", "0", "1"), &[], 0);
    // More tokens than the burst capacity.
    passes_exactly(&gateway(&server, "10", "5", "6"), &[], 5);
}

/// Java prints small numbers this way.
#[test]
#[ignore = "needs what `make test-clients` installs"]
fn a_rate_may_have_an_exponent() {
    let mut server = Server::with_clock(&[]);
    let service = gateway(&server, "1.0E-4", "3", "1");
    passes_exactly(&service, &[0, 1, 2], 0);
    server.clock().advance_ms(9_999_999);
    assert_eq!(ask(&service).status(), 429);
    server.clock().advance_ms(1);
    assert_eq!((ask(&service).status(), ask(&service).status()), (200, 429));
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn keys_of_the_original_script_are_left_alone() {
    let server = Server::with_clock(&[]);
    let mut client = server.connect();
    client.get::<()>(&format!("MSET {TOKENS} 7 {TIMESTAMP} 1790000000"));
    let service = gateway(&server, "10", "40", "1");
    passes_exactly(&service, &(0..40).collect::<Vec<_>>(), 0);
    assert_eq!(client.get::<[String; 2]>(&format!("MGET {TOKENS} {TIMESTAMP}")), ["7", "1790000000"]);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn the_gateway_survives_a_script_flush_and_an_outage() {
    let mut server = Server::with_clock(&["--appendonly", "yes"]);
    let mut service = gateway(&server, "10", "40", "1");
    assert_eq!(remaining(&ask(&service)), 39);
    server.connect().get::<()>("SCRIPT FLUSH");
    assert_eq!(remaining(&ask(&service)), 38);
    server.stop();
    let without = ask(&service);
    assert_eq!((without.status(), remaining(&without)), (200, -1));
    server.start_again_in_place();
    eventually("it limits again", || remaining(&ask(&service)) >= 0);
    assert!(service.program.is_running());
    let left = remaining(&ask(&service));
    passes_exactly(&service, &(0..left).collect::<Vec<_>>(), 0);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn in_a_cluster_the_key_is_in_the_slot_of_the_gateways_keys() {
    let server = Server::start(&["--cluster-enabled", "yes", "--cluster-port", FREE_PORT]);
    let mut client = server.connect();
    client.get::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
    eventually("the cluster is ready", || client.get::<String>("CLUSTER INFO").contains("cluster_state:ok"));
    // No request refills while the test runs.
    let service = gateway(&server, "1", "40000", "1000");
    let answers = load(&service.address, 20, 200, &ANN);
    assert_eq!(answers.iter().filter(|answer| answer.status() == 200).count(), 40);
    let keys: Vec<String> = client.get("KEYS *");
    assert_eq!(keys, [format!("{TOKENS}:rl")]);
    let slots = [TOKENS, TIMESTAMP, &keys[0]].map(|key| client.get::<u16>(&format!("CLUSTER KEYSLOT {key}")));
    assert_eq!(slots, [slots[0]; 3]);
}
