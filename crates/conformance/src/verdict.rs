//! How a case ends.

use std::error::Error as StdError;
use std::fmt;

/// The result of a case: `Ok` if the provider keeps the law.
pub type Verdict = Result<(), Stop>;

/// Why a case ended early.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub enum Stop {
    /// The case does not apply to this provider or its harness, for this reason. Printed and
    /// counted, never silent.
    NotApplicable(String),
    /// The provider breaks the law, or the store failed during the case.
    Failed(String),
}

impl Stop {
    /// A broken law: what was expected and what happened.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// A case that does not apply to this provider, and why.
    pub fn not_applicable(reason: impl Into<String>) -> Self {
        Self::NotApplicable(reason.into())
    }

    /// A case about a capability that the provider does not declare.
    pub fn undeclared(capability: &str) -> Self {
        Self::not_applicable(format!("the provider does not declare `{capability}`"))
    }

    /// A case that needs more than this harness supports: what the harness cannot do, and the
    /// missing method.
    pub fn lacking(what: &str, method: &str) -> Self {
        Self::not_applicable(format!("the harness cannot {what} ({method})"))
    }

    /// An error of the harness, with what it was doing.
    pub fn harness(what: &str, error: &(dyn StdError + 'static)) -> Self {
        Self::Failed(format!("the harness could not {what}: {}", chain(error)))
    }
}

/// Lets cases use `?` on the results of providers and sockets.
impl<E: StdError + 'static> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(format!("unexpected error: {}", chain(&error)))
    }
}

/// An error with all its causes. Shedlock's own messages do not repeat their causes.
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
