//! The value of a lock's own key: `ADDED:{instant}@{owner}`.

use std::time::SystemTime;

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
    is_ours: bool,
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
        let is_ours = Owner::is_ours(owner);
        // ShedLock's ends with a random part of its own.
        let owner = match owner.rsplit_once(':') {
            Some((host, _)) if !is_ours => host,
            _ => owner,
        };
        Self {
            owner: owner.to_owned(),
            at,
            is_ours,
        }
    }

    /// When ShedLock acquired it, if it did.
    pub(crate) fn shedlock_at(&self) -> Option<SystemTime> {
        self.at.filter(|_| !self.is_ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const AT: Duration = Duration::from_millis(1_700_000_000_123);

    #[test]
    fn shedlocks_value_tells_host_and_instant() {
        let text = b"ADDED:2023-11-14T22:13:20.123Z@web-3:7f4df1a2-87e5-4b1c-9a59-0d7f6c3b2a10";
        let value = Value::parse(text);
        assert_eq!(value.owner, "web-3");
        assert_eq!(value.at, Some(UNIX_EPOCH + AT));
        assert_eq!(value.shedlock_at(), Some(UNIX_EPOCH + AT));
    }

    #[test]
    fn our_value_tells_the_owner() {
        let text = b"ADDED:2023-11-14T22:13:20.123Z@blue:web-3/1/0123456789abcdef unlocked";
        let value = Value::parse(text);
        assert_eq!(value.owner, "blue:web-3/1/0123456789abcdef unlocked");
        assert_eq!(value.shedlock_at(), None);
    }

    #[test]
    fn any_other_value_names_nobody() {
        assert_eq!(Value::parse(b"locked"), Value::default());
        assert_eq!(Value::parse(b""), Value::default());
        assert_eq!(Value::parse(b"\xff@a").at, None);
    }
}
