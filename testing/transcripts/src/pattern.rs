//! A line of a page: text, placeholders, and the gaps between the cells of a table.

use unicode_width::UnicodeWidthStr as _;

use crate::duration;
use crate::placeholder::{self, Context, Example, Placeholder};

/// Two blanks or more, which separate cells. Their number depends on the widths of the cells.
pub(crate) const GAP: &str = "  ";

#[derive(Debug)]
enum Token {
    Text(String),
    Value(Placeholder),
    /// A cell begins in this column of the page.
    Cell(usize),
}

/// A line of a page.
#[derive(Debug)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
    text: String,
    is_open: bool,
}

impl Pattern {
    /// The line with its placeholders.
    pub(crate) fn read(line: &str) -> Self {
        Self::of(line, Placeholder::leading, |_| None)
    }

    /// The line whose values are examples.
    pub(crate) fn example(line: &str) -> Self {
        let example = |text: &str| {
            let (length, value) = Value::leading(text)?;
            let shown = &text[..length];
            let time = |time: Option<(i64, i64)>| time.map_or(0, |(time, _)| time);
            let kind = match value {
                Value::Time => Example::Time(time(placeholder::instant(shown))),
                Value::Token => Example::Token(shown.parse().unwrap_or_default()),
                Value::Owner => Example::Owner,
                Value::Duration => Example::Duration,
                Value::Version => Example::Version,
                Value::Id => return None,
                Value::Cut => Example::Cut,
            };
            Some((length, Placeholder::example(kind, shown)))
        };
        let mut pattern = Self::of(line, |_| None, example);
        pattern.is_open = true;
        pattern
    }

    fn of(
        line: &str,
        anywhere: impl Fn(&str) -> Option<(usize, Placeholder)>,
        at_word: impl Fn(&str) -> Option<(usize, Placeholder)>,
    ) -> Self {
        let mut tokens = Vec::new();
        let mut is_open = false;
        let mut text = String::new();
        let indent = line.len() - line.trim_start_matches(' ').len();
        text.push_str(&line[..indent]);
        let mut at = indent;
        while let Some(char) = line[at..].chars().next() {
            let rest = &line[at..];
            let is_word = is_boundary(&line[..at]);
            let value = anywhere(rest).or_else(|| at_word(rest).filter(|_| is_word));
            if let Some((length, value)) = value {
                tokens.push(Token::Text(std::mem::take(&mut text)));
                tokens.push(Token::Value(value));
                is_open = true;
                at += length;
            } else if rest.starts_with(GAP) {
                at += rest.len() - rest.trim_start_matches(' ').len();
                tokens.push(Token::Text(std::mem::take(&mut text)));
                tokens.push(Token::Cell(line[..at].width()));
            } else {
                text.push(char);
                at += char.len_utf8();
            }
        }
        tokens.push(Token::Text(text));
        Self {
            tokens,
            text: line.to_owned(),
            is_open,
        }
    }

    /// Whether it has a placeholder, so that the widths of cells can differ.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether this is the line. Returns the columns in which cells begin, of the page and of the line.
    pub(crate) fn matches(
        &self,
        line: &str,
        is_exact: bool,
        context: &mut Context<'_>,
    ) -> Result<Vec<(usize, usize)>, String> {
        if is_exact {
            return match self.text == line {
                true => Ok(Vec::new()),
                false => Err("the line differs".to_owned()),
            };
        }
        let mut cells = Vec::new();
        let mut at = 0;
        for (index, token) in self.tokens.iter().enumerate() {
            let rest = &line[at..];
            at += match token {
                Token::Text(text) if rest.starts_with(text) => text.len(),
                Token::Text(text) => return Err(format!("expected {text:?}, found {rest:?}")),
                Token::Value(value) => {
                    let next = self.tokens.get(index + 1);
                    let is_cut = matches!(next, Some(Token::Text(text)) if text.starts_with('…'));
                    value.accept(rest, is_cut, context)?
                }
                Token::Cell(column) => {
                    let gap = rest.len() - rest.trim_start_matches(' ').len();
                    if gap < GAP.len() {
                        return Err(format!("expected a gap, found {rest:?}"));
                    }
                    cells.push((*column, line[..at + gap].width()));
                    gap
                }
            };
        }
        match &line[at..] {
            "" => Ok(cells),
            rest => Err(format!("expected the end of the line, found {rest:?}")),
        }
    }
}

/// A value that can be told by its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Owner,
    Time,
    Token,
    Id,
    Version,
    Duration,
    Cut,
}

impl Value {
    /// The value at the start of this text, and its length.
    pub(crate) fn leading(text: &str) -> Option<(usize, Self)> {
        let duration = |text: &str| duration::leading(text).map(|(length, _)| length);
        let cut_owner = |text: &str| {
            placeholder::cut_owner(text).filter(|length| text[..*length].matches('/').count() == 2)
        };
        let is = |value: Self, length: Option<usize>| length.map(|length| (length, value));
        is(Self::Owner, placeholder::owner(text))
            .or_else(|| is(Self::Owner, cut_owner(text)))
            .or_else(|| is(Self::Time, placeholder::time(text)))
            .or_else(|| is(Self::Token, placeholder::token(text)))
            .or_else(|| is(Self::Id, placeholder::id(text)))
            .or_else(|| is(Self::Version, placeholder::version(text)))
            .or_else(|| is(Self::Duration, duration(text)))
            .or_else(|| is(Self::Cut, placeholder::cut(text)))
    }
}

/// Whether a word can begin after this text.
pub(crate) fn is_boundary(before: &str) -> bool {
    !before.ends_with(|char: char| char.is_alphanumeric() || "-_./".contains(char))
}
