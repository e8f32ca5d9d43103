//! The value of a lock's own key: `ADDED:{instant}@{owner}`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use shedlock_core::Owner;

/// What a value says, ours or ShedLock's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    /// As it is told: our owner with the mark of an unlock, ShedLock's host. Empty where the value
    /// names none.
    pub(crate) owner: String,
    /// When it was acquired, cut to milliseconds.
    pub(crate) at: Option<SystemTime>,
}

impl Value {
    /// Reads a value. What neither of us writes names nobody.
    pub(crate) fn parse(value: &[u8]) -> Self {
        let value = String::from_utf8_lossy(value);
        let Some((added, owner)) = value.split_once('@') else {
            return Self::default();
        };
        let at = added
            .strip_prefix("ADDED:")
            .and_then(|text| text.parse::<Timestamp>().ok())
            .map(SystemTime::from);
        Self {
            owner: owner.to_owned(),
            at,
        }
    }

    /// When ShedLock acquired it, if it did.
    pub(crate) fn shedlock_at(&self) -> Option<SystemTime> {
        self.at.filter(|_| !Owner::is_ours(&self.owner))
    }
}

/// The value as ShedLock writes it: the instant in UTC, cut to milliseconds, all three of them shown.
pub(crate) fn write(at: SystemTime, owner: &str) -> String {
    // Beyond the calendar, no clock is right.
    let at = Timestamp::try_from(whole_millis(at)).unwrap_or(Timestamp::MAX);
    format!("ADDED:{at:.3}@{owner}")
}

/// What stands in the lock's own key after an unlock, while it is kept.
pub(crate) fn released(value: &[u8]) -> Vec<u8> {
    let mut released = value.to_vec();
    released.extend_from_slice(Owner::released_text("").as_bytes());
    released
}

/// An instant as records keep it.
pub(crate) fn whole_millis(instant: SystemTime) -> SystemTime {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH
        + Duration::from_secs(since.as_secs())
        + Duration::from_millis(since.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_millis(1_700_000_000_120);

    #[test]
    fn shedlocks_value_tells_host_and_instant() {
        let value = Value::parse(b"ADDED:2023-11-14T22:13:20.120Z@web-3:8080");
        assert_eq!(value.owner, "web-3:8080");
        assert_eq!(value.shedlock_at(), Some(UNIX_EPOCH + AT));
    }

    /// The wire format: it must not change.
    #[test]
    fn what_we_write_is_cut_to_milliseconds_and_can_be_read() {
        let owner = "blue:web-3/1/0123456789abcdef";
        let text = write(UNIX_EPOCH + AT + Duration::from_nanos(999_999), owner);
        assert_eq!(text, format!("ADDED:2023-11-14T22:13:20.120Z@{owner}"));
        let value = Value::parse(text.as_bytes());
        assert_eq!((&*value.owner, value.at), (owner, Some(UNIX_EPOCH + AT)));
        assert_eq!(value.shedlock_at(), None);
        let value = Value::parse(&released(text.as_bytes()));
        assert!(Owner::is_released(&value.owner));
        assert_eq!(value.shedlock_at(), None);
    }

    #[test]
    fn any_other_value_names_nobody() {
        assert_eq!(Value::parse(b"locked"), Value::default());
        assert_eq!(Value::parse(b""), Value::default());
        assert_eq!(Value::parse(b"\xff@a").at, None);
    }
}
