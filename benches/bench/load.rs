//! A server under load: many keys, requests sent in batches, every reply checked.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Cmd, Value};

use crate::cases::{Case, Expected};
use crate::common::{Client, Server};
use crate::gauge::{Gauge, Meter};

/// Requests in a pipeline.
const BATCH: usize = 100;
/// A stride through the keys that visits each once, in an order without locality.
const STRIDE: usize = 7_919;

/// A server and a gauge for the cost of requests.
pub struct Bench {
    pub server: Server,
    pub client: Client,
    meter: Meter,
}

impl Bench {
    pub fn start(gauge: Gauge, settings: &[&str]) -> Self {
        let settings = [gauge.settings(), settings].concat();
        let server = Server::under(&gauge.wrapper(), &settings);
        let (client, meter) = (server.connect(), gauge.on(&server));
        Self { server, client, meter }
    }

    /// The average cost of `requests` requests to existing keys.
    pub fn cost(&mut self, case: &Case, keys: usize, requests: usize) -> f64 {
        self.client.get::<()>("FLUSHALL");
        if case.expected == Expected::Denied {
            wait_for_room_in_the_minute();
        }
        send(&mut self.client, &case.prime, keys, keys, Expected::Anything);
        let send = |client: &mut Client| send(client, &case.request, keys, requests, case.expected);
        per_request(self.meter.measure(&mut self.client, send), requests)
    }
}

/// Waits for the next minute if this one is about to end, as its windows end too, and denied requests would be allowed.
fn wait_for_room_in_the_minute() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    let left = 60 - now.as_secs() % 60;
    if left < 15 {
        thread::sleep(Duration::from_secs(left));
    }
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
pub fn per_request(total: f64, requests: usize) -> f64 {
    total / requests as f64
}

/// Sends `requests` requests to the keys in turn.
pub fn send(client: &mut Client, request: &[String], keys: usize, requests: usize, expected: Expected) {
    let mut sent = 0;
    while sent < requests {
        let batch = BATCH.min(requests - sent);
        let numbers = (sent..sent + batch).map(|number| number * STRIDE % keys);
        send_batch(client, request, numbers, expected);
        sent += batch;
    }
}

/// Sends a request to each of these keys in a pipeline.
pub fn send_batch(client: &mut Client, request: &[String], numbers: impl Iterator<Item = usize>, expected: Expected) {
    let mut packed = Vec::new();
    let mut count = 0;
    for number in numbers {
        let key = format!("user:{number:06}");
        let mut command = Cmd::new();
        for word in request {
            command.arg(word.replace("{key}", &key));
        }
        packed.extend_from_slice(&command.get_packed_command());
        count += 1;
    }
    for reply in client.pipeline(&packed, count) {
        assert!(is_expected(&reply, expected), "{} replied {reply:?}", request.join(" "));
    }
}

fn is_expected(reply: &Value, expected: Expected) -> bool {
    let first = match reply {
        Value::Array(items) => items.first(),
        _ => None,
    };
    match expected {
        Expected::Anything => !matches!(reply, Value::ServerError(_)),
        Expected::Allowed => first == Some(&Value::Int(1)),
        Expected::Denied => first == Some(&Value::Int(0)),
    }
}
