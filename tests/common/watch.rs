//! `WATCH`.

use super::Client;

/// Whether a key that the connection watches has changed, so that its transaction fails. Afterwards it watches no keys.
pub fn watched_key_changed(client: &mut Client) -> bool {
    client.get::<()>("MULTI");
    client.get::<()>("PING");
    client.get::<Option<Vec<String>>>("EXEC").is_none()
}
