//! `rl.denied`: subscribers receive an event for every denial, and for nothing else.

use std::time::Duration;

use redis::{Connection, PubSub};

use crate::common::multi::SLOW;
use crate::common::{Client, Server};

/// Received events: channel and payload.
type Events = Vec<(String, String)>;

/// The channel for the mark after the events of a command.
const END: &str = "end";

fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(("127.0.0.1", server.port)).expect("an address");
    client.get_connection().expect("a connection")
}

fn subscribe(connection: &mut Connection) -> PubSub<'_> {
    let mut subscriber = connection.as_pubsub();
    subscriber.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    subscriber.psubscribe("__key*__:*").expect("subscribed");
    subscriber.subscribe(END).expect("subscribed");
    subscriber
}

/// Runs a command and returns its events. Messages arrive in order, so they are complete when the mark arrives.
fn received(client: &mut Client, subscriber: &mut PubSub<'_>, command: &str) -> Events {
    let _ = client.call(command);
    assert_eq!(client.get::<i64>(&format!("PUBLISH {END} x")), 1);
    let mut received = Vec::new();
    loop {
        let message = subscriber.get_message().expect("a message");
        let channel = message.get_channel_name().to_owned();
        if channel == END {
            return received;
        }
        received.push((channel, message.get_payload().expect("text")));
    }
}

/// The events of denials to these keys.
fn denials(keys: &[&str]) -> Events {
    keys.iter().map(|key| (format!("__keyspace@0__:{key}"), "rl.denied".to_owned())).collect()
}

/// Commands, with the keys whose limits deny them.
fn requests() -> Vec<(String, Vec<&'static str>)> {
    let mut requests = vec![("RL.POLICY SET login SLIDINGLOG 2 1d FIXEDWINDOW 2 3650d".to_owned(), vec![])];
    for (algorithm, pace) in SLOW {
        let request = format!("RL.{algorithm} {algorithm} 2 {pace}");
        requests.extend([
            (request.clone(), vec![]),
            (format!("{request} COST 2"), vec![algorithm]),
            (format!("{request} COST 2 FORCE"), vec![algorithm]),
            (format!("RL.{algorithm} new 2 {pace} COST 3"), vec!["new"]),
            (format!("RL.{algorithm} free:{algorithm} 2 {pace} FORCE"), vec![]),
            (format!("RL.PEEK {algorithm} COST 3"), vec![]),
            (format!("RL.INFO {algorithm}"), vec![]),
            (format!("RL.REFUND {algorithm} 1"), vec![]),
        ]);
    }
    let more = [
        ("RL.ALL 3 SLIDINGLOG a 9 1d SLIDINGLOG b 2 1d TOKENBUCKET c 4 1/d COST 2", &[][..]),
        ("RL.ALL 3 SLIDINGLOG a 9 1d SLIDINGLOG b 2 1d TOKENBUCKET c 4 1/d COST 2", &["b"]),
        ("RL.ALL 3 SLIDINGLOG a 9 1d SLIDINGLOG b 2 1d TOKENBUCKET c 4 1/d COST 3", &["b", "c"]),
        ("RL.ALL 3 SLIDINGLOG a 9 1d SLIDINGLOG b 2 1d TOKENBUCKET c 4 1/d COST 8", &["a", "b", "c"]),
        ("RL.CHECK login user COST 2", &[]),
        ("RL.CHECK login user", &["user"]),
        ("RL.CHECK login user FORCE", &["user"]),
        ("RL.CHECK login other FORCE", &[]),
        ("RL.PEEK user", &[]),
        ("RL.REFUND user 1", &[]),
        ("CL.THROTTLE cell 1 1 86400", &[]),
        ("CL.THROTTLE cell 1 1 86400 2", &["cell"]),
        ("CL.THROTTLE cell 1 1 86400 0", &[]),
        // Errors are not denials.
        ("RL.CHECK none user", &[]),
        ("RL.CHECK login cell", &[]),
        ("RL.SLIDINGLOG cell 1 1d", &[]),
        ("RL.SLIDINGLOG b 0 1d", &[]),
        ("RL.STATS", &[]),
        ("RL.TOP", &[]),
    ];
    requests.extend(more.map(|(command, keys)| (command.to_owned(), keys.to_vec())));
    requests
}

#[test]
fn subscribers_receive_every_denial() {
    for events in ["Kd", "KA"] {
        let server = Server::start(&["--notify-keyspace-events", events]);
        let (mut client, mut connection) = (server.connect(), connect(&server));
        let mut subscriber = subscribe(&mut connection);
        for (command, keys) in requests() {
            let mut received = received(&mut client, &mut subscriber, &command);
            if events == "KA" {
                received.retain(|(_, event)| event.starts_with("rl."));
            }
            assert_eq!(received, denials(&keys), "{command}, {events}");
        }
    }
}

#[test]
fn events_are_by_key_or_by_event_as_configured() {
    let by_key = ("__keyspace@0__:key".to_owned(), "rl.denied".to_owned());
    let by_event = ("__keyevent@0__:rl.denied".to_owned(), "key".to_owned());
    let server = Server::start(&[]);
    let (mut client, mut connection) = (server.connect(), connect(&server));
    let mut subscriber = subscribe(&mut connection);
    for (events, expected) in [
        ("Kd", vec![by_key.clone()]),
        ("Ed", vec![by_event.clone()]),
        ("KEd", vec![by_key, by_event]),
        // No events, or other classes.
        ("", vec![]),
        ("d", vec![]),
        ("KEg$lshzxet", vec![]),
        ("KEn", vec![]),
        ("KEm", vec![]),
    ] {
        client.call_bytes(&[b"CONFIG", b"SET", b"notify-keyspace-events", events.as_bytes()]).expect("set");
        let received = received(&mut client, &mut subscriber, "RL.TOKENBUCKET key 1 1 COST 2");
        assert_eq!(received, expected, "{events}");
    }
}

#[test]
fn no_events_are_sent_by_default() {
    let server = Server::start(&[]);
    let (mut client, mut connection) = (server.connect(), connect(&server));
    let mut subscriber = subscribe(&mut connection);
    for (command, _) in requests() {
        assert_eq!(received(&mut client, &mut subscriber, &command), Vec::new(), "{command}");
    }
}

#[test]
fn scripts_and_transactions_send_events_too() {
    let server = Server::start(&["--notify-keyspace-events", "Kd"]);
    let (mut client, mut connection) = (server.connect(), connect(&server));
    let mut subscriber = subscribe(&mut connection);
    let script = "for i = 1, 3 do redis.call('RL.SLIDINGLOG', KEYS[1], 1, '1d') end";
    client.eval::<()>(script, "scripted", &[]);
    assert_eq!(received(&mut client, &mut subscriber, "PING"), denials(&["scripted"; 2]));
    for command in ["MULTI", "RL.SLIDINGLOG scripted 1 1d", "RL.ALL 1 SLIDINGLOG scripted 1 1d"] {
        client.get::<()>(command);
    }
    assert_eq!(received(&mut client, &mut subscriber, "EXEC"), denials(&["scripted"; 2]));
    // With the database of the request.
    client.get::<()>("SELECT 3");
    let received = received(&mut client, &mut subscriber, "RL.TOKENBUCKET key 1 1 COST 2");
    assert_eq!(received, [("__keyspace@3__:key".to_owned(), "rl.denied".to_owned())]);
}
