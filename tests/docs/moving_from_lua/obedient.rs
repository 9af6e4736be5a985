//! A client that sends requests as fast as it may, and waits for as long as a denial says.

use super::script::Limit;
use super::{Both, Side};

#[derive(Debug, Default)]
pub struct Obedient {
    pub admitted: u64,
    pub waits: u64,
    /// Waits after which the client was denied again.
    pub too_short_waits: u64,
    pub took_ms: u64,
}

impl Obedient {
    pub fn run(both: &mut Both, side: Side, limit: &Limit, goes_on: impl Fn(&Self) -> bool) -> Self {
        let (mut client, mut has_waited) = (Self::default(), false);
        while goes_on(&client) {
            let reply = both.ask(side, limit);
            if reply.allowed {
                client.admitted += 1;
            } else {
                client.waits += 1;
                client.too_short_waits += u64::from(has_waited);
                client.took_ms += reply.wait_ms();
                both.wait_ms(reply.wait_ms());
            }
            has_waited = !reply.allowed;
        }
        client
    }
}
