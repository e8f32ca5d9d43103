//! Conversions between locks and keys, and the value of a lock's own key.

use std::time::SystemTime;

use jiff::Timestamp;
use shedlock_core::{LockName, Owner};
use shedlock_provider::{COMPANION, Result, check_name_length, start_of_keys, whole_millis};

/// The longest accepted name, in bytes: a page of names of this length fits into one reply.
pub(crate) const LONGEST_NAME: usize = 4 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// `{prefix}:{environment}:`.
    start: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str, environment: &str) -> Result<Self> {
        let start = start_of_keys(prefix, environment)?;
        Ok(Self { start })
    }

    /// Returns the keys of this lock: its own key, which ShedLock uses too, and the key of its companion record.
    pub(crate) fn of(&self, name: &LockName) -> [String; 2] {
        ["", COMPANION].map(|what| format!("{what}{}{name}", self.start))
    }

    /// Returns the ranges of the keys of all locks after this one, and of their companion keys, in the order of names.
    /// Each range runs from the first key up to, but not including, the second.
    pub(crate) fn after(&self, name: Option<&LockName>) -> [(String, String); 2] {
        ["", COMPANION].map(|what| {
            let start = format!("{what}{}", self.start);
            // The byte after the colon gives the first key outside the prefix.
            let end = format!("{};", &start[..start.len() - 1]);
            let from = match name {
                // The first key after that lock's.
                Some(name) => format!("{start}{name}\0"),
                None => start,
            };
            (from, end)
        })
    }

    /// Returns the lock that a key belongs to, if the key is one of ours.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let key = std::str::from_utf8(key).ok()?;
        let lock = key.strip_prefix(COMPANION).unwrap_or(key);
        let name = LockName::new(lock.strip_prefix(&self.start)?).ok()?;
        // Foreign keys may resemble ours, with names that no lock can have.
        let is_ours = check_name_length(&name, LONGEST_NAME).is_ok();
        is_ours.then_some(name)
    }
}

/// Formats the value as ShedLock does: the instant in UTC, truncated to milliseconds, always with three digits.
pub(crate) fn write(at: SystemTime, owner: &str) -> String {
    // Only a wrong clock shows an instant beyond the calendar.
    let at = Timestamp::try_from(whole_millis(at)).unwrap_or(Timestamp::MAX);
    format!("ADDED:{at:.3}@{owner}")
}

/// Returns the value of the lock's own key after an unlock, while at-least keeps the key.
pub(crate) fn released(value: &[u8]) -> Vec<u8> {
    [value, Owner::released_text("").as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    use shedlock_provider::Added;

    const AT: Duration = Duration::from_millis(1_700_000_000_120);

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    /// The wire format must not change.
    #[test]
    fn keys_are_as_documented() {
        let keys = Keys::new("shedlock", "default").unwrap();
        let [lock, kept] = keys.of(&name("payroll"));
        assert_eq!(lock, "shedlock:default:payroll");
        assert_eq!(kept, "shedlock-rs:shedlock:default:payroll");
    }

    #[test]
    fn a_key_leads_back_to_its_lock() {
        let keys = Keys::new("shedlock", "prod").unwrap();
        for text in ["payroll", "x:y", "é", "shedlock-rs:x", "a\u{200b}"] {
            for key in keys.of(&name(text)) {
                assert_eq!(keys.name_of(key.as_bytes()), Some(name(text)), "{key}");
            }
        }
        for other in ["shedlock:other:x", "shedlock-rs:x", "x", "shedlock:prod:"] {
            assert_eq!(keys.name_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_page_begins_after_its_name_and_ends_with_the_environment() {
        let keys = Keys::new("shedlock", "prod:").unwrap();
        for (which, (from, end)) in keys.after(Some(&name("b"))).into_iter().enumerate() {
            let holds = |text| (&from..&end).contains(&&keys.of(&name(text))[which]);
            assert!(!holds("a") && !holds("b"));
            assert!(holds("b ") && holds("ba") && holds("c") && holds("\u{10ffff}"));
        }
        let all = keys.after(None);
        assert_eq!(all[0], ("shedlock:prod::".into(), "shedlock:prod:;".into()));
        assert_eq!(all[1].1, "shedlock-rs:shedlock:prod:;");
    }

    #[test]
    fn shedlocks_value_holds_host_and_instant() {
        let value = Added::parse(b"ADDED:2023-11-14T22:13:20.120Z@web-3:8080");
        assert_eq!(value.owner, "web-3:8080");
        assert_eq!(value.shedlock_at(), Some(UNIX_EPOCH + AT));
    }

    /// The wire format must not change.
    #[test]
    fn what_we_write_is_cut_to_milliseconds_and_can_be_read() {
        let owner = "blue:web-3/1/0123456789abcdef";
        let text = write(UNIX_EPOCH + AT + Duration::from_nanos(999_999), owner);
        assert_eq!(text, format!("ADDED:2023-11-14T22:13:20.120Z@{owner}"));
        let value = Added::parse(text.as_bytes());
        assert_eq!((&*value.owner, value.at), (owner, Some(UNIX_EPOCH + AT)));
        assert_eq!(value.shedlock_at(), None);
        let value = Added::parse(&released(text.as_bytes()));
        assert!(Owner::is_released(&value.owner));
        assert_eq!(value.shedlock_at(), None);
    }
}
