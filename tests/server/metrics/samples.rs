//! Prometheus's text format.

use std::collections::BTreeMap;

/// The labels of a series, with its name.
pub type Labels = BTreeMap<String, String>;

/// The label that holds the name.
pub const NAME: &str = "__name__";

/// A series and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Labels,
    pub value: f64,
}

/// All samples of a page.
pub fn parse(page: &str) -> Vec<Sample> {
    let lines = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| sample(line).unwrap_or_else(|| panic!("not a sample: {line}"))).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let mut labels = Labels::from([(NAME.to_owned(), line[..end].to_owned())]);
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, text) = rest.split_once("=\"")?;
            let (value, after) = quoted(text)?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    Some(Sample { labels, value: rest.strip_prefix(' ')?.parse().ok()? })
}

/// A text up to its closing quote, and the rest.
pub fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                itself @ ('"' | '\\') => value.push(itself),
                _ => return None,
            },
            _ => value.push(character),
        }
    }
    None
}
