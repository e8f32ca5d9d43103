//! What a provider finds out about the health of its store.

use std::fmt;

use crate::contract::{Error, ErrorKind};

/// The result of one check of [`diagnose`](crate::LockProvider::diagnose): what it found, and what
/// to do about it.
///
/// ```
/// use shedlock::{Finding, Level};
/// let finding = Finding::warning("durability", "fsync is off: a crash can lose locks", "set fsync=on");
/// assert_eq!(finding.level, Level::Warning);
/// assert_eq!(finding.remedy.as_deref(), Some("set fsync=on"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The check, as a word: "clock", "privileges". Several findings may be of one check.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found, and what it means.
    pub message: String,
    /// What to do.
    pub remedy: Option<String>,
}

/// How bad a [`Finding`] is. The worst is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// As it should be.
    Ok,
    /// Locks work, but not as you may expect, or not after a crash or a failover.
    Warning,
    /// Locks do not work, or a job cannot run.
    Error,
}

impl Finding {
    /// Creates the finding for a check that found nothing wrong.
    pub fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, message, None)
    }

    /// Creates a warning.
    pub fn warning(
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Warning, message, Some(remedy.into()))
    }

    /// Creates an error.
    pub fn error(
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Error, message, Some(remedy.into()))
    }

    /// Creates a finding that says itself what to do, or for which nothing can be done.
    pub fn bare(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self::new(check, level, message, None)
    }

    /// Creates the finding for a check that failed: the check is `reachable` if a retry may
    /// succeed.
    pub fn from_error(check: &'static str, error: &Error) -> Self {
        let check = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => "reachable",
            _ => check,
        };
        Self::failed(check, error)
    }

    /// Like [`from_error`](Self::from_error), under the name of this check whatever the error is.
    pub fn failed(check: &'static str, error: &Error) -> Self {
        let remedy = (!error.advice().is_empty()).then(|| error.steps().to_string());
        Self::new(
            check,
            Level::Error,
            format!("{:#}", error.failure()),
            remedy,
        )
    }

    /// Puts what the finding is about, such as one of several servers, before its message.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    fn new(
        check: &'static str,
        level: Level,
        message: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self {
            check,
            level,
            message: message.into(),
            remedy,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}
