//! A client that sends as much as it may, and waits as it is told when it may not.

use super::script::Limit;
use super::{Both, Side};

#[derive(Debug, Default)]
pub struct Obedient {
    pub admitted: u64,
    pub waits: u64,
    /// How often it was denied when it came back.
    pub in_vain: u64,
    pub took_ms: u64,
}

impl Obedient {
    pub fn run(both: &mut Both, side: Side, limit: &Limit, goes_on: impl Fn(&Self) -> bool) -> Self {
        let (mut client, mut has_waited) = (Self::default(), false);
        while goes_on(&client) {
            let told = both.ask(side, limit);
            if told.allowed {
                client.admitted += 1;
            } else {
                client.waits += 1;
                client.in_vain += u64::from(has_waited);
                client.took_ms += told.wait_ms();
                both.wait_ms(told.wait_ms());
            }
            has_waited = !told.allowed;
        }
        client
    }
}
