//! The view, as lines that fit the screen. Keys may contain any bytes, so all but printable ASCII is escaped here.

use std::cmp::Ordering;
use std::fmt::Write;
use std::time::Duration;

use super::rates::{Pace, Rate, Rates};
use super::sample::{Ranking, Sample};

/// The height from which on there are empty lines.
const ROOMY: usize = 20;
/// The width of a column of numbers.
const COLUMN: usize = 11;
/// The usual width of the column of names.
const NAME: usize = 24;
const LEAST_NAME: usize = 14;
/// The end of a line that is cut.
const CUT: &str = "...";

/// The data of the view.
pub struct Picture<'a> {
    pub address: &'a str,
    pub sample: &'a Sample,
    pub rates: &'a Rates,
    /// For how long the server has not replied, and why.
    pub lost: Option<(Duration, &'a str)>,
}

/// A title with rows below it, as many as fit.
struct Section {
    title: String,
    rows: Vec<Vec<u8>>,
}

impl Picture<'_> {
    /// The lines of the view, within a height and a width.
    pub fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let mut lines = vec![self.headline().into_bytes(), self.totals().into_bytes()];
        let gap = usize::from(height >= ROOMY);
        let mut room = height.saturating_sub(lines.len());
        let mut sections = self.sections(width);
        // No title without rows.
        sections.truncate(room / (gap + 2));
        room -= sections.len() * (gap + 1);
        let wanted: Vec<usize> = sections.iter().map(|section| section.rows.len()).collect();
        for (section, shown) in sections.into_iter().zip(share(&wanted, room)) {
            lines.extend(vec![Vec::new(); gap]);
            lines.extend(section.cut_to(shown, width));
        }
        lines.truncate(height);
        lines.iter().map(|line| cut(&plain(line), width)).collect()
    }

    fn headline(&self) -> String {
        let address = self.address;
        match self.lost {
            None => format!("redis-ratelimit {} on {address}, q quits", self.sample.stats.version),
            Some((time, why)) => {
                let seconds = time.as_secs();
                format!("LOST {address} {seconds} s ago, trying again. Below is what was seen last. ({why})")
            }
        }
    }

    fn totals(&self) -> String {
        let stats = &self.sample.stats;
        let memory = match &self.sample.memory {
            Ok(memory) => bytes(*memory),
            Err(reason) => format!("unknown ({reason})"),
        };
        let [allowed, denied] = columns(self.rates.total());
        let [keys, logs] = [stats.keys.to_string(), bytes(stats.log_bytes)];
        format!("{allowed} allowed/s, {denied} denied/s, {keys} keys, {logs} in logs, server memory {memory}")
    }

    fn sections(&self, width: usize) -> Vec<Section> {
        let Rates { algorithms, policies } = self.rates;
        let longest = algorithms.iter().chain(policies).map(|rate| rate.name.len()).max().unwrap_or(0);
        let names = longest.max(NAME).min(width.saturating_sub(3 * COLUMN)).max(LEAST_NAME);
        let mut sections = vec![table("ALGORITHM", algorithms, names)];
        if !policies.is_empty() {
            sections.push(table("POLICY", policies, names));
        }
        sections.push(self.most_denied());
        sections
    }

    fn most_denied(&self) -> Section {
        let mut title = "DENIED MOST IN THE LAST MINUTE".to_owned();
        let instead = |text: &str| vec![format!("{:>COLUMN$}  {text}", "").into_bytes()];
        let rows = match &self.sample.denied {
            Err(reason) => instead(&format!("RL.TOP: {reason}")),
            Ok(Ranking { denials, error, keys }) => {
                let _ = write!(title, ": {denials} denials");
                if *error > 0 {
                    let _ = write!(title, ", counts up to {error} too high");
                }
                // Databases other than 0 are shown as in redis-cli's prompt.
                let place = |db: u32| if db == 0 { String::new() } else { format!("[{db}] ") };
                let row = |(key, count, db): &(Vec<u8>, u64, u32)| {
                    [format!("{count:>COLUMN$}  {}", place(*db)).as_bytes(), key].concat()
                };
                let denied = self.rates.total().is_some_and(|pace| pace.denied > 0.0);
                match keys.as_slice() {
                    [] if *denials > 0 => instead("none of a key that this user may read"),
                    [] if denied => instead("not counted: is ratelimit.top-size 0?"),
                    [] => instead("none"),
                    keys => keys.iter().map(row).collect(),
                }
            }
        };
        Section { title, rows }
    }
}

impl Section {
    /// The first rows, and a line with their number if not all of them fit.
    fn cut_to(mut self, shown: usize, width: usize) -> impl Iterator<Item = Vec<u8>> {
        let note = format!("   {shown} of {} shown", self.rows.len());
        if shown < self.rows.len() && self.title.len() + note.len() <= width {
            self.title.push_str(&note);
        }
        std::iter::once(self.title.into_bytes()).chain(self.rows.into_iter().take(shown))
    }
}

/// The busiest rows first; equal ones in the order of the server.
fn table(title: &str, rates: &[Rate], names: usize) -> Section {
    let row = |name: &str, [allowed, denied]: [String; 2], keys: &str| {
        let name = cut(name, names);
        format!("{name:<names$}{allowed:>COLUMN$}{denied:>COLUMN$}{keys:>COLUMN$}")
    };
    let mut rates: Vec<&Rate> = rates.iter().collect();
    rates.sort_by(|a, b| busier(a, b));
    let rows = rates.iter().map(|rate| row(&rate.name, columns(rate.per_second), &rate.keys.to_string()));
    Section {
        title: row(title, ["allowed/s", "denied/s"].map(str::to_owned), "keys"),
        rows: rows.map(String::into_bytes).collect(),
    }
}

fn busier(a: &Rate, b: &Rate) -> Ordering {
    let requests = |rate: &Rate| rate.per_second.map_or(0.0, |pace| pace.allowed + pace.denied);
    requests(b).total_cmp(&requests(a)).then_with(|| b.keys.cmp(&a.keys))
}

/// Distributes rows one by one among the sections that need more.
fn share(wanted: &[usize], mut room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    while room > 0 && given != wanted {
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if room > 0 && *given < *wanted {
                *given += 1;
                room -= 1;
            }
        }
    }
    given
}

fn columns(pace: Option<Pace>) -> [String; 2] {
    pace.map_or_else(|| ["-", "-"].map(str::to_owned), |pace| [pace.allowed, pace.denied].map(number))
}

/// With a decimal place where it matters.
fn number(rate: f64) -> String {
    let places = usize::from(rate > 0.0 && rate < 9.95);
    format!("{rate:.places$}")
}

#[allow(clippy::cast_precision_loss)] // one decimal place is shown
fn bytes(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| count >> bits > 0) {
        Some((unit, bits)) => format!("{:.1} {unit}", count as f64 / (1_u64 << bits) as f64),
        None => format!("{count} B"),
    }
}

/// Text without control characters.
pub fn plain(line: &[u8]) -> String {
    let escape = |&byte: &u8| match byte {
        b'\'' | b'"' => char::from(byte).to_string(),
        _ => byte.escape_ascii().to_string(),
    };
    line.iter().map(escape).collect()
}

fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(CUT.len())).chain(CUT.chars()).take(width).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::sample::Stats;
    use super::*;

    fn rate(name: &str, allowed: f64, denied: f64, keys: u64) -> Rate {
        Rate { name: name.to_owned(), per_second: Some(Pace { allowed, denied }), keys }
    }

    fn rates(policies: Vec<Rate>) -> Rates {
        let names = ["TOKENBUCKET", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGLOG", "SLIDINGCOUNTER"];
        let algorithms = names.map(|name| rate(name, 0.0, 0.0, 0)).into();
        Rates { algorithms, policies }
    }

    fn sample(keys: &[(&[u8], u64)]) -> Sample {
        let keys: Vec<_> = keys.iter().map(|(key, count)| (key.to_vec(), *count, 0)).collect();
        let stats = Stats { version: "1.2.3".to_owned(), keys: 7, log_bytes: 1_536, ..Stats::default() };
        let denials = keys.iter().map(|key| key.1).sum();
        Sample { taken: Instant::now(), stats, denied: Ok(Ranking { denials, error: 0, keys }), memory: Ok(5 << 20) }
    }

    fn lines(sample: &Sample, rates: &Rates, width: usize, height: usize) -> Vec<String> {
        Picture { address: "server:1", sample, rates, lost: None }.lines(width, height)
    }

    /// The first words of the lines that follow a title.
    fn below(lines: &[String], title: &str) -> Vec<String> {
        let rows = lines.iter().skip_while(|line| !line.starts_with(title)).skip(1).take_while(|line| !line.is_empty());
        rows.map(|row| row.split_whitespace().next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn the_view_shows_all_sections() {
        let mut sample = sample(&[(b"user:42", 12), (b"user:7", 3)]);
        if let Ok(Ranking { keys, .. }) = &mut sample.denied {
            keys[1].2 = 12;
        }
        let mut rates = rates(vec![rate("login", 1234.4, 5.55, 17)]);
        rates.algorithms[1] = Rate { name: "LEAKYBUCKET".to_owned(), per_second: None, keys: 3 };
        let expected = "\
redis-ratelimit 1.2.3 on server:1, q quits
- allowed/s, - denied/s, 7 keys, 1.5 KiB in logs, server memory 5.0 MiB

ALGORITHM                 allowed/s   denied/s       keys
LEAKYBUCKET                       -          -          3
TOKENBUCKET                       0          0          0
FIXEDWINDOW                       0          0          0
SLIDINGLOG                        0          0          0
SLIDINGCOUNTER                    0          0          0

POLICY                    allowed/s   denied/s       keys
login                          1234        5.5         17

DENIED MOST IN THE LAST MINUTE: 15 denials
         12  user:42
          3  [12] user:7";
        assert_eq!(lines(&sample, &rates, 80, 24).join("\n"), expected);
    }

    #[test]
    fn the_busiest_rows_come_first_and_hidden_rows_are_counted() {
        let policy = |number: u32| rate(&format!("p{number}"), f64::from(number % 10), f64::from(number / 10), 0);
        let policies = (0..40).map(policy).chain([rate("idle", 0.0, 0.0, 9)]).collect();
        let lines = lines(&sample(&[]), &rates(policies), 80, 24);
        assert_eq!(lines.len(), 24);
        assert!(
            lines.iter().any(|line| line.starts_with("POLICY ") && line.ends_with("   10 of 41 shown")),
            "{lines:?}"
        );
        let busiest = ["p39", "p29", "p38", "p19", "p28", "p37", "p9", "p18", "p27", "p36"];
        assert_eq!(below(&lines, "POLICY"), busiest);
    }

    #[test]
    fn equal_rows_are_sorted_by_keys_and_else_keep_their_order() {
        let policies = [("b", 1), ("a", 1), ("c", 2)].map(|(name, keys)| rate(name, 1.0, 1.0, keys)).into();
        assert_eq!(below(&lines(&sample(&[]), &rates(policies), 80, 24), "POLICY"), ["c", "b", "a"]);
    }

    #[test]
    fn lines_and_rows_fit_any_screen() {
        let keys: Vec<_> = (0..50_u8).map(|number| vec![number; 100]).collect();
        let keys: Vec<_> = keys.iter().map(|key| (key.as_slice(), 5)).collect();
        let policies = (0..50).map(|_| rate(&"n".repeat(128), 1e9, 1e9, u64::MAX)).collect();
        let (sample, rates) = (sample(&keys), rates(policies));
        for width in (0..9).chain([20, 46, 47, 80, 400]) {
            for height in (0..30).chain([200]) {
                let lines = lines(&sample, &rates, width, height);
                assert!(lines.len() <= height && lines.iter().all(|line| line.len() <= width), "{width}x{height}");
                // The screen is full, unless a title would have no rows.
                assert!(lines.len() == height.min(113) || height == 3, "{width}x{height}");
            }
        }
    }

    #[test]
    fn a_small_screen_shows_rows_of_every_section() {
        let policies = (0..50).map(|number| rate(&format!("p{number}"), 1.0, 0.0, 0)).collect();
        let keys: Vec<_> = (0..50).map(|_| (b"key".as_slice(), 1)).collect();
        let lines = lines(&sample(&keys), &rates(policies), 47, 11);
        assert_eq!(below(&lines, "ALGORITHM")[..2], ["TOKENBUCKET", "LEAKYBUCKET"]);
        assert_eq!(below(&lines, "POLICY")[..2], ["p0", "p1"]);
        assert_eq!(below(&lines, "DENIED"), ["1", "1"]);
        assert_eq!(lines[2], "ALGORITHM       allowed/s   denied/s       keys");
    }

    #[test]
    fn only_printable_ascii_reaches_the_terminal() {
        let every: Vec<u8> = (0..=u8::MAX).collect();
        let mut sample = sample(&[(&every, 1), (b"\x1b[2J\r\n\x9b1mx", 1)]);
        sample.stats.version = "\x1b[1m\u{9b}".to_owned();
        let rates = rates(vec![rate("\x1b]0;title\x07", 1.0, 1.0, 1)]);
        let picture =
            Picture { address: "\x1bc", sample: &sample, rates: &rates, lost: Some((Duration::ZERO, "\n\x1b")) };
        for lost in [picture.lost, None] {
            let lines = Picture { lost, ..picture }.lines(2_000, 30);
            assert!(lines.iter().all(|line| line.bytes().all(|byte| (b' '..=b'~').contains(&byte))), "{lines:?}");
            assert!(lines.iter().any(|line| line.ends_with(r"  \x1b[2J\r\n\x9b1mx")), "{lines:?}");
        }
        sample.denied = Err("\x1b[2J".to_owned());
        sample.memory = Err("\x1b[2J".to_owned());
        let lines = lines(&sample, &rates, 2_000, 30);
        assert!(lines.iter().all(|line| !line.contains('\x1b')), "{lines:?}");
    }

    #[test]
    fn missing_data_is_reported() {
        let mut sample = sample(&[]);
        let shows = |sample: &Sample, rates: &Rates, text: &str| {
            let lines = lines(sample, rates, 120, 24);
            assert!(lines.iter().any(|line| line.contains(text)), "{text} in {lines:?}");
        };
        shows(&sample, &rates(vec![]), "  none");
        shows(&sample, &rates(vec![rate("login", 0.0, 1.0, 0)]), "  not counted: is ratelimit.top-size 0?");
        sample.denied = Ok(Ranking { denials: 3, error: 2, keys: vec![] });
        shows(&sample, &rates(vec![]), "  none of a key that this user may read");
        shows(&sample, &rates(vec![]), "LAST MINUTE: 3 denials, counts up to 2 too high");
        sample.denied = Err("NOPERM no".to_owned());
        sample.memory = Err("NOPERM never".to_owned());
        shows(&sample, &rates(vec![]), "  RL.TOP: NOPERM no");
        shows(&sample, &rates(vec![]), "server memory unknown (NOPERM never)");
        let lost = Some((Duration::from_secs(5), "refused"));
        let lines = Picture { address: "server:1", sample: &sample, rates: &rates(vec![]), lost }.lines(80, 1);
        assert_eq!(lines, ["LOST server:1 5 s ago, trying again. Below is what was seen last. (refused)"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.04, 0.5, 9.94, 9.96, 1234.5].map(number), ["0", "0.0", "0.5", "9.9", "10", "1234"]);
        let sizes = [0, 1_023, 1_024, 1_048_575, 5 << 20, 3 << 31, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1024.0 KiB", "5.0 MiB", "6.0 GiB", "17179869184.0 GiB"]);
    }
}
