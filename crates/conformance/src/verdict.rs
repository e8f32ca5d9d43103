//! How a case ends.

use std::error::Error as StdError;
use std::fmt;

/// What a case answers: `Ok` when the provider keeps the law.
pub type Verdict = Result<(), Stop>;

/// Why a case ended before its last line.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub enum Stop {
    /// The provider or its harness cannot be asked this, for this reason. Printed and counted,
    /// never silent.
    NotApplicable(String),
    /// The provider breaks the law, or the store failed under the case.
    Failed(String),
}

impl Stop {
    /// A broken law: what was expected and what happened.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// A case that cannot be put to this provider, and why.
    pub fn not_applicable(reason: impl Into<String>) -> Self {
        Self::NotApplicable(reason.into())
    }

    /// A case about a capability of this name, which the provider does not declare.
    pub fn undeclared(capability: &str) -> Self {
        Self::not_applicable(format!("the provider does not declare `{capability}`"))
    }

    /// A case that cannot be put to this harness: what it would have to do, and the method that lacks.
    pub fn lacking(what: &str, method: &str) -> Self {
        Self::not_applicable(format!("the harness cannot {what} ({method})"))
    }

    /// An error of the harness, with what was asked of it.
    pub fn harness(what: &str, error: &(dyn StdError + 'static)) -> Self {
        Self::Failed(format!("the harness could not {what}: {}", chain(error)))
    }
}

/// So that cases use `?` on what providers and sockets answer.
impl<E: StdError + 'static> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(format!("unexpected error: {}", chain(&error)))
    }
}

/// An error with all its causes; the messages of ours do not repeat them.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotApplicable(reason) => write!(f, "not applicable: {reason}"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Ends a case as failed, with this message, unless the condition holds.
///
/// ```
/// use shedlock_conformance::{Verdict, ensure};
/// fn is_even(number: u32) -> Verdict {
///     ensure!(number % 2 == 0, "{number} should be even");
///     Ok(())
/// }
/// assert!(is_even(3).is_err());
/// ```
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Stop::failed(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;
