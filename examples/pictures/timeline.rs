//! Time runs from left to right: requests are marks on a line, and counts are a step line.

use std::collections::HashMap;

use limiter::Micros;

use super::outcome::Outcome;
use super::svg::{number, Mark, Picture};
use super::traffic::SECOND;

/// Requests that come within this time are stacked.
const TOGETHER: Micros = SECOND / 2;
/// The distance of marks in a stack, and of the first one from the line.
const PITCH: f64 = 5.8;
const FIRST: f64 = 5.0;

/// A range of time, and its position.
#[derive(Clone, Copy)]
pub struct Timeline {
    pub from: Micros,
    pub to: Micros,
    pub left: f64,
    pub right: f64,
}

impl Timeline {
    /// The position of a time.
    pub fn x(&self, time: Micros) -> f64 {
        let share = (number(time) - number(self.from)) / number(self.to - self.from);
        self.left + share * (self.right - self.left)
    }

    /// Vertical lines at intervals, with the times below them.
    pub fn grid(&self, picture: &mut Picture, every: Micros, top: f64, bottom: f64) {
        let first = self.from.div_ceil(every);
        for time in (first..=self.to / every).map(|line| line * every) {
            let x = self.x(time);
            picture.line("grid", (x, top), (x, bottom));
            picture.text("note middle", x, bottom + 16.0, &format!("{} s", time / SECOND));
        }
    }

    /// Requests at the times when they come.
    pub fn requests(&self, picture: &mut Picture, traffic: &[Micros], base: f64) {
        picture.line("base", (self.left, base), (self.right, base));
        self.stacks(picture, traffic.iter().map(|&came| (came, Mark::Request)), base - FIRST, -PITCH);
    }

    /// Admitted requests above the line, denied ones below it. A delayed request is a ring where it comes, and a dot
    /// where it proceeds.
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

    /// Counts over time as a step line; `y` is the position of a count.
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
