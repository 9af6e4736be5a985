//! A live view of the module's statistics on a running server: `make top`, or `cargo run --example top -- host:port`.

mod rates;
mod sample;
mod screen;
mod server;
mod view;
mod watch;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use sample::Sample;
use screen::{Input, Screen};
use server::Server;
use watch::Watch;

const DEFAULT: &str = "127.0.0.1:6379";
const HELP: &str = "\
Shows what redis-ratelimit does on a running server, updated every second; q, Esc and Ctrl-C quit.

usage: top [address]

The address is host:port, or a URL such as redis://user:password@host:port; 127.0.0.1:6379 if there is none.";

/// How often the screen is updated, and a request to quit is noticed.
const TICK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => DEFAULT,
        ["-h" | "--help"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [address] if !address.starts_with('-') => address,
        _ => {
            eprintln!("{HELP}");
            return ExitCode::FAILURE;
        }
    };
    match run(address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("top: {}", view::plain(problem.as_bytes()));
            ExitCode::FAILURE
        }
    }
}

/// Errors at the start end the program before it takes over the terminal. Later the server may come back.
fn run(address: &str) -> Result<(), String> {
    let mut server = Server::at(address)?;
    let address = server.address();
    let sample = server.ask().map_err(|problem| format!("{address}: {problem}"))?;
    if !io::stdout().is_terminal() {
        return Err("the output is not a terminal".to_owned());
    }
    show(Watch::new(address, sample), &server.watch()).map_err(|error| format!("the terminal: {error}"))
}

/// Shows the samples until the user quits.
fn show(mut watch: Watch, samples: &Receiver<Result<Sample, String>>) -> io::Result<()> {
    let screen = Screen::take_over()?;
    let mut changed = true;
    loop {
        if changed {
            screen.draw(|width, height| watch.picture().lines(width, height))?;
        }
        changed = match screen::wait(TICK)? {
            Input::Quit => return Ok(()),
            Input::Resized => true,
            Input::None => false,
        };
        match samples.try_recv() {
            Ok(sample) => watch.record(sample),
            Err(TryRecvError::Empty) => continue,
            Err(TryRecvError::Disconnected) => return Err(io::Error::other("the thread that takes samples has ended")),
        }
        changed = true;
    }
}
