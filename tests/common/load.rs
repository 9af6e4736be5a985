//! Concurrent traffic from several connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Client, Server};

/// Runs `meanwhile` while several connections repeat their work, which `worker` makes from the number of the
/// connection. They pause as [`rest_since`] says.
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

/// Sleeps for the time since `start`, at most ten milliseconds. A client and a server that wake each other without a
/// pause can keep other threads, forked children and replicas off a processor (Linux 6.18).
pub fn rest_since(start: Instant) {
    thread::sleep(start.elapsed().min(Duration::from_millis(10)));
}

/// Sets the flag on drop, so that threads that wait for it end also when a test fails.
pub struct EndOf<'a>(pub &'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
