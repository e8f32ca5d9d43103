//! The format that ShedLock writes into key-value stores: `{prefix}:{environment}:{name}` with the value
//! `ADDED:{instant}@{owner}`.

use std::time::SystemTime;

use jiff::Timestamp;
use shedlock_core::Owner;

use crate::errors::{Result, invalid};

/// The start of all companion keys, which contain fencing tokens and slots. The prefix of lock keys must not be this
/// word.
pub const COMPANION: &str = "shedlock-rs:";

/// Returns the start of the keys of all locks, `{prefix}:{environment}:`. Returns `InvalidInput` for a prefix or an
/// environment that is empty, contains control characters, or would mix up lock keys with companion keys.
pub fn start_of_keys(prefix: &str, environment: &str) -> Result<String> {
    if prefix.is_empty() || environment.is_empty() {
        return Err(invalid("key prefix and environment must not be empty"));
    }
    let start = format!("{prefix}:{environment}:");
    if start.chars().any(char::is_control) {
        return Err(invalid(
            "key prefix and environment must not contain control characters",
        ));
    }
    if start.starts_with(COMPANION) {
        return Err(invalid(
            "keys that begin with \"shedlock-rs:\" are reserved for fencing tokens and slots",
        )
        .advise("choose another key prefix"));
    }
    Ok(start)
}

/// The value of a lock's own key, written by us or by ShedLock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Our owner, with the mark of an unlock if it was unlocked, or ShedLock's host. Empty if the value names no owner.
    pub owner: String,
    /// When the lock was acquired, truncated to milliseconds.
    pub at: Option<SystemTime>,
}

impl Added {
    /// Parses a value. A value in neither format has no owner.
    pub fn parse(value: &[u8]) -> Self {
        let value = String::from_utf8_lossy(value);
        let Some((added, owner)) = value.split_once('@') else {
            return Self::default();
        };
        let at = added
            .strip_prefix("ADDED:")
            .and_then(|text| text.parse::<Timestamp>().ok());
        Self {
            owner: owner.to_owned(),
            at: at.map(SystemTime::from),
        }
    }

    /// When ShedLock acquired the lock, if ShedLock wrote this value.
    pub fn shedlock_at(&self) -> Option<SystemTime> {
        self.at.filter(|_| !Owner::is_ours(&self.owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_value_holds_owner_and_instant() {
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let theirs = Added::parse(b"ADDED:2023-11-14T22:13:20.123Z@web-3");
        assert_eq!((&*theirs.owner, theirs.at), ("web-3", Some(at)));
        assert_eq!(theirs.shedlock_at(), Some(at));
        let ours =
            Added::parse(b"ADDED:2023-11-14T22:13:20.123Z@blue:web-3/1/0123456789abcdef unlocked");
        assert_eq!(ours.owner, "blue:web-3/1/0123456789abcdef unlocked");
        assert_eq!((ours.at, ours.shedlock_at()), (Some(at), None));
    }

    #[test]
    fn any_other_value_names_no_one() {
        assert_eq!(Added::parse(b"locked"), Added::default());
        assert_eq!(Added::parse(b""), Added::default());
        assert_eq!(Added::parse(b"\xff@a").at, None);
    }

    #[test]
    fn what_would_mix_up_keys_is_refused() {
        assert_eq!(start_of_keys("job-lock", "a").unwrap(), "job-lock:a:");
        for (prefix, environment) in [
            ("shedlock-rs", "default"),
            ("shedlock-rs:x", "default"),
            ("", "default"),
            ("job-lock", ""),
            ("job-lock", "a\nb"),
        ] {
            assert!(
                start_of_keys(prefix, environment).is_err(),
                "{prefix}:{environment}"
            );
        }
    }
}
