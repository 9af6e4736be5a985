//! The picture for the README, drawn from the JSON file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::cases::ALGORITHMS;
use crate::report::Report;

const WIDTH: f64 = 760.0;
/// The start of the bars, and the length of the longest, which is followed by its figure.
const LEFT: f64 = 170.0;
const LONGEST: f64 = 500.0;
const BAR: f64 = 13.0;
const GAP: f64 = 9.0;

/// Legible on light and on dark pages.
const STYLE: &str = "text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 } \
    .figure { font-size: 11px } .plain { fill: #8c959f } .allowed { fill: #2f6fd0 } .denied { fill: #86b1ee } \
    .script { fill: #d9822b } \
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }";

/// A named group of bars.
struct Group {
    name: String,
    bars: Vec<(&'static str, f64)>,
}

pub fn draw(report: &Report, path: &Path) {
    let mut body = String::new();
    let mut y = 0.0;
    legend(&mut body, &mut y);
    let title = format!("CPU time of the server for a request, {} ({})", report.unit, report.server);
    panel(&mut body, &mut y, &title, &cost_groups(report), |value| format!("{value:.2}"));
    panel(&mut body, &mut y, "memory of a key, bytes", &memory_groups(report), |value| format!("{value:.0}"));
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\" \
         role=\"img\">\n<title>What a request costs, and what a key takes</title>\n<style>{STYLE}</style>\n{body}</svg>\n"
    );
    fs::write(path, svg).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn cost_groups(report: &Report) -> Vec<Group> {
    let cost = |name: String| report.costs.iter().find(|cost| cost.name == name).map(|cost| cost.median);
    let bar = |class, name: String| cost(name).map(|value| (class, value));
    let plain = ["INCR", "SET EX"]
        .map(|name| Group { name: name.to_owned(), bars: bar("plain", name.to_owned()).into_iter().collect() });
    let limiters = ALGORITHMS.iter().map(|it| Group {
        name: format!("RL.{}", it.name),
        bars: [
            bar("allowed", format!("RL.{} allowed", it.name)),
            bar("denied", format!("RL.{} denied", it.name)),
            bar("script", format!("Lua {} allowed", it.name)),
        ]
        .into_iter()
        .flatten()
        .collect(),
    });
    plain.into_iter().chain(limiters).collect()
}

fn memory_groups(report: &Report) -> Vec<Group> {
    // Without the sorted set of a thousand entries, which would dwarf all other bars.
    let shown = report.memory.iter().filter(|row| !row.name.contains("1000"));
    let group = |row: &crate::report::Memory| {
        let class = if row.name.starts_with("RL.") { "allowed" } else { "plain" };
        let script = row.script.map(|bytes| ("script", bytes));
        Group { name: row.name.replace(" entries", ""), bars: [(class, row.bytes)].into_iter().chain(script).collect() }
    };
    shown.map(group).collect()
}

fn legend(body: &mut String, y: &mut f64) {
    *y += 20.0;
    let entries =
        [("plain", "plain write"), ("allowed", "allowed"), ("denied", "denied"), ("script", "the Lua script")];
    let mut x = LEFT;
    for (class, name) in entries {
        let _ = writeln!(body, "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\"/>", *y - 10.0);
        let _ = writeln!(body, "<text x=\"{}\" y=\"{y}\">{name}</text>", x + 18.0);
        x += 120.0;
    }
}

fn panel(body: &mut String, y: &mut f64, title: &str, groups: &[Group], figure: impl Fn(f64) -> String) {
    let largest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.1).fold(0.0, f64::max);
    *y += 34.0;
    let _ = writeln!(body, "<text class=\"title\" x=\"0\" y=\"{y}\">{title}</text>");
    *y += 12.0;
    for group in groups {
        #[allow(clippy::cast_precision_loss)] // a few bars
        let height = BAR * group.bars.len() as f64;
        let middle = *y + height / 2.0 + 4.0;
        let _ =
            writeln!(body, "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, group.name);
        for (class, value) in &group.bars {
            let width = value / largest * LONGEST;
            let rect = format!("x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\"", BAR - 2.0);
            let _ = writeln!(body, "<rect class=\"{class}\" {rect}/>");
            let at = format!("x=\"{:.1}\" y=\"{:.1}\"", LEFT + width + 6.0, *y + BAR - 3.5);
            let _ = writeln!(body, "<text class=\"figure\" {at}>{}</text>", figure(*value));
            *y += BAR;
        }
        *y += GAP;
    }
}
