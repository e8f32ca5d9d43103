//! What operators did.

use std::fmt;
use std::time::SystemTime;

use super::RunId;

/// What an operator did to a lock, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct AuditRecord {
    /// Its identity. Ids sort by time.
    pub id: RunId,
    /// When, by the clock of the host that did it.
    pub at: SystemTime,
    /// Who.
    pub actor: Actor,
    /// What was done, as a word: `pause`, `resume`, `unlock`, `extend`, `slot-reset`,
    /// `run-now`, `prune` or `forget`.
    pub action: String,
    /// The lock.
    pub name: String,
    /// What it changed: the owner whose lease ended, the new last slot.
    pub detail: String,
    /// The reason that was given.
    pub reason: Option<String>,
    /// When the pause ends, for the action `pause`.
    pub until: Option<SystemTime>,
    /// The identity of the lock's store, if it has one ([`store_identity`](crate::store_identity)).
    pub lock_store: Option<String>,
}

/// Who did something, and who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Actor {
    /// The user of the operating system that ran the command, as that host claims.
    Claimed(String),
    /// A user that the dashboard has authenticated.
    Authenticated(String),
}

impl AuditRecord {
    /// The action of an operator who removes a job and its runs from the journal.
    pub const FORGET: &'static str = "forget";

    /// Creates a record. `random` distinguishes records of the same instant.
    pub fn new(
        at: SystemTime,
        random: u64,
        actor: Actor,
        action: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        let name = name.into();
        Self {
            id: RunId::new(at, &name, &format!("{random:016x}")),
            at,
            actor,
            action: action.into(),
            name,
            detail: String::new(),
            reason: None,
            until: None,
            lock_store: None,
        }
    }
}

impl Actor {
    /// Returns the user.
    pub fn user(&self) -> &str {
        match self {
            Self::Claimed(user) | Self::Authenticated(user) => user,
        }
    }

    /// Returns whether the user was authenticated.
    pub fn is_authenticated(&self) -> bool {
        matches!(self, Self::Authenticated(_))
    }

    /// Returns this user, as a journal stored it.
    pub fn from_stored(user: impl Into<String>, is_authenticated: bool) -> Self {
        match is_authenticated {
            true => Self::Authenticated(user.into()),
            false => Self::Claimed(user.into()),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.user())
    }
}
