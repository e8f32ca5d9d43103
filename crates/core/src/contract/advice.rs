//! What a person can do about a failure, and who that person is.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

/// What a person can do about a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// Make the same call again.
    Retry,
    /// Make the same call again when some time has passed.
    RetryLater,
    /// A step in words, without a full stop: "check that the server is up".
    Step(Cow<'static, str>),
    /// A step that ends with statements of the store: "have a user who may run them".
    Statements(Cow<'static, str>, Vec<String>),
    /// A step that ends with what this project can do: "create it with".
    With(Cow<'static, str>, Operation),
}

/// What this project can do for its user, in a step of what to do. It is printed as the method that
/// does it, and by the command as the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Create what the store needs.
    Migrate,
    /// Print what would create it.
    PlanMigration,
    /// Print what grants a role the privileges that locks need.
    Grants,
    /// Create a table beside others.
    NewTable,
    /// Create the file of a SQLite database.
    CreateFile,
    /// Set the last slot of a lock back.
    ResetSlot,
    /// Free a lock although its holder may still run.
    ForceUnlock,
    /// Pause a lock that has no record yet.
    PauseNew,
    /// End the pause of a lock.
    Resume,
    /// Remove a record that is no longer used.
    Prune,
    /// Write what the journal knows of lost locks back to the store.
    Restore,
    /// Show the runs of a job, and what operators did to it.
    History,
    /// Have the journal watch a job of ShedLock for Java.
    WatchJava,
    /// Raise the longest time that a lock is held.
    RaiseAtMost,
}

impl From<&'static str> for Advice {
    fn from(step: &'static str) -> Self {
        Self::Step(Cow::Borrowed(step))
    }
}

impl From<String> for Advice {
    fn from(step: String) -> Self {
        Self::Step(Cow::Owned(step))
    }
}

impl From<(&'static str, Operation)> for Advice {
    fn from((step, operation): (&'static str, Operation)) -> Self {
        Self::With(Cow::Borrowed(step), operation)
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_steps(f, "", [self])
    }
}

/// Writes these steps as one sentence, each after what joins it with the one before.
pub(crate) fn write_steps<'a>(
    f: &mut fmt::Formatter<'_>,
    mut before: &'static str,
    steps: impl IntoIterator<Item = &'a Advice>,
) -> fmt::Result {
    for (nth, step) in steps.into_iter().enumerate() {
        if nth > 0 {
            before = match step {
                Advice::Retry | Advice::RetryLater => ", then ",
                _ => "; ",
            };
        }
        f.write_str(before)?;
        match step {
            Advice::Retry => f.write_str("retry")?,
            Advice::RetryLater => f.write_str("retry later")?,
            Advice::Step(step) => f.write_str(step)?,
            Advice::Statements(step, all) => write!(f, "{step}: {}", all.join("; "))?,
            Advice::With(step, operation) if step.is_empty() => write!(f, "{operation}")?,
            Advice::With(step, operation) => write!(f, "{step} {operation}")?,
        }
    }
    Ok(())
}

/// How a program names what its user can do and set. The names in code are printed unless it says otherwise.
#[doc(hidden)]
pub trait Words: fmt::Debug + Send + Sync {
    fn operation(&self, operation: Operation) -> String;
    fn setting(&self, setting: Setting) -> &'static str;
}

static WORDS: OnceLock<Box<dyn Words>> = OnceLock::new();

/// Sets the words of this process. The first ones stay.
#[doc(hidden)]
pub fn set_words(words: Box<dyn Words>) {
    let _ = WORDS.set(words);
}

/// A duration of a lock, as its user sets it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    AtMost,
    AtLeast,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (WORDS.get(), self) {
            (Some(words), setting) => words.setting(*setting),
            (None, Self::AtMost) => "lock_at_most_for",
            (None, Self::AtLeast) => "lock_at_least_for",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match WORDS.get() {
            Some(words) => f.write_str(&words.operation(*self)),
            None => f.write_str(self.in_code()),
        }
    }
}

impl Operation {
    /// Its name for the author of a program.
    #[doc(hidden)]
    pub fn in_code(self) -> &'static str {
        match self {
            Self::Migrate => "`migrate()`",
            Self::PlanMigration => "`plan_migration()`",
            Self::Grants => "the statements that `schema()` returns",
            Self::NewTable => "`migrate()` under another name of the table",
            Self::CreateFile => "connect without create=false to create the file",
            Self::ResetSlot => "`reset_slot`",
            Self::ForceUnlock => "`force_unlock`",
            Self::PauseNew => "`pause`",
            Self::Resume => "`resume`",
            Self::Prune => "`prune`",
            Self::Restore => "`shedlock migrate --restore-from-journal`",
            Self::History => "`shedlock history`",
            Self::WatchJava => "`shedlock jobs --watched-by-java`",
            Self::RaiseAtMost => "raise lock_at_most_for",
        }
    }
}
