//! Connections that watch keys.

use super::Client;

/// Whether what the connection watched has been changed, and so its transaction is not run. It watches nothing any more.
pub fn is_disturbed(client: &mut Client) -> bool {
    client.get::<()>("MULTI");
    client.get::<()>("PING");
    client.get::<Option<Vec<String>>>("EXEC").is_none()
}
