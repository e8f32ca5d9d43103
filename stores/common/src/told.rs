//! What a store's failures mean, and what to do about them, as constants.

use std::borrow::Cow;
use std::fmt;

use shedlock_core::{Advice, Error, ErrorKind, Finding, Level, Operation};

/// All parts of an error that are known beforehand: what failed, its effect, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    what: &'static str,
    nothing_written: bool,
    may_have_taken_effect: bool,
    step: Option<&'static str>,
    operation: Option<Operation>,
    retry: Option<Retry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    Now,
    Later,
}

/// Says what failed, as [`Error::new`] takes it.
pub const fn told(what: &'static str) -> Told {
    Told {
        what,
        nothing_written: false,
        may_have_taken_effect: false,
        step: None,
        operation: None,
        retry: None,
    }
}

impl Told {
    /// Adds that the call has changed nothing.
    #[must_use]
    pub const fn nothing_written(mut self) -> Self {
        self.nothing_written = true;
        self
    }

    /// Adds that the call may have taken effect.
    #[must_use]
    pub const fn may_have_taken_effect(mut self) -> Self {
        self.may_have_taken_effect = true;
        self
    }

    /// Sets what to do first.
    #[must_use]
    pub const fn advise(mut self, step: &'static str) -> Self {
        self.step = Some(step);
        self
    }

    /// Sets what to do first: a step that ends with this operation.
    #[must_use]
    pub const fn advise_with(mut self, step: &'static str, operation: Operation) -> Self {
        self.step = Some(step);
        self.operation = Some(operation);
        self
    }

    /// Adds that the same call may succeed then.
    #[must_use]
    pub const fn retry(mut self) -> Self {
        self.retry = Some(Retry::Now);
        self
    }

    /// Adds that the same call may succeed later.
    #[must_use]
    pub const fn retry_later(mut self) -> Self {
        self.retry = Some(Retry::Later);
        self
    }

    /// Returns the warning of this check, with these values in place of their `{names}`.
    pub fn warning(self, check: &'static str, values: &[(&str, &str)]) -> Finding {
        let what = filled(self.what, values);
        match self.advice(values) {
            Some(advice) => Finding::warning(check, what, advice.to_string()),
            None => Finding::bare(check, Level::Warning, what),
        }
    }

    fn advice(self, values: &[(&str, &str)]) -> Option<Advice> {
        let step = filled(self.step?, values);
        Some(match self.operation {
            Some(operation) => Advice::With(step, operation),
            None => Advice::Step(step),
        })
    }

    /// Returns the error of this kind.
    pub fn error(self, kind: ErrorKind) -> Error {
        self.with(kind, &[])
    }

    /// Returns the error of this kind, with these values in place of their `{names}`.
    pub fn with(self, kind: ErrorKind, values: &[(&str, &str)]) -> Error {
        let mut error = Error::new(kind, filled(self.what, values));
        if self.nothing_written {
            error = error.nothing_written();
        }
        if self.may_have_taken_effect {
            error = error.may_have_taken_effect();
        }
        if let Some(advice) = self.advice(values) {
            error = error.advise(advice);
        }
        match self.retry {
            Some(Retry::Now) => error.advise(Advice::Retry),
            Some(Retry::Later) => error.advise(Advice::RetryLater),
            None => error,
        }
    }
}

impl fmt::Display for Told {
    /// What is wrong, and what to do, for a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.advice(&[]) {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// A value is not searched for names: it may be anything.
fn filled(text: &'static str, values: &[(&str, &str)]) -> Cow<'static, str> {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default();
    let mut filled = first.to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.map_or(name, |(_, value)| *value));
        filled.push_str(rest);
    }
    if filled == text {
        text.into()
    } else {
        filled.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_printed_and_values_are_not_searched() {
        let told = told("table {table} is {what}")
            .nothing_written()
            .advise("look at {table}")
            .retry();
        let values = [("table", "{what}"), ("what", "gone")];
        assert_eq!(
            told.with(ErrorKind::Unavailable, &values).to_string(),
            "table {what} is gone; nothing was written; look at {what}, then retry"
        );
    }
}
