//! The options of commands. Each option is described once: commands parse it, and `COMMAND DOCS` shows it, from that.

use limiter::{parse_amount, Micros, Mode, Request, AMOUNT_FORM};

use crate::error::Error;
use crate::server::ArgumentSpec;

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOption {
    /// What the request costs.
    Cost,
    /// Takes the cost even if the request is denied.
    Force,
    /// Resets instead of returning.
    Reset,
}

/// The options of commands that decide on a request.
pub const REQUEST: &[CommandOption] = &[CommandOption::Cost, CommandOption::Force];

impl CommandOption {
    /// Its keyword.
    const fn keyword(self) -> &'static str {
        match self {
            Self::Cost => "COST",
            Self::Force => "FORCE",
            Self::Reset => "RESET",
        }
    }

    /// The name of its value in `COMMAND DOCS`, and the form of it in messages; `None` for an option without a value.
    const fn value(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Cost => Some(("cost", AMOUNT_FORM)),
            Self::Force | Self::Reset => None,
        }
    }
}

/// A command with options.
pub trait WithOptions {
    /// The options that it accepts: those that it parses, and that `COMMAND DOCS` shows.
    const OPTIONS: &'static [CommandOption];

    /// Reads the options of the command.
    ///
    /// # Errors
    /// As for [`Options::parse`].
    fn parse_options<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Options, Error> {
        Options::parse(Self::OPTIONS, words)
    }
}

/// The options of a command as `COMMAND DOCS` shows them.
pub fn docs<C: WithOptions>() -> Vec<ArgumentSpec> {
    let docs = |option: &CommandOption| ArgumentSpec::Option {
        token: option.keyword(),
        value: option.value().map(|(name, _)| name),
    };
    C::OPTIONS.iter().map(docs).collect()
}

/// The values of the options of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `COST`
    pub cost: u64,
    /// `FORCE`
    pub mode: Mode,
    /// `RESET`
    pub reset: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { cost: 1, mode: Mode::Enforce, reset: false }
    }
}

impl Options {
    /// Reads options in any order, each at most once.
    ///
    /// # Errors
    /// When a word is no accepted option, an option is duplicate, or its value is invalid.
    pub fn parse<'a>(
        accepted: &'static [CommandOption],
        mut words: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Self, Error> {
        let (mut options, mut seen) = (Self::default(), 0_u32);
        while let Some(word) = words.next() {
            let is_it = |option: &CommandOption| word.eq_ignore_ascii_case(option.keyword().as_bytes());
            let Some(index) = accepted.iter().position(is_it) else { return Err(unknown(word, accepted)) };
            let option = accepted[index];
            let value = match option.value() {
                None => &[],
                Some((_, expected)) => {
                    words.next().ok_or_else(|| Error::MissingValue { option: option.keyword(), expected })?
                }
            };
            options.set(option, value)?;
            if seen & (1 << index) != 0 {
                return Err(Error::DuplicateOption(option.keyword()));
            }
            seen |= 1 << index;
        }
        Ok(options)
    }

    #[inline(always)]
    fn set(&mut self, option: CommandOption, value: &[u8]) -> Result<(), Error> {
        match option {
            CommandOption::Cost => self.cost = parse_amount(option.keyword(), value)?,
            CommandOption::Force => self.mode = Mode::Force,
            CommandOption::Reset => self.reset = true,
        }
        Ok(())
    }

    /// The request at a time.
    pub const fn request(self, now: Micros) -> Request {
        Request { cost: self.cost, mode: self.mode, now }
    }
}

#[cold]
fn unknown(word: &[u8], accepted: &[CommandOption]) -> Error {
    let form = |option: &CommandOption| match option.value() {
        Some(_) => format!("{} n", option.keyword()),
        None => option.keyword().to_owned(),
    };
    let forms: Vec<String> = accepted.iter().map(form).collect();
    Error::UnknownOption { given: word.to_vec(), expected: forms.join(" or ") }
}
