//! The accuracy of the sliding counter: the distribution of the requests in a window, and the worst case.

use limiter::Micros;

use super::accuracy::{Accuracy, Findings, REQUESTS};
use super::outcome::most;
use super::svg::{number, Picture, MARGIN};
use super::timeline::Timeline;
use super::traffic::SECOND;

const TOP: f64 = 110.0;
const ROW: f64 = 80.0;
/// The position of the charts, with the figures to their right.
const LEFT: f64 = 188.0;
const RIGHT: f64 = 528.0;
const FIGURES: f64 = RIGHT + 20.0;
/// The height of the highest bar.
const HIGHEST: f64 = 56.0;
/// Each bar stands for two percent of the limit, up to twice the limit.
const BARS: usize = 100;
/// The chart of the worst case.
const WORST: f64 = TOP + 4.0 * ROW + 50.0;
const ZERO: f64 = WORST + 120.0;

pub fn draw(findings: &Findings) -> String {
    let thousands = REQUESTS / 1_000;
    let mut picture = Picture::new(
        "How exact the sliding counter is",
        &[
            "What it had admitted in the last minute, in percent of the limit: a higher bar is for more of the time.",
            &format!("Right of the limit is too much; the exact log has nothing there. {thousands},000 requests each."),
        ],
        &format!("Bars and a curve that show how many requests the sliding counter lets through. {findings}"),
    );
    let Findings { at_the_limit, above_the_limit, larger_limit, bursts, unlucky } = findings;
    let bottom = TOP + 4.0 * ROW - 12.0;
    axis(&mut picture, bottom);
    let rows = [
        ("At the limit", ["one by one, at random", "100 a minute, limit 100"], at_the_limit),
        ("Above the limit", ["one by one, at random", "150 a minute, limit 100"], above_the_limit),
        ("A larger limit", ["one by one, at random", "1000 a minute, limit 1000"], larger_limit),
        ("In bursts", ["of 1 to 59, at random", "100 a minute, limit 100"], bursts),
    ];
    for ((name, notes, found), y) in rows.into_iter().zip((0..).map(|row| TOP + f64::from(row) * ROW)) {
        heading(&mut picture, y, name, notes);
        spread(&mut picture, found, y + HIGHEST + 8.0);
        figures(&mut picture, found, y);
    }
    worst(&mut picture, unlucky);
    picture.finish(ZERO + 38.0)
}

fn heading(picture: &mut Picture, y: f64, name: &str, notes: [&str; 2]) {
    picture.text("name", MARGIN, y + 26.0, name);
    picture.text("note", MARGIN, y + 43.0, notes[0]);
    picture.text("note", MARGIN, y + 58.0, notes[1]);
}

fn axis(picture: &mut Picture, bottom: f64) {
    for percent in [0, 50, 100, 150, 200] {
        let x = LEFT + (RIGHT - LEFT) * f64::from(percent) / 200.0;
        picture.line(if percent == 100 { "limit" } else { "grid" }, (x, TOP), (x, bottom));
        picture.text("note middle", x, bottom + 15.0, &format!("{percent} %"));
    }
    picture.text("note middle", f64::midpoint(LEFT, RIGHT), TOP - 6.0, "limit");
}

/// A bar for the time spent within each two percent of the limit.
fn spread(picture: &mut Picture, found: &Accuracy, base: f64) {
    let mut times = [0; BARS];
    for (count, time) in (0_u64..).zip(&found.counter.0) {
        // A bar includes its upper end, so the limit itself is not above the limit.
        let bar = (count * 50).div_ceil(found.limit).saturating_sub(1);
        times[usize::try_from(bar).expect("few")] += time;
    }
    let longest = times.iter().copied().max().unwrap_or(0);
    let width = (RIGHT - LEFT) / 100.0;
    let mut x = LEFT;
    for (bar, &time) in times.iter().enumerate() {
        let class = if bar < BARS / 2 { "bar" } else { "over" };
        if time > 0 {
            picture.bar(class, x, base, width - 0.4, HIGHEST * number(time) / number(longest));
        }
        x += width;
    }
    picture.line("base", (LEFT, base), (RIGHT, base));
}

fn figures(picture: &mut Picture, found: &Accuracy, y: f64) {
    let Accuracy { differing, more, .. } = found;
    picture.text("figure", FIGURES, y + 15.0, &format!("99 % of the time up to {} %", found.usually()));
    picture.text("figure", FIGURES, y + 31.0, &format!("{} % at the most", found.most()));
    picture.text("note", FIGURES, y + 48.0, &format!("unlike the log in {differing:.1} % of"));
    picture.text("note", FIGURES, y + 62.0, &format!("decisions; admits {more:.1} % more"));
}

/// The worst case, over time.
fn worst(picture: &mut Picture, [counter, log]: &[Vec<(Micros, u64)>; 2]) {
    let time = Timeline { from: 0, to: 180 * SECOND, left: LEFT, right: RIGHT };
    let height = |count| ZERO - 0.6 * number(count);
    heading(picture, WORST, "At worst", ["100 as a window ends,", "then all that it lets in"]);
    time.grid(picture, 60 * SECOND, WORST, ZERO);
    for (count, class) in [(0, "base"), (100, "limit"), (200, "grid")] {
        picture.line(class, (LEFT, height(count)), (RIGHT, height(count)));
    }
    picture.text("note", LEFT + 6.0, height(100) - 6.0, "limit");
    picture.text("note", LEFT + 6.0, height(200) - 6.0, "twice the limit");
    time.steps(picture, "other", log, height);
    time.steps(picture, "count", counter, height);
    picture.text("note end", time.x(104 * SECOND) - 10.0, height(173) - 4.0, "counter");
    picture.text("note", time.x(126 * SECOND), height(40), "log");
    picture.text("figure", FIGURES, WORST + 15.0, &format!("{} % at the most", most(counter)));
    picture.text("note", FIGURES, WORST + 32.0, "100 at once, and 100 more");
    picture.text("note", FIGURES, WORST + 46.0, "as they fade in the next");
    picture.text("note", FIGURES, WORST + 60.0, "window");
}
