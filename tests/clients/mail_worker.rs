//! The worker that sends evenly spaced mails, in several processes: no mail is lost and none is sent too early,
//! whatever fails.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::program::{python, url, Program};
use super::upstream::{Arrival, Upstream};
use crate::common::{eventually, Server};

/// The time between two mails.
const INTERVAL: Duration = Duration::from_millis(100);
/// Delays are whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);
/// How many mails a process delays at most.
const DELAYED: usize = 4;
const APPEND_ONLY: [&str; 2] = ["--appendonly", "yes"];

fn worker(server: &Server, upstream: &Upstream, name: &str) -> Program {
    let mut command = python();
    command.arg("mail_worker.py").env("REDIS_URL", url(server)).env("UPSTREAM", &upstream.url).env("WORKER", name);
    Program::start(server, name, &mut command)
}

/// Three processes that wait for jobs.
fn workers(server: &Server, upstream: &Upstream) -> Vec<Program> {
    let workers = ["one", "two", "three"].map(|name| worker(server, upstream, name));
    let mut client = server.connect();
    eventually("all wait for jobs", || client.number("blocked_clients") >= 3 * i64::try_from(DELAYED).expect("a few"));
    workers.into()
}

/// Queues `count` mails, and returns the time before.
fn queue(server: &Server, count: usize) -> Instant {
    let (start, mails) = (Instant::now(), mails(count));
    server.connect().get::<()>(&format!("RPUSH mail:jobs {}", Vec::from_iter(mails).join(" ")));
    start
}

/// The mails that [`queue`] queues.
fn mails(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("mail{number}")).collect()
}

/// Waits until no job is waiting or taken.
fn wait_until_done(server: &Server, workers: &mut [Program]) {
    let mut client = server.connect();
    eventually("all jobs are done", || {
        assert!(workers.iter_mut().all(Program::is_running));
        client.get::<Vec<String>>("KEYS mail:*").is_empty()
    });
}

/// Checks that no mail arrived too early, also those that were rejected.
fn assert_spaced(start: Instant, arrivals: &[Arrival]) {
    for (number, arrival) in (0..).zip(arrivals) {
        let (after, earliest) = (arrival.at - start, (number * INTERVAL).saturating_sub(ROUNDING));
        assert!(after >= earliest, "{number} came after {after:?}: {arrivals:?}");
    }
}

/// Waits until no more mails arrive. After `sent` of them only those may arrive that were already on their way.
fn assert_quiet(upstream: &Upstream, sent: usize) {
    let is_long_ago = |arrival: &Arrival| arrival.at.elapsed() > Duration::from_secs(1);
    eventually("nothing is sent any more", || upstream.arrivals().last().is_some_and(is_long_ago));
    let arrivals = upstream.arrivals();
    assert!(arrivals.len() <= sent + 3 * DELAYED, "{arrivals:?}");
}

/// Checks that all mails were accepted, and at most `again` of them twice.
fn assert_accepted(arrivals: &[Arrival], mails: &BTreeSet<String>, again: usize) {
    let accepted: Vec<_> = arrivals.iter().filter(|it| it.status == Some(200)).map(|it| it.body.clone()).collect();
    assert_eq!(&BTreeSet::from_iter(accepted.clone()), mails);
    assert!(accepted.len() <= mails.len() + again, "{accepted:?}");
}

fn accepting() -> Upstream {
    Upstream::start(|_| Some((200, "{}".to_owned())))
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn every_mail_is_sent_once_at_the_full_rate_and_no_faster() {
    let (server, upstream) = (Server::start(&[]), accepting());
    let mut workers = workers(&server, &upstream);
    let start = queue(&server, 60);
    wait_until_done(&server, &mut workers);
    let arrivals = upstream.arrivals();
    assert_accepted(&arrivals, &mails(60), 0);
    assert_spaced(start, &arrivals);
    // The quickest 20 count, as a busy machine may delay others.
    let quickest = arrivals.windows(20).map(|some| some[19].at - some[0].at).min().expect("many");
    assert!(quickest < Duration::from_secs(3), "{quickest:?} for 20 at 10 a second");
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn mails_that_fail_are_sent_later() {
    let (server, requests) = (Server::start(&[]), AtomicUsize::new(0));
    let upstream = Upstream::start(move |_| match requests.fetch_add(1, Ordering::SeqCst) {
        ..8 => Some((503, "{}".to_owned())),
        8..15 => None,
        _ => Some((200, "{}".to_owned())),
    });
    let mut workers = workers(&server, &upstream);
    let start = queue(&server, 30);
    wait_until_done(&server, &mut workers);
    let arrivals = upstream.arrivals();
    assert_accepted(&arrivals, &mails(30), 0);
    assert_eq!(arrivals.len(), 30 + 15);
    assert_spaced(start, &arrivals);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn a_mail_that_is_rejected_for_good_is_set_aside() {
    let server = Server::start(&[]);
    let upstream = Upstream::start(|body| Some((if body == "mail3" { 422 } else { 200 }, "{}".to_owned())));
    let mut workers = workers(&server, &upstream);
    queue(&server, 10);
    let mut client = server.connect();
    eventually("all but one are done", || client.get::<Vec<String>>("KEYS mail:*") == ["mail:failed"]);
    assert_eq!(client.get::<Vec<String>>("LRANGE mail:failed 0 -1"), ["mail3"]);
    assert_eq!(upstream.arrivals().len(), 10);
    assert!(workers.iter_mut().all(Program::is_running));
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn a_restart_of_redis_loses_no_mail_and_keeps_the_spacing() {
    let (mut server, upstream) = (Server::start(&APPEND_ONLY), accepting());
    let mut workers = workers(&server, &upstream);
    let start = queue(&server, 50);
    eventually("some are sent", || upstream.arrivals().len() >= 10);
    server.stop();
    let sent = upstream.arrivals().len();
    assert_quiet(&upstream, sent);
    server.start_again_in_place();
    wait_until_done(&server, &mut workers);
    let arrivals = upstream.arrivals();
    assert_accepted(&arrivals, &mails(50), 3 * DELAYED);
    assert_spaced(start, &arrivals);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn while_redis_rejects_commands_no_mail_is_sent_and_none_is_lost() {
    let (server, upstream) = (Server::start(&[]), accepting());
    let mut workers = workers(&server, &upstream);
    let start = queue(&server, 40);
    let mut client = server.connect();
    // First its memory is full, then it is a replica.
    for (begin, end) in
        [("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")]
    {
        let sent = upstream.arrivals().len();
        eventually("some are sent", || upstream.arrivals().len() >= sent + 5);
        client.get::<()>(begin);
        assert_quiet(&upstream, upstream.arrivals().len());
        client.get::<()>(end);
    }
    wait_until_done(&server, &mut workers);
    let arrivals = upstream.arrivals();
    // Mails whose sending could not be recorded are sent again.
    assert_accepted(&arrivals, &mails(40), 3 * DELAYED);
    assert_spaced(start, &arrivals);
}

/// The server moves jobs for waiting workers, and ends before it has sent the replies.
#[test]
#[ignore = "needs what `make test-clients` installs"]
fn mails_that_are_taken_while_redis_stops_are_not_lost() {
    let (mut server, upstream) = (Server::start(&APPEND_ONLY), accepting());
    let mut workers = workers(&server, &upstream);
    let words = Vec::from_iter(mails(30)).join(" ");
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream.write_all(format!("RPUSH mail:jobs {words}\r\nSHUTDOWN\r\n").as_bytes()).expect("sent");
    eventually("the server ends", || !server.is_running());
    assert_eq!(upstream.arrivals().len(), 0);
    server.start_again_in_place();
    wait_until_done(&server, &mut workers);
    assert_accepted(&upstream.arrivals(), &mails(30), 3 * DELAYED);
}

#[test]
#[ignore = "needs what `make test-clients` installs"]
fn a_killed_worker_finds_its_mails_after_a_restart() {
    let (server, upstream) = (Server::start(&[]), accepting());
    let mut workers = workers(&server, &upstream);
    let start = queue(&server, 40);
    let mut client = server.connect();
    eventually("some are sent", || upstream.arrivals().len() >= 10);
    workers[0].kill();
    assert_ne!(client.get::<Vec<String>>("KEYS mail:taken:one*"), [] as [String; 0], "it was killed between two mails");
    workers[0] = worker(&server, &upstream, "one");
    wait_until_done(&server, &mut workers);
    let arrivals = upstream.arrivals();
    assert_accepted(&arrivals, &mails(40), DELAYED);
    assert_spaced(start, &arrivals);
}
