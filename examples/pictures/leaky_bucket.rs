//! Even spacing: a leaky bucket delays requests, and a token bucket of the same size does not.

use limiter::Algorithm;

use super::outcome::{admitted, ask, quota};
use super::svg::{Mark, Picture, MARGIN, WIDTH};
use super::timeline::Timeline;
use super::traffic::{self, SECOND};

const TOP: f64 = 80.0;
/// The height of a panel, and the lines on which requests come and leave.
const PANEL: f64 = 150.0;
const COME: f64 = 48.0;
const LEAVE: f64 = 128.0;

pub fn draw() -> String {
    let mut picture = Picture::new(
        "A leaky bucket lets requests leave evenly spaced",
        &["Both hold eight and run at one a second. Each line is a request, from when it comes to when it goes ahead."],
        "Requests come in three bursts. The leaky bucket holds each for delay_ms, so that they leave one second apart, \
         and denies those that find eight waiting. The token bucket admits and denies the same requests, but those \
         admitted go ahead at once, in bursts.",
    );
    picture
        .legend(34.0, &[(530.0, Mark::Dot, "goes ahead"), (622.0, Mark::Ring, "held"), (680.0, Mark::Cross, "denied")]);
    let time = Timeline { from: 0, to: 24 * SECOND, left: MARGIN + 60.0, right: WIDTH - MARGIN };
    time.grid(&mut picture, 5 * SECOND, TOP + COME - 20.0, TOP + PANEL + LEAVE + 14.0);
    let leaky = "Leaky bucket: each is held for its delay_ms, and one a second goes ahead";
    let token = "Token bucket: the same are admitted, and go ahead at once";
    panel(&mut picture, time, TOP, Algorithm::LeakyBucket, leaky, "queue full");
    panel(&mut picture, time, TOP + PANEL, Algorithm::TokenBucket, token, "no token");
    picture.finish(TOP + PANEL + LEAVE + 50.0)
}

fn panel(picture: &mut Picture, time: Timeline, y: f64, algorithm: Algorithm, name: &str, reason: &str) {
    let outcomes = ask(&quota(algorithm, "8", "1"), &traffic::three_bursts());
    picture.text("name", MARGIN, y + 18.0, name);
    let count = format!("{} of {} admitted", admitted(&outcomes), outcomes.len());
    picture.text("note end", WIDTH - MARGIN, y + 18.0, &count);
    for (line, name) in [(COME, "come"), (LEAVE, "go ahead")] {
        picture.text("note", MARGIN, y + line + 4.0, name);
        picture.line("base", (time.left, y + line), (time.right, y + line));
    }
    for outcome in &outcomes {
        let (came, leaves) = (time.x(outcome.came), time.x(outcome.leaves));
        if !outcome.allowed {
            picture.mark(Mark::Cross, came, y + COME - 8.0);
            continue;
        }
        picture.line("way", (came, y + COME), (leaves, y + LEAVE));
        if outcome.leaves > outcome.came {
            picture.mark(Mark::Ring, came, y + COME);
        }
        picture.mark(Mark::Dot, leaves, y + LEAVE);
    }
    if let Some(denied) = outcomes.iter().rfind(|outcome| !outcome.allowed) {
        picture.text("note", time.x(denied.came) + 7.0, y + COME - 5.0, reason);
    }
}
