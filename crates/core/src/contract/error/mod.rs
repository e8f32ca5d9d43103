//! The error type of every crate of this family.

mod text;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

pub use text::LastFailure;

use crate::contract::advice::Advice;

/// What to do about an [`Error`]. New kinds may be added; treat an unknown one as "give up".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself is wrong (empty name, `lock_at_least_for` longer than `lock_at_most_for`, a
    /// duration that the store cannot express, a URL with an unknown scheme or option). It was
    /// refused before anything was changed. Fix the call.
    InvalidInput,
    /// The store is reachable but not set up as needed (missing table, missing primary key,
    /// missing privilege). Fix the configuration.
    Configuration,
    /// The provider declares that it cannot do this ([`Capabilities`](crate::Capabilities)).
    Unsupported,
    /// The store could not be reached, and nothing was written. Retry later.
    Unavailable,
    /// The request was sent and the reply was lost: the request may or may not have taken effect.
    /// Repeat it with the same owner; the runtime of this crate does so by itself.
    OutcomeUnknown,
    /// The record belongs to another name that the store treats as equal, or it does not look like
    /// a record of ours or of ShedLock's. A person must look at it.
    Conflict,
    /// The slot is further ahead of the store's clock than the tolerance allows, so one of the two
    /// clocks is wrong. Nothing was claimed.
    SlotAhead,
    /// No lock is held, but the call needs one (`assert_locked`, `extend_current`).
    NotLocked,
    /// The lease ended, or may have ended, before this call.
    Lost,
    /// The call was made in the wrong context: a blocking form inside an async runtime, or an async
    /// form without one.
    WrongContext,
    /// A bug in a provider or in this crate.
    Internal,
}

impl ErrorKind {
    fn hint(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid input",
            Self::Configuration => "configuration",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "store unavailable",
            Self::OutcomeUnknown => "outcome unknown",
            Self::Conflict => "conflict",
            Self::SlotAhead => "slot ahead of the store's clock",
            Self::NotLocked => "not locked",
            Self::Lost => "lease lost",
            Self::WrongContext => "wrong context",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hint())
    }
}

/// Whether a call that failed has changed the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It has not.
    NothingWritten,
    /// It may have: its reply was lost.
    MayHaveTakenEffect,
}

/// A failure: what was attempted, what happened, what to do.
///
/// A held lock is never an error (it is a [`Skip`](crate::Skip)), and a failing store is never a
/// skip. [`kind`](Error::kind) determines what a program does. The other parts are for a person:
/// [`what`](Error::what) failed, the store client's own error as the [`source`](StdError::source), the
/// [`effect`](Error::effect) and the [`advice`](Error::advice). They are printed in this order; the
/// sources only by `{error:#}`.
///
/// ```
/// use shedlock::{Advice, Error, ErrorKind, Operation};
/// let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
/// let error = Error::new(ErrorKind::Unavailable, "cannot connect")
///     .advise("check that the server is up")
///     .advise(Advice::Retry)
///     .with_source(refused)
///     .with_store("postgres")
///     .with_address("db:5432/app");
/// assert_eq!(
///     error.to_string(),
///     "postgres at db:5432/app: cannot connect; check that the server is up, then retry",
/// );
/// assert_eq!(
///     format!("{error:#}"),
///     "postgres at db:5432/app: cannot connect: connection refused; check that the server is up, then retry",
/// );
///
/// let error = Error::new(ErrorKind::Configuration, "table \"shedlock\" does not exist")
///     .advise(("create it with", Operation::Migrate))
///     .with_store("postgres")
///     .with_lock("payroll");
/// assert_eq!(
///     error.to_string(),
///     "lock \"payroll\" in postgres: table \"shedlock\" does not exist; create it with `migrate()`",
/// );
/// assert!(!error.is_retryable());
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    what: Cow<'static, str>,
    effect: Option<Effect>,
    advice: Vec<Advice>,
    lock: Option<String>,
    store: Option<String>,
    address: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    /// What is printed for the source and its own sources.
    reason: Option<String>,
    rejects_writes: bool,
    is_final: bool,
}

impl Error {
    /// Creates an error of this kind. `what` failed is lowercase, without a final full stop, and does not repeat the
    /// source. The other methods add the other parts.
    pub fn new(kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            what: what.into(),
            effect: None,
            advice: Vec::new(),
            lock: None,
            store: None,
            address: None,
            source: None,
            reason: None,
            rejects_writes: false,
            is_final: false,
        }))
    }

    /// Creates the error for an attempt that finds its own released mark: its lease has ended, and
    /// this copy of it arrives late. For providers.
    pub fn attempt_ended() -> Self {
        let what = "this attempt's lease was already unlocked";
        Self::new(ErrorKind::Lost, what).advise("retry with a new owner")
    }

    /// Adds that the call has changed nothing.
    #[must_use]
    pub fn nothing_written(mut self) -> Self {
        self.0.effect = Some(Effect::NothingWritten);
        self
    }

    /// Adds that the call may have taken effect.
    #[must_use]
    pub fn may_have_taken_effect(mut self) -> Self {
        self.0.effect = Some(Effect::MayHaveTakenEffect);
        self
    }

    /// Adds a step of what to do, after those that were added before.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.0.advice.push(advice.into());
        self
    }

    /// Adds that the same call may succeed if it is made again.
    #[must_use]
    pub fn retry(self) -> Self {
        self.advise(Advice::Retry)
    }

    /// Adds that the same call may succeed if it is made again later.
    #[must_use]
    pub fn retry_later(self) -> Self {
        self.advise(Advice::RetryLater)
    }

    /// Puts what the error is about, such as an option, before what failed.
    #[must_use]
    pub fn about(mut self, about: impl fmt::Display) -> Self {
        self.0.what = format!("{about}: {}", self.0.what).into();
        self
    }

    /// Adds the name of the lock. A name that is already set stays.
    #[must_use]
    pub fn with_lock(mut self, name: impl Into<String>) -> Self {
        self.0.lock.get_or_insert_with(|| name.into());
        self
    }

    /// Adds the name of the store ("postgres", "memory"). A name that is already set stays.
    #[must_use]
    pub fn with_store(mut self, store: impl Into<String>) -> Self {
        self.0.store.get_or_insert_with(|| store.into());
        self
    }

    /// Adds the address of the store, without user and password ("db:5432/app"). An address that is
    /// already set stays. It is shown only with the name of the store.
    #[must_use]
    pub fn with_address(mut self, address: impl Into<String>) -> Self {
        self.0.address.get_or_insert_with(|| address.into());
        self
    }

    /// Adds the store client's own error as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Sets what `{error:#}` prints in place of the sources. For clients whose own texts are not fit
    /// to be read: they repeat their cause, or print names of their types.
    /// ```
    /// use shedlock::{Error, ErrorKind};
    /// let source = std::io::Error::other("IO error: os error: connection refused");
    /// let error = Error::new(ErrorKind::Unavailable, "cannot connect")
    ///     .advise("check that the server is up")
    ///     .with_source(source)
    ///     .with_reason("connection refused");
    /// assert_eq!(
    ///     format!("{error:#}"),
    ///     "cannot connect: connection refused; check that the server is up",
    /// );
    /// ```
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.0.reason = Some(reason.into());
        self
    }

    /// The store replies and rejects all writes, as a standby does. A retry makes sense only after a failover.
    #[doc(hidden)]
    #[must_use]
    pub fn rejecting_writes(mut self) -> Self {
        self.0.rejects_writes = true;
        self
    }

    /// Whether the store replies and rejects all writes.
    #[doc(hidden)]
    pub fn rejects_writes(&self) -> bool {
        self.0.rejects_writes
    }

    /// The client of the store is closed, so no later call over it can succeed.
    #[doc(hidden)]
    #[must_use]
    pub fn of_closed_client(mut self) -> Self {
        self.0.is_final = true;
        self
    }

    /// Whether no later call over this client can succeed.
    #[doc(hidden)]
    pub fn is_final(&self) -> bool {
        self.0.is_final
    }

    /// The same with more statements, if its advice is to run some.
    #[doc(hidden)]
    #[must_use]
    pub fn with_statements(mut self, more: impl IntoIterator<Item = String>) -> Self {
        if let Some(Advice::Statements(_, statements)) = self.0.advice.last_mut() {
            statements.extend(more);
        }
        self
    }

    /// The same without the name of the lock if it is this one, for a text that names it already.
    #[doc(hidden)]
    #[must_use]
    pub fn without_lock(mut self, name: &str) -> Self {
        self.0.lock = self.0.lock.filter(|lock| lock != name);
        self
    }

    /// The same without its effect, for a text that says what was done.
    #[doc(hidden)]
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.0.effect = None;
        self
    }

    /// The same without where it happened, for a text that names the place already.
    #[must_use]
    pub fn without_place(mut self) -> Self {
        self.0.lock = None;
        self.0.store = None;
        self.0.address = None;
        self
    }

    /// Returns this error for a URL, without any text of the URL that may be part of a password.
    /// For providers.
    ///
    /// A password with an unescaped `/`, `?` or `#` is cut off there. The rest of it is parsed as a
    /// path or as options, and error messages show those. You can recognize such a URL by an `@`
    /// after the first of these three characters.
    /// ```
    /// use shedlock::{Error, ErrorKind};
    /// let unknown = || Error::new(ErrorKind::InvalidInput, "unknown option \"cret@db\" in the URL");
    /// let error = unknown().of_url("postgres://app:se?cret@db/app");
    /// assert!(!error.to_string().contains("cret"));
    /// assert!(error.to_string().contains("%3F"));
    /// let error = unknown().of_url("postgres://app:secret@db/app?cret%40db");
    /// assert_eq!(error.to_string(), unknown().to_string());
    /// ```
    #[must_use]
    pub fn of_url(self, url: &str) -> Self {
        let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let parts = url.split_once("://");
        let parts = parts.filter(|(scheme, _)| scheme.bytes().all(is_of_scheme));
        let rest = parts.map_or(url, |(_, rest)| rest);
        let behind = rest.find(['/', '?', '#']).map_or("", |end| &rest[end..]);
        if !behind.contains('@') {
            return self;
        }
        let hidden = Self::new(
            self.kind(),
            "cannot use the store's URL (details hidden because they may show a password): an '@' \
             follows the first '/', '?' or '#'",
        )
        .advise(
            "write these as %2F, %3F and %23 in user and password, and an '@' after the hosts as %40",
        );
        match self.0.store {
            Some(store) => hidden.with_store(store),
            None => hidden,
        }
    }

    /// Returns the kind of the error, which determines what to do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what failed, without where and why.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Returns whether the call has changed the store, if the provider knows it and says so.
    pub fn effect(&self) -> Option<Effect> {
        self.0.effect
    }

    /// Returns what a person can do, step by step.
    pub fn advice(&self) -> &[Advice] {
        &self.0.advice
    }

    /// Returns the name of the lock, if the error concerns one.
    pub fn lock(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// Returns the name of the store, if the error concerns one.
    pub fn store(&self) -> Option<&str> {
        self.0.store.as_deref()
    }

    /// Returns the address of the store, if the error concerns one with an address.
    pub fn address(&self) -> Option<&str> {
        self.0.address.as_deref()
    }

    /// Returns true if the same call may succeed later without any other change.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown
        )
    }

    /// Returns true if the request may have taken effect although it failed.
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.kind == ErrorKind::OutcomeUnknown
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_ref()
            .map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_several_lines_is_printed_on_one() {
        let source = std::io::Error::other("Parse error at 1\nUnexpected `84`\r\n\u{1b}[2J");
        let error = Error::new(ErrorKind::Unavailable, "cannot connect")
            .retry()
            .with_source(source);
        assert_eq!(
            format!("{error:#}"),
            "cannot connect: Parse error at 1 Unexpected `84` [2J; retry"
        );
    }

    #[test]
    fn a_reason_stands_for_its_sources_also_in_an_error_around_it() {
        let source =
            std::io::Error::other("error returned from database: no such role at line 768.");
        let error = Error::new(ErrorKind::Configuration, "cannot connect")
            .advise("check the user")
            .with_source(source)
            .with_reason("no such\nrole.");
        assert_eq!(
            format!("{error:#}"),
            "cannot connect: no such role; check the user"
        );
        let around = Error::new(ErrorKind::OutcomeUnknown, "no record")
            .retry()
            .with_source(error);
        assert_eq!(
            format!("{around:#}"),
            "no record: cannot connect: no such role; retry"
        );
    }
}
