//! What a writer keeps, and how much it may have in its queue.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, Operation, Retention, RunEnd, SystemClock, TaskEnd};
use shedlock_support::redact;
use shedlock_support::text::first_bytes;

/// What a [`JournalWriter`](crate::JournalWriter) keeps, and how much it may have in its queue.
#[derive(Clone, Debug)]
#[must_use]
pub struct JournalSettings {
    pub(crate) retention: Retention,
    pub(crate) errors: ErrorText,
    pub(crate) queue: usize,
    pub(crate) is_optional: bool,
    /// Why nothing is written if there is no journal, and what to do.
    pub(crate) absent: String,
    pub(crate) clock: Arc<dyn Clock>,
}

/// How much of a run's error is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorText {
    /// Its text, without the passwords of URLs.
    #[default]
    Full,
    /// Its first line up to the first colon, which names the failure in most errors.
    Kind,
    /// Nothing.
    None,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            errors: ErrorText::default(),
            queue: 1_024,
            is_optional: false,
            absent: format!("there is no journal; create it with {}", Operation::Migrate),
            clock: Arc::new(SystemClock),
        }
    }
}

impl JournalSettings {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most runs of one job. Default: 1,000.
    pub fn runs_per_job(mut self, runs: usize) -> Self {
        self.retention.runs_per_job = runs.max(1);
        self
    }

    /// Sets how long a run is kept. Default: 30 days.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.retention.max_age = age;
        self
    }

    /// Sets how much of an error is recorded. Default: all of it.
    pub fn errors(mut self, errors: ErrorText) -> Self {
        self.errors = errors;
        self
    }

    /// Sets how many entries may wait, besides two for each registered job. Default: 1,024.
    pub fn queue(mut self, entries: usize) -> Self {
        self.queue = entries.max(1);
        self
    }

    /// Records nothing if there is no journal in the store, instead of warning about it.
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Replaces the message for a journal that is required and does not exist.
    #[doc(hidden)]
    pub fn absent(mut self, message: impl Into<String>) -> Self {
        self.absent = message.into();
        self
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

impl ErrorText {
    /// Returns what is shown of the error with which a task ended.
    #[doc(hidden)]
    pub fn of(self, end: TaskEnd<'_>) -> Option<String> {
        match end {
            TaskEnd::Failed { error, .. } => self.shown(error),
            TaskEnd::Panicked { message, .. } => self.shown(message),
            TaskEnd::Lost { reason, .. } => self.shown(&reason.to_string()),
            _ => None,
        }
    }

    /// Returns what is shown of an error's text.
    #[doc(hidden)]
    pub fn shown(self, text: &str) -> Option<String> {
        let text = match self {
            Self::Full => text,
            Self::Kind => text.split([':', '\n']).next().unwrap_or_default(),
            Self::None => return None,
        };
        let redacted = redact(text);
        let cut = first_bytes(&redacted, RunEnd::LONGEST_ERROR).trim_end();
        Some(cut.to_owned()).filter(|text| !text.is_empty())
    }
}
