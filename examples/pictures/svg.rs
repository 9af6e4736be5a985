//! The common style of the pictures: a card with light and dark colours, and the same marks.

use std::fmt::Write;

pub const WIDTH: f64 = 760.0;
/// The margin at either side.
pub const MARGIN: f64 = 24.0;

/// Blue and orange are safe for colour blindness, and no information is in the colour alone.
const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.name { font-size: 13px; font-weight: 600 }
.note { font-size: 11px; fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.card { fill: #ffffff; stroke: #d1d9e0 }
.grid, .base, .limit, .way, .count, .other, .ring, .cross { fill: none }
.grid { stroke: #e4e8ec }
.base { stroke: #8c959f }
.limit { stroke: #1f2328; stroke-dasharray: 5 4 }
.dot, .bar { fill: #2f6fd0 }
.request { fill: #6e7781 }
.ring { stroke: #2f6fd0; stroke-width: 1.2 }
.way { stroke: #2f6fd0; stroke-opacity: 0.45 }
.count { stroke: #2f6fd0; stroke-width: 2 }
.cross { stroke: #c4500a; stroke-width: 1.6 }
.over { fill: #c4500a }
.other { stroke: #59636e; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note { fill: #9da7b1 }
.card { fill: #161b22; stroke: #3d444d }
.grid { stroke: #2b323a }
.base { stroke: #6e7681 }
.limit { stroke: #e6edf3 }
.dot, .bar { fill: #6cabff }
.request { fill: #9da7b1 }
.ring, .way, .count { stroke: #6cabff }
.cross { stroke: #f5924e }
.over { fill: #f5924e }
.other { stroke: #9da7b1 }
}
";

/// The mark of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A request.
    Request,
    /// It is admitted, and proceeds.
    Dot,
    /// It is admitted, and delayed.
    Ring,
    /// It is denied.
    Cross,
}

/// A picture that is being drawn. Its texts are constants that need no escaping.
pub struct Picture {
    head: String,
    body: String,
}

impl Picture {
    /// Begins a picture with a title, and a line or two below it. The description is for screen readers.
    pub fn new(title: &str, lines: &[&str], description: &str) -> Self {
        let head = format!("<title>{title}</title>\n<desc>{description}</desc>\n");
        let mut picture = Self { head, body: String::new() };
        picture.text("title", MARGIN, 34.0, title);
        for (line, y) in lines.iter().zip([54.0, 71.0]) {
            picture.text("note", MARGIN, y, line);
        }
        picture
    }

    /// The finished file.
    pub fn finish(self, height: f64) -> String {
        let Self { head, body } = self;
        let (w, h) = (WIDTH - 1.0, height - 1.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" role=\"img\">\n{head}<style>{STYLE}</style>\n\
             <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{w:.0}\" height=\"{h:.0}\" rx=\"10\"/>\n{body}</svg>\n"
        )
    }

    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.put(format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &[from, to]);
    }

    /// A line through these points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" ")));
    }

    /// A bar that stands on `base`.
    pub fn bar(&mut self, class: &str, x: f64, base: f64, width: f64, height: f64) {
        let y = base - height;
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    pub fn mark(&mut self, mark: Mark, x: f64, y: f64) {
        match mark {
            Mark::Request => self.circle("request", x, y, 2.5),
            Mark::Dot => self.circle("dot", x, y, 2.5),
            Mark::Ring => self.circle("ring", x, y, 2.0),
            Mark::Cross => {
                self.put(format_args!("<path class=\"cross\" d=\"M{:.1} {:.1}l4 4m0 -4l-4 4\"/>", x - 2.0, y - 2.0));
            }
        }
    }

    fn circle(&mut self, class: &str, x: f64, y: f64, radius: f64) {
        self.put(format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>"));
    }

    /// The legend of the marks.
    pub fn legend(&mut self, y: f64, entries: &[(f64, Mark, &str)]) {
        for (x, mark, meaning) in entries {
            self.mark(*mark, *x, y - 4.0);
            self.text("note", x + 8.0, y, meaning);
        }
    }

    fn put(&mut self, element: std::fmt::Arguments) {
        writeln!(self.body, "{element}").expect("a string takes all");
    }
}

/// A count or a time to draw with.
#[allow(clippy::cast_precision_loss)] // far below 2^53
pub fn number(value: u64) -> f64 {
    value as f64
}
