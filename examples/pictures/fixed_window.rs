//! Twice the limit around a boundary: the burst that a fixed window admits, and the sliding log, which has no
//! boundaries.

use limiter::{Algorithm, Micros};

use super::outcome::{ask, in_last_window, most, quota};
use super::svg::{number, Mark, Picture, MARGIN, WIDTH};
use super::timeline::Timeline;
use super::traffic::{self, SECOND};

const LIMIT: u64 = 10;
const WINDOW: Micros = 10 * SECOND;
const TOP: f64 = 104.0;
/// The line of the requests, and the base line of their count.
const BASE: f64 = TOP + 62.0;
const ZERO: f64 = BASE + 194.0;

pub fn draw() -> String {
    let mut picture = Picture::new(
        "Around a boundary, a fixed window admits two limits",
        &["Ten in ten seconds, and the same requests. The curves count what was admitted in the last ten seconds."],
        "Two charts over time. A burst comes just before the start of a window and another just after it. The fixed \
         window admits ten of each, so that twenty lie within ten seconds, twice the limit. The sliding log admits ten \
         of the first and none of the second, and stays at the limit.",
    );
    picture.legend(34.0, &[(590.0, Mark::Dot, "admitted"), (680.0, Mark::Cross, "denied")]);
    panel(&mut picture, Algorithm::FixedWindow, "Fixed window", MARGIN + 24.0);
    panel(&mut picture, Algorithm::SlidingLog, "Sliding log", WIDTH / 2.0 + 36.0);
    picture.finish(ZERO + 38.0)
}

fn panel(picture: &mut Picture, algorithm: Algorithm, name: &str, left: f64) {
    let right = left + WIDTH / 2.0 - MARGIN - 36.0;
    let time = Timeline { from: 5 * SECOND, to: 24 * SECOND, left, right };
    let outcomes = ask(&quota(algorithm, &LIMIT.to_string(), "10"), &traffic::around_a_boundary());
    let counts = in_last_window(&outcomes, WINDOW);
    let most = most(&counts);
    picture.text("name", left, TOP, &format!("{name}: up to {most} in ten seconds"));
    time.grid(picture, 5 * SECOND, TOP + 14.0, ZERO);
    if algorithm == Algorithm::FixedWindow {
        for x in [time.x(WINDOW), time.x(2 * WINDOW)] {
            picture.line("base", (x, TOP + 14.0), (x, BASE + 26.0));
        }
        picture.text("note", time.x(WINDOW) + 5.0, TOP + 23.0, "a new window starts");
    }
    time.outcomes(picture, &outcomes, BASE);
    for (count, class) in [(0, "base"), (LIMIT, "limit"), (2 * LIMIT, "grid")] {
        picture.line(class, (left, height(count)), (right, height(count)));
        picture.text("note end", left - 8.0, height(count) + 4.0, &count.to_string());
    }
    picture.text("note end", right, height(LIMIT) - 6.0, "limit");
    if most == 2 * LIMIT {
        picture.text("note middle", time.x(15 * SECOND), height(most) - 7.0, "twice the limit");
    }
    time.steps(picture, "count", &counts, height);
}

/// The height of a count.
fn height(count: u64) -> f64 {
    ZERO - 6.6 * number(count)
}
