//! Draws the pictures of the README from decisions of the limiters, on a virtual clock: `make pictures`.
//!
//! [`traffic`] makes requests, [`outcome`] sends them to the limiters, and a module for each picture draws the
//! decisions with [`svg`] and [`timeline`]. The pictures are the same on every machine: time is passed in, random
//! numbers have a seed, and all arithmetic is exact or rounds alike everywhere.

mod accuracy;
mod bursty;
mod fixed_window;
mod leaky_bucket;
mod outcome;
mod sliding_counter;
mod svg;
mod timeline;
mod traffic;

use std::path::Path;
use std::{env, fs};

use accuracy::Findings;

/// The default folder.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pictures");

fn main() {
    let folder = env::args().nth(1).unwrap_or_else(|| FOLDER.to_owned());
    let findings = Findings::find();
    let pictures = [
        ("bursty.svg", bursty::draw()),
        ("fixed-window.svg", fixed_window::draw()),
        ("sliding-counter.svg", sliding_counter::draw(&findings)),
        ("leaky-bucket.svg", leaky_bucket::draw()),
    ];
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    for (name, picture) in pictures {
        let path = Path::new(&folder).join(name);
        fs::write(&path, picture).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    print!("{findings}");
}
