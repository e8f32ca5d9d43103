//! The command's exit codes, and failures that carry one.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use shedlock::{Error, ErrorKind, Finding, Level};

/// The requested item does not exist: `show` found no lock of this name, `unlock` nothing to free, `extend` no lease of
/// the owner, `slot reset` nothing to set.
pub(crate) const ABSENT: u8 = 1;
/// `doctor` found an error in the store, or cannot reach it.
pub(crate) const FAULTY: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The store failed. The command was not started.
pub(crate) const STORE: u8 = 69;
/// A fault in this program, or a part of it was killed.
pub(crate) const INTERNAL: u8 = 70;
/// The lease was about to end before the command did, or the maximum run time has passed, and the command was stopped; or
/// the lease was lost.
pub(crate) const LOST: u8 = 75;
/// The slot was not run here: this host's clock is wrong, or an operator has to reset the last slot, because all attempts
/// at it were made, or because it is ahead of the store's clock.
pub(crate) const SLOT_NOT_RUN: u8 = 76;
/// The command exists but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended the command.
pub(crate) const SIGNALLED: u8 = 128;

/// An unsuccessful end: what to print, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    said: Said,
}

/// What a failure says.
#[derive(Debug)]
enum Said {
    Text(String),
    /// An error, after what it is about.
    Error {
        about: String,
        error: Error,
    },
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            said: Said::Text(message.into()),
        }
    }

    /// A wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// A command line that the parser refuses.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        Self::usage(Self::reason_of(error))
    }

    /// A value of the configuration file that the parser refuses. File and line come first, as in all messages about
    /// that file.
    pub(crate) fn of_setting(key: &str, place: &str, mut error: clap::Error) -> Self {
        let argument = ContextValue::String(key.to_owned());
        error.insert(ContextKind::InvalidArg, argument);
        let reason = Self::reason_of(&error);
        let reason = reason.replacen(&format!(" for '{key}'"), "", 1);
        // The possible values are on a line of their own.
        let reason = reason.replace("\n  [", " [");
        Self::usage(format!("{place}: {key}: {reason}"))
    }

    /// The parser's message without its help.
    fn reason_of(error: &clap::Error) -> String {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let reason = text.split("\n\nUsage:").next().unwrap_or_default();
        let reason = reason.split("\n\nFor more information").next();
        reason.unwrap_or_default().trim().to_owned()
    }

    /// The same before the command of this lock has started (`again`, for another attempt): a failure
    /// of the store, or of this host's clock, says so. It names the lock once.
    pub(crate) fn not_started(self, name: &str, again: bool) -> Self {
        let again = if again { " again" } else { "" };
        self.about(name, &format!("the command was not started{again}"))
    }

    /// The same for `hold`, which starts no command.
    pub(crate) fn not_taken(self, name: &str) -> Self {
        self.about(name, "not acquired")
    }

    fn about(self, name: &str, what: &str) -> Self {
        if ![STORE, SLOT_NOT_RUN].contains(&self.code) {
            return self;
        }
        let said = match self.said {
            Said::Error { about, error } => Said::Error {
                about,
                error: error.without_lock(name),
            },
            text => text,
        };
        Self { said, ..self }.after(&format!("{name}: {what}: "))
    }

    /// The same after this text.
    fn after(self, start: &str) -> Self {
        let start = start.to_owned();
        let said = match self.said {
            Said::Text(text) => Said::Text(start + &text),
            Said::Error { about, error } => Said::Error {
                about: start + &about,
                error,
            },
        };
        Self { said, ..self }
    }

    /// Adds a step of what to do, to an error of a library.
    pub(crate) fn advise(self, step: &'static str) -> Self {
        let said = match self.said {
            Said::Error { about, error } => Said::Error {
                about,
                error: error.advise(step),
            },
            text => text,
        };
        Self { said, ..self }
    }

    /// The same about the option that it came from.
    pub(crate) fn of_option(self, option: &str) -> Self {
        let code = USAGE;
        Self { code, ..self }.after(&format!("{option}: "))
    }

    /// Whether a retry may succeed later without any change by the user.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(&self.said, Said::Error { error, .. } if error.is_retryable())
    }

    /// The same for what takes an error of a store.
    pub(crate) fn into_error(self) -> Error {
        match self.said {
            Said::Error { error, .. } => error,
            Said::Text(text) => Error::new(ErrorKind::Unavailable, text),
        }
    }

    pub(crate) fn message(&self) -> String {
        match &self.said {
            Said::Text(text) => text.clone(),
            Said::Error { about, error } => format!("{about}{error:#}"),
        }
    }

    /// The message after one that names this lock, for a reader who has nothing to retry.
    pub(crate) fn cause(&self, name: &str) -> String {
        match &self.said {
            Said::Text(text) => text.clone(),
            Said::Error { about, error } => format!("{about}{:#}", error.cause(name)),
        }
    }

    /// What a check of the store has found.
    pub(crate) fn finding(&self, check: &'static str) -> Finding {
        match &self.said {
            Said::Error { error, .. } => Finding::from_error(check, error),
            Said::Text(text) => Finding::bare(check, Level::Error, text),
        }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// The exit code as a number.
    pub(crate) fn number(&self) -> u8 {
        self.code
    }

    /// Whose failure it is, as a word of the JSON format.
    pub(crate) fn kind(&self) -> &'static str {
        match self.code {
            ABSENT => "absent",
            USAGE => "usage",
            STORE => "store",
            _ => "internal",
        }
    }
}

/// Bad input is the caller's to fix, and a wrong clock this host's; everything else is the store's.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidInput => USAGE,
            ErrorKind::Internal | ErrorKind::WrongContext => INTERNAL,
            ErrorKind::SlotAhead => SLOT_NOT_RUN,
            _ => STORE,
        };
        let about = String::new();
        Self {
            code,
            said: Said::Error { about, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_before_the_start_names_the_lock_once() {
        let late = Error::new(ErrorKind::Unavailable, "too late")
            .advise("check the store")
            .with_lock("a\"b")
            .with_store("sqlite");
        assert_eq!(
            Failure::from(late).not_started("a\"b", false).message(),
            "a\"b: the command was not started: sqlite: too late; check the store"
        );
        let wrong = Error::new(ErrorKind::InvalidInput, "wrong").with_lock("a");
        let message = "lock \"a\": wrong";
        assert_eq!(
            Failure::from(wrong).not_started("a", true).message(),
            message
        );
    }
}
