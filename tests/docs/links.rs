//! Links of the documents lead to existing files, folders and headings (by GitHub's anchors).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The documents in the root of the repository, in `docs`, in `examples` and in its folders.
fn documents() -> Vec<PathBuf> {
    let mut folders = ["", "docs", "examples"].map(|folder| root().join(folder)).to_vec();
    folders.extend(files_in(&root().join("examples")).filter(|path| path.is_dir()));
    let files = folders.iter().flat_map(|folder| files_in(folder));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The lines of a document outside of code blocks.
fn prose(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).unwrap_or_else(|error| panic!("{}: {error}", document.display()));
    let mut in_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    };
    text.lines().filter(is_prose).map(str::to_owned).collect()
}

/// The links of a document within the repository: a path, possibly empty, and an optional anchor.
fn links(document: &Path) -> Vec<(String, Option<String>)> {
    let link = Regex::new(r#"\]\(<?([^)\s>]+)>?\)|(?:src|srcset|href)="([^"\s]+)""#).expect("an expression");
    let text = prose(document).join("\n");
    let targets = link.captures_iter(&text).filter_map(|found| found.get(1).or(found.get(2)));
    let within = targets.map(|target| target.as_str()).filter(|target| !target.contains("://"));
    within
        .map(|target| match target.split_once('#') {
            Some((path, anchor)) => (path.to_owned(), Some(anchor.to_owned())),
            None => (target.to_owned(), None),
        })
        .collect()
}

/// The anchors of the headings: lower case, no punctuation, hyphens for blanks. Equal anchors get `-1`, `-2` and so on.
fn anchors(document: &Path) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(document) {
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let Some(heading) = heading.strip_prefix(' ') else { continue };
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

#[test]
fn the_docker_build_gets_every_crate_of_the_workspace() {
    let text = |file: &str| fs::read_to_string(root().join(file)).expect("text");
    let (manifest, ignored, dockerfile) = (text("Cargo.toml"), text(".dockerignore"), text("Dockerfile"));
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).expect("the members");
    for member in members.split('"').skip(1).step_by(2) {
        assert!(ignored.lines().any(|line| line == format!("!{member}")), "{member} is not in .dockerignore");
    }
    assert!(dockerfile.contains("limiter/src/lib.rs"), "a cached build of the limiters would be used");
}

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    for document in documents() {
        for (path, anchor) in links(&document) {
            count += 1;
            let target = if path.is_empty() { document.clone() } else { document.with_file_name(&path) };
            assert!(target.exists(), "{}: there is no {path}", document.display());
            if let Some(anchor) = anchor {
                let anchors = anchors(&target);
                assert!(
                    anchors.contains(&anchor),
                    "{}: no heading {path}#{anchor} in {anchors:#?}",
                    document.display()
                );
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
}

#[test]
fn the_map_of_the_source_is_complete_and_correct() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("the document");
    let map = text.split("```").nth(1).expect("the map");
    let mut folder = "";
    let mut named = BTreeSet::new();
    for line in map.lines().filter(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().expect("a name");
        let path = if line.starts_with(' ') { format!("{folder}{name}") } else { name.to_owned() };
        assert!(root().join(&path).exists(), "there is no {path}");
        assert_eq!(root().join(&path).is_dir(), name.ends_with('/'), "{path}");
        if !line.starts_with(' ') {
            folder = name;
        }
        named.insert(path.trim_end_matches('/').to_owned());
    }
    for path in ["src", "limiter/src"].iter().flat_map(|folder| files_in(&root().join(folder))) {
        let path = path.strip_prefix(root()).expect("a path within").to_string_lossy().into_owned();
        assert!(named.contains(&path), "{path} is not in the map");
    }
}

#[test]
fn anchors_are_those_of_github() {
    let anchors = anchors(&root().join("README.md"));
    for anchor in ["which-algorithm", "rlall-numlimits-algorithm-key-a-b-", "rlpolicy-set--get--del--list--load--save"]
    {
        assert!(anchors.contains(anchor), "{anchor} in {anchors:#?}");
    }
}
