//! The terminal: taken over, drawn on, and restored.

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

/// Whether a signal has asked the program to end.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The terminal while it is taken over.
pub struct Screen {
    output: Stdout,
}

/// An input of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    None,
    Resized,
    Quit,
}

impl Screen {
    /// Takes over the terminal. It is restored on drop, and before a panic prints its message.
    pub fn take_over() -> io::Result<Self> {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            tell(info);
        }));
        handle_signals();
        let mut screen = Self { output: io::stdout() };
        TAKEN.store(true, Ordering::Relaxed);
        terminal::enable_raw_mode()?;
        execute!(screen.output, EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(screen)
    }

    /// Replaces the screen by the lines that are made for its width and height.
    pub fn draw(&self, lines: impl FnOnce(usize, usize) -> Vec<String>) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let lines = lines(width.into(), height.into());
        // Every cell is written, in one write, so that nothing flickers.
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
        restore();
    }
}

/// Waits for an input for at most this time.
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

/// Only once: leaving the alternate screen again would move the cursor over later output.
fn restore() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Makes termination signals quit the program like a key. Not SIGHUP: the terminal is gone then, and cannot be restored
/// or read.
fn handle_signals() {
    extern "C" fn end(_: libc::c_int) {
        ENDED.store(true, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only sets a flag, which may be done at any time.
        unsafe { libc::signal(signal, end as *const () as libc::sighandler_t) };
    }
}
