//! The same bursts with all five algorithms.

use limiter::{Algorithm, Quota};

use super::outcome::{admitted, ask, quota};
use super::svg::{Mark, Picture, MARGIN, WIDTH};
use super::timeline::Timeline;
use super::traffic::{self, SECOND};

const TOP: f64 = 84.0;
/// The height of a lane, and the position of its line.
const LANE: f64 = 74.0;
const BASE: f64 = 42.0;
const TIME: Timeline = Timeline { from: 6 * SECOND, to: 36 * SECOND, left: 196.0, right: WIDTH - MARGIN - 76.0 };

/// The algorithms with their parameters and captions.
fn algorithms() -> [(&'static str, Quota, [&'static str; 2]); 5] {
    let of = |algorithm, b| quota(algorithm, "10", b);
    [
        ("Token bucket", of(Algorithm::TokenBucket, "1"), ["ten at once,", "then one a second"]),
        ("Leaky bucket", of(Algorithm::LeakyBucket, "1"), ["admits the same, but one", "a second goes ahead"]),
        ("Fixed window", of(Algorithm::FixedWindow, "10"), ["ten in each window, so two", "bursts around a boundary"]),
        ("Sliding log", of(Algorithm::SlidingLog, "10"), ["ten in any ten seconds,", "exactly"]),
        ("Sliding counter", of(Algorithm::SlidingCounter, "10"), ["about ten in any ten", "seconds, more evenly"]),
    ]
}

pub fn draw() -> String {
    let mut picture = Picture::new(
        "The same requests, five algorithms",
        &["Buckets of ten at one a second, windows of ten in ten seconds."],
        "A line of time for the requests and one for each algorithm. The token bucket admits ten of a burst and then \
         one a second. The leaky bucket admits the same, and one a second goes ahead. The fixed window admits ten on \
         each side of a boundary. The sliding log admits ten in any ten seconds. The sliding counter comes close.",
    );
    picture.legend(
        54.0,
        &[(452.0, Mark::Dot, "goes ahead"), (548.0, Mark::Ring, "admitted, held"), (666.0, Mark::Cross, "denied")],
    );
    let bottom = TOP + 6.0 * LANE;
    TIME.grid(&mut picture, 10 * SECOND, TOP, bottom);
    let traffic = traffic::bursty();
    heading(&mut picture, TOP, "Requests", ["two bursts, then two", "a second for a while"]);
    TIME.requests(&mut picture, &traffic, TOP + BASE);
    for ((name, quota, notes), lane) in algorithms().into_iter().zip(1..) {
        let top = TOP + f64::from(lane) * LANE;
        heading(&mut picture, top, name, notes);
        if quota.algorithm() == Algorithm::FixedWindow {
            boundaries(&mut picture, top);
        }
        let outcomes = ask(&quota, &traffic);
        TIME.outcomes(&mut picture, &outcomes, top + BASE);
        let (right, count) = (WIDTH - MARGIN, format!("{} of {}", admitted(&outcomes), outcomes.len()));
        picture.text("name end", right, top + BASE - 4.0, &count);
        picture.text("note end", right, top + BASE + 12.0, "admitted");
    }
    picture.finish(bottom + 38.0)
}

fn heading(picture: &mut Picture, top: f64, name: &str, notes: [&str; 2]) {
    picture.text("name", MARGIN, top + BASE - 14.0, name);
    picture.text("note", MARGIN, top + BASE + 3.0, notes[0]);
    picture.text("note", MARGIN, top + BASE + 18.0, notes[1]);
}

/// The start of each window.
fn boundaries(picture: &mut Picture, top: f64) {
    for x in [10, 20, 30].map(|second| TIME.x(second * SECOND)) {
        picture.line("base", (x, top + BASE - 26.0), (x, top + BASE + 26.0));
    }
}
