//! Time runs from left to right: requests are marks on a line, and how many there were is a line of steps.

use std::collections::HashMap;

use limiter::Micros;

use super::outcome::Outcome;
use super::svg::{number, Mark, Picture};
use super::traffic::SECOND;

/// Requests that come within this time are stacked.
const TOGETHER: Micros = SECOND / 2;
/// How far apart marks are in a stack, and the first of them from the line.
const PITCH: f64 = 5.8;
const FIRST: f64 = 5.0;

/// A stretch of time, and where it is drawn.
#[derive(Clone, Copy)]
pub struct Timeline {
    pub from: Micros,
    pub to: Micros,
    pub left: f64,
    pub right: f64,
}

impl Timeline {
    /// Where a time is.
    pub fn x(&self, time: Micros) -> f64 {
        let share = (number(time) - number(self.from)) / number(self.to - self.from);
        self.left + share * (self.right - self.left)
    }

    /// A line from top to bottom every so often, with the time below it.
    pub fn grid(&self, picture: &mut Picture, every: Micros, top: f64, bottom: f64) {
        let first = self.from.div_ceil(every);
        for time in (first..=self.to / every).map(|line| line * every) {
            let x = self.x(time);
            picture.line("grid", (x, top), (x, bottom));
            picture.text("note middle", x, bottom + 16.0, &format!("{} s", time / SECOND));
        }
    }

    /// Requests as they come.
    pub fn requests(&self, picture: &mut Picture, traffic: &[Micros], base: f64) {
        picture.line("base", (self.left, base), (self.right, base));
        self.stacks(picture, traffic.iter().map(|&came| (came, Mark::Request)), base - FIRST, -PITCH);
    }

    /// What became of requests: admitted ones above the line, denied ones below it. One that is held is a ring where it
    /// came, and a dot where it goes ahead.
    pub fn outcomes(&self, picture: &mut Picture, outcomes: &[Outcome], base: f64) {
        picture.line("base", (self.left, base), (self.right, base));
        let (allowed, denied): (Vec<&Outcome>, Vec<&Outcome>) = outcomes.iter().partition(|outcome| outcome.allowed);
        let ahead = allowed.iter().map(|outcome| (outcome.leaves, Mark::Dot));
        let held = allowed.iter().filter(|outcome| outcome.leaves > outcome.came);
        let above = ahead.chain(held.map(|outcome| (outcome.came, Mark::Ring)));
        self.stacks(picture, above, base - FIRST, -PITCH);
        self.stacks(picture, denied.iter().map(|outcome| (outcome.came, Mark::Cross)), base + FIRST, PITCH);
    }

    fn stacks(&self, picture: &mut Picture, marks: impl Iterator<Item = (Micros, Mark)>, first: f64, pitch: f64) {
        let mut next = HashMap::new();
        for (time, mark) in marks {
            let stack = time / TOGETHER;
            let y = next.entry(stack).or_insert(first);
            picture.mark(mark, self.x(stack * TOGETHER + TOGETHER / 2), *y);
            *y += pitch;
        }
    }

    /// Counts that change at times, as a line of steps from one end to the other; `y` is where a count is.
    pub fn steps(&self, picture: &mut Picture, class: &str, counts: &[(Micros, u64)], y: impl Fn(u64) -> f64) {
        let mut points = vec![(self.left, y(0))];
        let mut height = y(0);
        for &(time, count) in counts.iter().filter(|(time, _)| *time <= self.to) {
            points.extend([(self.x(time), height), (self.x(time), y(count))]);
            height = y(count);
        }
        points.push((self.right, height));
        picture.path(class, &points);
    }
}
