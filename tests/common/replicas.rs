//! Replicas and their keys.

use super::traffic::Digest;
use super::{eventually, Client, Server};

/// Attaches a replica and waits until it is in sync.
pub fn attach(replica: &Server, primary: &Server) -> Client {
    let mut client = replica.connect();
    client.get::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    eventually("the replica is attached", || client.info("master_link_status") == "up");
    client
}

/// Waits until a replica has received everything that its primary has sent.
pub fn catch_up(primary: &mut Client, replica: &mut Client) {
    eventually("the replica catches up", || {
        let sent = primary.info("master_repl_offset");
        !sent.is_empty() && replica.info("slave_repl_offset") == sent
    });
}

/// The digests of the expected keys, one by one, since a replica does not list keys that have expired by its clock.
pub fn digests_of(client: &mut Client, expected: &[Digest]) -> Vec<Digest> {
    expected.iter().map(|(key, _)| (key.clone(), client.digest(key))).collect()
}
