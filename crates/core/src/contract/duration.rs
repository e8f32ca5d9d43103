//! Parses durations as users write them.

use std::fmt;
use std::time::Duration;

use shedlock_grammar::duration::{self, Refusal};
use shedlock_grammar::period;

use crate::contract::{Error, ErrorKind};

/// Parses `10m`, `1h 30m`, `500ms`, `1d` and ISO 8601 `PT10M`, `P1DT12H`.
///
/// A day is 24 hours. The parser refuses years, months and weeks (their length depends on the
/// calendar, or they are rarely meant), bare numbers, negative durations and anything that is not a
/// duration.
///
/// # Errors
/// `InvalidInput`, with the correct form in the message.
///
/// ```
/// use shedlock::parse_duration;
/// use std::time::Duration;
/// assert_eq!(parse_duration("1h 30m")?, Duration::from_secs(5_400));
/// assert_eq!(parse_duration("PT0.5S")?, Duration::from_millis(500));
/// let error = parse_duration("10").unwrap_err();
/// assert_eq!(error.to_string(), "cannot read \"10\" as a duration; write it with its unit, like \"10m\", \"1h 30m\", \"500ms\" or \"PT10M\"");
/// # Ok::<(), shedlock::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    LockDuration::from(text).get()
}

/// The longest duration that stores accept. Every store's calendar can represent an instant that far away, and every
/// script can count it in microseconds.
#[doc(hidden)]
pub const HUNDRED_YEARS: Duration = period::HUNDRED_YEARS;

/// Refuses durations over a hundred years. `what` names the setting.
#[doc(hidden)]
pub fn check_longest(what: impl fmt::Display, duration: Duration) -> Result<(), Error> {
    if duration <= HUNDRED_YEARS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidInput,
        format!("{what} is longer than a hundred years"),
    )
    .advise("shorten it"))
}

/// A duration given as a [`Duration`] or as text. Setters take it.
///
/// ```
/// use shedlock::LockConfig;
/// use std::time::Duration;
/// LockConfig::new("a").lock_at_most_for(Duration::from_secs(600));
/// LockConfig::new("a").lock_at_most_for("10m");
/// LockConfig::new("a").lock_at_most_for("PT10M");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDuration(Result<Duration, UnreadableDuration>);

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableDuration {
    text: String,
    refusal: Refusal,
}

impl LockDuration {
    /// Returns the duration.
    ///
    /// # Errors
    /// As [`parse_duration`].
    pub fn get(self) -> Result<Duration, Error> {
        self.0.map_err(|unreadable| unreadable.error())
    }

    /// Returns the duration. If it could not be parsed, returns `None` and stores the text in
    /// `note`, unless `note` is already set.
    pub(crate) fn or_note(self, note: &mut Option<UnreadableDuration>) -> Option<Duration> {
        self.0
            .map_err(|unreadable| note.get_or_insert(unreadable))
            .ok()
    }
}

impl UnreadableDuration {
    /// Returns the error of [`parse_duration`].
    pub(crate) fn error(&self) -> Error {
        let what = self.refusal.what(&self.text);
        Error::new(ErrorKind::InvalidInput, what).advise(self.refusal.remedy())
    }
}

impl From<Duration> for LockDuration {
    fn from(duration: Duration) -> Self {
        Self(Ok(duration))
    }
}

impl From<&str> for LockDuration {
    fn from(text: &str) -> Self {
        Self(duration::parse(text).map_err(|refusal| UnreadableDuration {
            text: text.to_owned(),
            refusal,
        }))
    }
}

impl From<String> for LockDuration {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "10", "-10s", "P", "1w", "7304484d 1s"] {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text:?}");
            let refused = LockDuration::from(text).get().unwrap_err();
            assert_eq!(refused.to_string(), error.to_string());
        }
        assert_eq!(
            parse_duration("1h 30m").unwrap(),
            Duration::from_secs(5_400)
        );
    }
}
