//! The keys of a lock, and the lock of a key.

use shedlock_core::{Error, ErrorKind, LockName};

/// What ours begin with. ShedLock's begin with their prefix, which may not be this word.
const COMPANION: &str = "shedlock-rs:";

/// The longest name that is accepted, in bytes: a page of such names fits one answer.
pub(crate) const LONGEST_NAME: usize = 4 * 1024;

/// How keys are made from names.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// `{prefix}:{environment}:`.
    start: String,
}

/// The two keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// As ShedLock has it.
    pub(crate) lock: String,
    /// The record beside it.
    pub(crate) companion: String,
}

/// All keys from the first to the second, which is not one of them.
pub(crate) type Range = (Vec<u8>, Vec<u8>);

impl Keys {
    /// With ShedLock's prefix and environment, or one's own.
    pub(crate) fn new(prefix: &str, environment: &str) -> Result<Self, Error> {
        let refused = |what: &str| Err(Error::new(ErrorKind::InvalidInput, what.to_owned()));
        if prefix.is_empty() || environment.is_empty() {
            return refused("key prefix and environment must not be empty");
        }
        let start = format!("{prefix}:{environment}:");
        if start.chars().any(char::is_control) {
            return refused("key prefix and environment must not hold control characters");
        }
        if start.starts_with(COMPANION) {
            return refused(
                "keys that begin with \"shedlock-rs:\" are those of fencing tokens and slots: \
                 choose another key prefix",
            );
        }
        Ok(Self { start })
    }

    /// The keys of this lock.
    pub(crate) fn of(&self, name: &LockName) -> Result<Pair, Error> {
        if name.as_str().len() > LONGEST_NAME {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("the lock's name is longer than {LONGEST_NAME} bytes: shorten it"),
            ));
        }
        let lock = format!("{}{name}", self.start);
        let companion = format!("{COMPANION}{lock}");
        Ok(Pair { lock, companion })
    }

    /// The keys of all locks behind this one, and those beside them; both in the order of names.
    pub(crate) fn behind(&self, name: Option<&LockName>) -> [Range; 2] {
        ["", COMPANION].map(|what| {
            let start = format!("{what}{}", self.start);
            // Its last byte is a colon, so that this is the first key that does not begin so.
            let mut end = start.clone().into_bytes();
            if let Some(last) = end.last_mut() {
                *last += 1;
            }
            let mut from = start.into_bytes();
            if let Some(name) = name {
                from.extend_from_slice(name.as_str().as_bytes());
                // The first key behind that one.
                from.push(0);
            }
            (from, end)
        })
    }

    /// The lock that a key belongs to, if it is one of ours.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let key = std::str::from_utf8(key).ok()?;
        let lock = key.strip_prefix(COMPANION).unwrap_or(key);
        let name = LockName::new(lock.strip_prefix(&self.start)?).ok()?;
        // Others may have keys that look like ours, with names that no lock has.
        self.of(&name).is_ok().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    /// The wire format: it must not change.
    #[test]
    fn keys_are_as_documented() {
        let keys = Keys::new("shedlock", "default").unwrap();
        let pair = keys.of(&name("payroll")).unwrap();
        assert_eq!(pair.lock, "shedlock:default:payroll");
        assert_eq!(pair.companion, "shedlock-rs:shedlock:default:payroll");
    }

    #[test]
    fn a_key_tells_its_lock() {
        let keys = Keys::new("shedlock", "prod").unwrap();
        for text in ["payroll", "x:y", "é", "shedlock-rs:x", "a\u{200b}"] {
            let pair = keys.of(&name(text)).unwrap();
            for key in [&pair.lock, &pair.companion] {
                assert_eq!(keys.name_of(key.as_bytes()), Some(name(text)), "{key}");
            }
        }
        for other in ["shedlock:other:x", "shedlock-rs:x", "x", "shedlock:prod:"] {
            assert_eq!(keys.name_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_page_begins_behind_its_name_and_ends_with_the_environment() {
        let keys = Keys::new("shedlock", "prod").unwrap();
        let [(from, end), _] = keys.behind(Some(&name("b")));
        let holds = |text: &str| {
            let key = keys.of(&name(text)).unwrap().lock.into_bytes();
            from <= key && key < end
        };
        assert!(!holds("a") && !holds("b"));
        assert!(holds("b ") && holds("ba") && holds("c") && holds("\u{10ffff}"));
        let [_, (from, end)] = keys.behind(None);
        let key = keys.of(&name("a")).unwrap().companion.into_bytes();
        assert!(from < key && key < end);
        assert!(end > b"shedlock-rs:shedlock:prod:\xff".to_vec());
        assert!(end <= b"shedlock-rs:shedlock:prod;".to_vec());
    }

    #[test]
    fn what_would_mix_up_keys_is_refused() {
        assert!(Keys::new("shedlock-rs", "default").is_err());
        assert!(Keys::new("shedlock-rs:x", "default").is_err());
        assert!(Keys::new("", "default").is_err());
        assert!(Keys::new("shedlock", "").is_err());
        assert!(Keys::new("shedlock", "a\nb").is_err());
    }
}
