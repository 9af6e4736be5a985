//! Evaluates expressions of `PromQL` to the labels of their series. Supports the part of the language that the
//! dashboard uses; anything else, and a selector that finds nothing, is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::vec::IntoIter;

use regex::Regex;

use super::samples::{quoted, Labels, NAME};

/// The series of an expression, of `all` series.
///
/// # Errors
/// What is wrong with it.
pub fn evaluate(expression: &str, all: &[Labels]) -> Result<Vec<Labels>, String> {
    let mut parser = Parser { tokens: tokens(expression)?.into_iter().peekable(), all };
    let series = parser.expression()?.series()?;
    match parser.tokens.next() {
        None => Ok(series),
        Some(token) => Err(format!("{token:?} is not expected")),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Number,
    /// A variable of Grafana.
    Variable(String),
    Symbol(&'static str),
}

/// Longer ones first.
const SYMBOLS: [&str; 20] =
    ["=~", "!~", "!=", "==", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "(", ")", "{", "}", "[", "]", ","];

fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), expression.trim());
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            'a'..='z' | 'A'..='Z' | '_' | ':' => {
                let (word, after) = split(rest, "_:");
                (Token::Word(word.to_owned()), after)
            }
            '0'..='9' => (Token::Number, split(rest, ".").1),
            '$' => {
                let (name, after) = split(&rest[1..], "_");
                (Token::Variable(name.to_owned()), after)
            }
            '"' => {
                let (text, after) = quoted(&rest[1..]).ok_or_else(|| format!("no end of the text: {rest}"))?;
                (Token::Text(text), after)
            }
            _ => {
                let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
                let symbol = symbol.ok_or_else(|| format!("not known: {rest}"))?;
                (Token::Symbol(symbol), &rest[symbol.len()..])
            }
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// Splits after letters, digits and some other characters.
fn split<'a>(text: &'a str, others: &str) -> (&'a str, &'a str) {
    let belongs = |it: char| it.is_ascii_alphanumeric() || others.contains(it);
    text.split_at(text.find(|it| !belongs(it)).unwrap_or(text.len()))
}

enum Value {
    Number,
    Text(String),
    Series(Vec<Labels>),
    /// A range vector.
    Range(Vec<Labels>),
}

impl Value {
    fn series(self) -> Result<Vec<Labels>, String> {
        match self {
            Self::Series(series) => Ok(series),
            _ => Err("series were expected".to_owned()),
        }
    }

    fn range(self) -> Result<Vec<Labels>, String> {
        match self {
            Self::Range(series) => Ok(series),
            _ => Err("series with a range were expected".to_owned()),
        }
    }

    fn text(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err("a text was expected".to_owned()),
        }
    }
}

struct Parser<'a> {
    tokens: Peekable<IntoIter<Token>>,
    all: &'a [Labels],
}

impl Parser<'_> {
    /// Operands and operators. Precedence makes no difference to labels.
    fn expression(&mut self) -> Result<Value, String> {
        let mut left = self.operand()?;
        loop {
            let one_to_one = match self.tokens.peek() {
                Some(Token::Symbol("+" | "-" | "*" | "/" | ">" | "<" | ">=" | "<=" | "==" | "!=")) => true,
                Some(Token::Word(word)) if word == "and" => false,
                _ => return Ok(left),
            };
            self.tokens.next();
            let on = if self.accept_word("on") { Some(self.labels()?) } else { None };
            left = match (left, self.operand()?) {
                (Value::Series(left), Value::Series(right)) => {
                    Value::Series(matched(left, &right, on.as_deref(), one_to_one)?)
                }
                (series @ Value::Series(_), Value::Number) | (Value::Number, series @ Value::Series(_)) => series,
                _ => return Err("an operator is only for series and numbers".to_owned()),
            };
        }
    }

    fn operand(&mut self) -> Result<Value, String> {
        match self.tokens.next() {
            Some(Token::Number) => Ok(Value::Number),
            Some(Token::Text(text)) => Ok(Value::Text(text)),
            Some(Token::Symbol("(")) => {
                let value = self.expression()?;
                self.expect(")")?;
                Ok(value)
            }
            Some(Token::Word(word)) => match word.as_str() {
                "sum" | "max" => self.aggregated(),
                "topk" | "rate" | "increase" | "clamp_min" | "label_replace" => self.called(&word),
                _ => self.selected(&word),
            },
            other => Err(format!("{other:?} is not expected")),
        }
    }

    /// `by (labels) (series)`, or the series alone.
    fn aggregated(&mut self) -> Result<Value, String> {
        let labels = if self.accept_word("by") { self.labels()? } else { Vec::new() };
        self.expect("(")?;
        let series = self.expression()?.series()?;
        self.expect(")")?;
        let of = |series: &Labels| -> Result<Labels, String> {
            let label = |label: &String| {
                let value = series.get(label).ok_or_else(|| format!("there is no label {label} in {series:?}"))?;
                Ok((label.clone(), value.clone()))
            };
            labels.iter().map(label).collect()
        };
        Ok(Value::Series(series.iter().map(of).collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect()))
    }

    fn called(&mut self, function: &str) -> Result<Value, String> {
        self.expect("(")?;
        let mut arguments = vec![self.expression()?];
        while self.accept(",") {
            arguments.push(self.expression()?);
        }
        self.expect(")")?;
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().ok_or_else(|| format!("{function} needs more"));
        let series = match function {
            "rate" | "increase" => next()?.range()?.into_iter().map(without_name).collect(),
            "topk" => match next()? {
                Value::Number => next()?.series()?,
                _ => return Err("topk needs a number".to_owned()),
            },
            "clamp_min" => match (next()?, next()?) {
                (Value::Series(series), Value::Number) => series.into_iter().map(without_name).collect(),
                _ => return Err("clamp_min needs series and a number".to_owned()),
            },
            _ => {
                let (series, made, replacement) = (next()?.series()?, next()?.text()?, next()?.text()?);
                relabelled(series, &made, &replacement, &next()?.text()?, &next()?.text()?)?
            }
        };
        match arguments.next() {
            None => Ok(Value::Series(series)),
            Some(_) => Err(format!("{function} needs less")),
        }
    }

    /// The series of this name that match the selector in braces.
    fn selected(&mut self, name: &str) -> Result<Value, String> {
        let mut found: Vec<&Labels> = self.all.iter().filter(|series| series[NAME] == name).collect();
        if found.is_empty() {
            return Err(format!("there is no {name}"));
        }
        if self.accept("{") {
            while !self.accept("}") {
                let label = self.word()?;
                let operator = self.tokens.next();
                let Some(Token::Text(text)) = self.tokens.next() else { return Err(format!("{label} needs a text")) };
                let patterns = match operator {
                    Some(Token::Symbol("=")) => vec![whole(&regex::escape(&text))?],
                    Some(Token::Symbol("=~")) => ways(&text).iter().map(|way| whole(way)).collect::<Result<_, _>>()?,
                    other => return Err(format!("{other:?} is not known for labels")),
                };
                let fits = |pattern: &Regex, series: &Labels| series.get(&label).is_some_and(|it| pattern.is_match(it));
                if let Some(vain) = patterns.iter().find(|pattern| !found.iter().any(|series| fits(pattern, series))) {
                    return Err(format!("there is no {name} whose {label} is {vain}"));
                }
                found.retain(|series| patterns.iter().any(|pattern| fits(pattern, series)));
                if self.tokens.peek() != Some(&Token::Symbol("}")) {
                    self.expect(",")?;
                }
            }
        }
        let found = found.into_iter().cloned().collect();
        if !self.accept("[") {
            return Ok(Value::Series(found));
        }
        match self.tokens.next() {
            Some(Token::Variable(name)) if name == "__rate_interval" || name == "__range" => self.expect("]")?,
            other => return Err(format!("{other:?} is no time that follows the dashboard's")),
        }
        Ok(Value::Range(found))
    }

    fn labels(&mut self) -> Result<Vec<String>, String> {
        self.expect("(")?;
        let mut labels = vec![self.word()?];
        while self.accept(",") {
            labels.push(self.word()?);
        }
        self.expect(")")?;
        Ok(labels)
    }

    fn word(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word),
            other => Err(format!("a word was expected, not {other:?}")),
        }
    }

    fn accept_word(&mut self, word: &str) -> bool {
        self.tokens.next_if(|token| matches!(token, Token::Word(it) if it == word)).is_some()
    }

    fn accept(&mut self, symbol: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Symbol(symbol)).is_some()
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), String> {
        match self.tokens.next() {
            Some(Token::Symbol(found)) if found == symbol => Ok(()),
            other => Err(format!("{symbol} was expected, not {other:?}")),
        }
    }
}

/// A regular expression for each combination of the alternatives in its groups, as each must match something.
fn ways(pattern: &str) -> Vec<String> {
    let groups = pattern.match_indices('(').filter_map(|(start, _)| Some((start, start + pattern[start..].find(')')?)));
    let Some((start, end)) = groups.into_iter().find(|&(start, end)| pattern[start..end].contains('|')) else {
        return vec![pattern.to_owned()];
    };
    let (before, after) = (&pattern[..start], &pattern[end + 1..]);
    pattern[start + 1..end].split('|').flat_map(|way| ways(&format!("{before}(?:{way}){after}"))).collect()
}

/// A regular expression that must match the entire value, as in Prometheus.
fn whole(pattern: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{pattern})$")).map_err(|error| error.to_string())
}

fn without_name(mut series: Labels) -> Labels {
    series.remove(NAME);
    series
}

/// The series on the left that match one on the right.
fn matched(
    left: Vec<Labels>,
    right: &[Labels],
    on: Option<&[String]>,
    one_to_one: bool,
) -> Result<Vec<Labels>, String> {
    let of = |series: &Labels| -> Labels {
        let counts = |label: &str| on.map_or(label != NAME, |on| on.iter().any(|it| it == label));
        series.iter().filter(|(label, _)| counts(label)).map(|(label, value)| (label.clone(), value.clone())).collect()
    };
    let mut partners = BTreeMap::<_, u32>::new();
    for series in right {
        *partners.entry(of(series)).or_default() += 1;
    }
    let matched: Vec<_> = left.into_iter().filter(|series| partners.contains_key(&of(series))).collect();
    let once = matched.iter().map(of).collect::<BTreeSet<_>>().len() == matched.len();
    if one_to_one && !(once && partners.values().all(|&count| count == 1)) {
        return Err("several series would be matched with one".to_owned());
    }
    if matched.is_empty() {
        return Err("the two sides have no labels in common".to_owned());
    }
    Ok(matched)
}

/// Adds a label, made from another one. All series must match, as the others would be shown without a name.
fn relabelled(
    series: Vec<Labels>,
    made: &str,
    replacement: &str,
    label: &str,
    pattern: &str,
) -> Result<Vec<Labels>, String> {
    let pattern = whole(pattern)?;
    let relabel = |mut series: Labels| {
        let value = series.get(label).ok_or_else(|| format!("there is no label {label} in {series:?}"))?;
        let captures = pattern.captures(value).ok_or_else(|| format!("{pattern} does not match {value}"))?;
        let mut text = String::new();
        captures.expand(replacement, &mut text);
        series.insert(made.to_owned(), text);
        Ok(series)
    };
    series.into_iter().map(relabel).collect()
}
