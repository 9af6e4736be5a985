//! The text of `docs/moving-from-lua.md` and of the README.

use std::fs;

/// An integer with thousands separators.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut written = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// A file of the project.
fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect(path)
}

/// The text with line breaks and indentation as single blanks.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The page.
pub fn text() -> String {
    read("docs/moving-from-lua.md")
}

/// Checks that the page contains this text, however it is wrapped.
pub fn says(what: &str) {
    assert!(flowing(&text()).contains(&flowing(what)), "the page does not say: {what}");
}

/// Checks that the README's section on Lua contains this text.
pub fn readme_says(what: &str) {
    let readme = read("README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with("Moving from Lua\n")).expect("a section");
    assert!(flowing(section).contains(&flowing(what)), "the README does not say: {what}");
}
