//! Traffic from several connections at once, while something else happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Client, Server};

/// Lets so many connections do over and over what `worker` makes for each of them, by its number, all the while that
/// `meanwhile` runs.
/// They leave room for others, as [`rest_since`] says.
pub fn under_load<T, W: FnMut(&mut Client) + Send>(
    server: &Server,
    connections: u64,
    worker: impl Fn(u64) -> W,
    meanwhile: impl FnOnce() -> T,
) -> T {
    let workers: Vec<_> = (0..connections).map(|number| (server.connect(), worker(number))).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        for (mut client, mut work) in workers {
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    work(&mut client);
                    rest_since(start);
                }
            });
        }
        let _end = EndOf(over);
        meanwhile()
    })
}

/// Rests as long as was worked since then, for at most ten milliseconds. A client and a server that wake each other without
/// a pause can keep all others off a processor (Linux 6.18), for as long as they go on: timers, forked children, replicas.
pub fn rest_since(start: Instant) {
    thread::sleep(start.elapsed().min(Duration::from_millis(10)));
}

/// Ends what looks at the flag, also when a test fails: it would wait for its threads forever.
pub struct EndOf<'a>(pub &'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
