//! How a task under a lock ended.

use std::any::Any;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::contract::LostReason;

/// How a task under a lock ended.
///
/// The texts come from the task. They can be long, and can contain anything that the task puts into
/// its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEnd<'a> {
    /// It returned, and not with an error.
    Succeeded,
    /// It returned an error, or marked its run as failed.
    #[non_exhaustive]
    Failed {
        /// The text of the error.
        error: &'a str,
    },
    /// Its lease ended, or may have ended, before it did.
    #[non_exhaustive]
    Lost {
        /// The reason.
        reason: LostReason,
    },
    /// It panicked.
    #[non_exhaustive]
    Panicked {
        /// The text of the panic.
        message: &'a str,
    },
    /// It was interrupted: its future was dropped, or it stopped half-way because its process shuts
    /// down.
    Cancelled,
}

impl TaskEnd<'_> {
    /// Returns one word for the end, for labels of metrics: `succeeded`, `failed`, `lost`,
    /// `maybe_overlapped`, `panicked` or `cancelled`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Lost {
                reason: LostReason::MaybeOverlapped,
            } => "maybe_overlapped",
            Self::Lost { .. } => "lost",
            Self::Panicked { .. } => "panicked",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<LostReason> for TaskEnd<'_> {
    fn from(reason: LostReason) -> Self {
        Self::Lost { reason }
    }
}

impl fmt::Display for TaskEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::Failed { error: text } | Self::Panicked { message: text } => {
                write!(f, ": {text}")
            }
            Self::Lost { reason } => write!(f, ": {reason}"),
            Self::Succeeded | Self::Cancelled => Ok(()),
        }
    }
}

/// Returns the text of a task's error, with its causes. If the error cannot be formatted, or panics, that is what it has
/// written until then: the task has returned, and what it returned must not get lost.
#[doc(hidden)]
pub fn error_text(error: &(impl fmt::Display + ?Sized)) -> String {
    let mut text = String::new();
    let written = catch_unwind(AssertUnwindSafe(|| write!(text, "{error:#}")));
    if text.is_empty() && !matches!(written, Ok(Ok(()))) {
        text.push_str("an error that cannot be formatted");
    }
    text
}

/// Returns the text of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the panic has no text")
}
