//! The terminal: taken over, drawn on, and given back as it was.

use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{self, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};

/// Whether the terminal is taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether somebody wants the program to end, other than by a key.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The terminal, for as long as it is taken over.
pub struct Screen {
    output: Stdout,
}

/// What somebody at the terminal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    None,
    Resized,
    Quit,
}

impl Screen {
    /// Takes the terminal over. It is given back when this goes out of scope, and before a panic says anything.
    pub fn take_over() -> io::Result<Self> {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            tell(info);
        }));
        heed_signals();
        let mut screen = Self { output: io::stdout() };
        TAKEN.store(true, Ordering::Relaxed);
        terminal::enable_raw_mode()?;
        execute!(screen.output, EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(screen)
    }

    /// Replaces all that is shown by lines that are made for a width and a height.
    pub fn draw(&self, lines: impl FnOnce(usize, usize) -> Vec<String>) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let lines = lines(width.into(), height.into());
        // Every place is written, and in one go: nothing old stays, and nothing flickers.
        let mut picture = Vec::new();
        for row in 0..height {
            let line = lines.get(usize::from(row)).map_or("", String::as_str);
            queue!(picture, MoveTo(0, row), Print(format_args!("{line:<0$}", usize::from(width))))?;
        }
        let mut output = self.output.lock();
        output.write_all(&picture)?;
        output.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Waits so long for somebody to do something.
pub fn wait(patience: Duration) -> io::Result<Input> {
    let event = if event::poll(patience)? { Some(event::read()?) } else { None };
    Ok(match event {
        _ if ENDED.load(Ordering::Relaxed) => Input::Quit,
        Some(Event::Resize(..)) => Input::Resized,
        Some(Event::Key(key)) => match key.code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => Input::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Input::Quit,
            _ => Input::None,
        },
        _ => Input::None,
    })
}

/// Once: to leave the other screen a second time would move the cursor over what has been said since.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Makes polite signals end the program as a key does. Not the one that says that the terminal is gone: then there is
/// nothing to give back, and whoever reads on from it reads forever.
fn heed_signals() {
    extern "C" fn end(_: libc::c_int) {
        ENDED.store(true, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only sets a flag, which may be done at any time.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}
