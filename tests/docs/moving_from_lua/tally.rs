//! Counts of the differences between a script and its command.

use super::page::number;
use super::Reply;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    pub denied: u64,
    /// The script allows and the command denies.
    pub too_early: u64,
    /// The script denies and the command allows.
    pub too_late: u64,
    /// Both decide alike, but a number differs; by number.
    pub numbers: [u64; 4],
    /// The script returns a negative remaining quota.
    pub negative: u64,
}

impl Tally {
    pub fn count(&mut self, script: &Reply, command: &Reply) {
        self.requests += 1;
        self.denied += u64::from(!command.allowed);
        self.negative += u64::from(script.numbers[0] < 0);
        match (script.allowed, command.allowed) {
            (true, false) => self.too_early += 1,
            (false, true) => self.too_late += 1,
            _ => {
                for (count, (one, other)) in self.numbers.iter_mut().zip(script.numbers.iter().zip(command.numbers)) {
                    *count += u64::from(*one != other);
                }
            }
        }
    }

    /// The row of the page's table.
    pub fn row(&self, title: &str) -> String {
        let decisions = [self.requests, self.denied, self.too_early, self.too_late];
        let cells: Vec<String> = decisions.into_iter().chain(self.numbers).map(number).collect();
        format!("| {title} | {} |", cells.join(" | "))
    }
}
