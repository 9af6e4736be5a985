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

/// How an option is written.
struct Description {
    keyword: &'static str,
    /// The name of its value in `COMMAND DOCS`, and the form of it in messages.
    value: Option<(&'static str, &'static str)>,
}

impl CommandOption {
    const fn describe(self) -> Description {
        match self {
            Self::Cost => Description { keyword: "COST", value: Some(("cost", AMOUNT_FORM)) },
            Self::Force => Description { keyword: "FORCE", value: None },
            Self::Reset => Description { keyword: "RESET", value: None },
        }
    }
}

/// The options as `COMMAND DOCS` shows them.
pub fn docs(accepted: &[CommandOption]) -> Vec<ArgumentSpec> {
    let docs = accepted.iter().map(|option| option.describe());
    docs.map(|it| ArgumentSpec::Option { token: it.keyword, value: it.value.map(|(name, _)| name) }).collect()
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
            let is_it = |option: &CommandOption| word.eq_ignore_ascii_case(option.describe().keyword.as_bytes());
            let Some(index) = accepted.iter().position(is_it) else { return Err(unknown(word, accepted)) };
            let option = accepted[index];
            let Description { keyword, value } = option.describe();
            let value = match value {
                None => &[][..],
                Some((_, expected)) => words.next().ok_or(Error::MissingValue { option: keyword, expected })?,
            };
            options.set(option, keyword, value)?;
            if seen & (1 << index) != 0 {
                return Err(Error::DuplicateOption(keyword));
            }
            seen |= 1 << index;
        }
        Ok(options)
    }

    fn set(&mut self, option: CommandOption, keyword: &'static str, value: &[u8]) -> Result<(), Error> {
        match option {
            CommandOption::Cost => self.cost = parse_amount(keyword, value)?,
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
    let forms: Vec<String> = accepted
        .iter()
        .map(|option| option.describe())
        .map(|it| if it.value.is_some() { format!("{} n", it.keyword) } else { it.keyword.to_owned() })
        .collect();
    Error::UnknownOption { given: word.to_vec(), expected: forms.join(" or ") }
}
