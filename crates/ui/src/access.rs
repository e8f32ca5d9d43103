//! What a user may do.

use shedlock_core::Actor;

/// What the sender of a request may do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Nothing: the request is refused.
    None,
    /// See everything, and change nothing.
    Read,
    /// Also pause, resume, extend and free locks, and reset slots. The journal's audit names this user.
    Operate(Actor),
}

impl Access {
    /// Lets a user that was authenticated operate.
    pub fn operate(user: impl Into<String>) -> Self {
        Self::Operate(Actor::Authenticated(user.into()))
    }

    pub(crate) fn actor(&self) -> Option<&Actor> {
        match self {
            Self::Operate(actor) => Some(actor),
            _ => None,
        }
    }
}
