//! The keys of a lock, and the lock of a key.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis::cluster_routing::Slot;
use shedlock_core::LockName;
use shedlock_provider::{COMPANION, Result, check_name_length, start_of_keys};

/// The longest accepted name, in bytes. Redis would accept longer ones, which no one could read.
pub(crate) const LONGEST_NAME: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// `{prefix}:{environment}:`.
    start: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) lock: String,
    pub(crate) companion: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str, environment: &str) -> Result<Self> {
        let start = start_of_keys(prefix, environment)?;
        Ok(Self { start })
    }

    pub(crate) fn of(&self, name: &LockName) -> Pair {
        // This runs on every call, and `format!` takes several times as long.
        let lock = [&*self.start, name.as_str()].concat();
        let companion = companion(&lock);
        Pair { lock, companion }
    }

    /// The start of the keys of the journal, which are all in one hash slot of a cluster. No companion is named like
    /// this, and no lock.
    pub(crate) fn journal(&self) -> String {
        let tag = self.start.strip_suffix(':').unwrap_or(&self.start);
        let tag = tag.replace('%', "%25").replace('}', "%7D");
        [COMPANION, "journal:{", &tag, "}"].concat()
    }

    /// A `SCAN` pattern that matches all our keys, and some others.
    pub(crate) fn pattern(&self) -> String {
        let mut pattern = String::from("*");
        for c in self.start.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('*');
        pattern
    }

    /// The lock that a key belongs to, if it is one of the two keys that this name has. Other applications may have
    /// keys that only look like ours.
    pub(crate) fn name_of(&self, key: &str) -> Option<LockName> {
        let lock = match key.strip_prefix(COMPANION) {
            Some(rest) => lock_of(rest)?,
            None => key,
        };
        let name = LockName::new(lock.strip_prefix(&self.start)?).ok()?;
        check_name_length(&name, LONGEST_NAME).ok()?;
        let pair = self.of(&name);
        (pair.lock == key || pair.companion == key).then_some(name)
    }
}

/// `shedlock-rs:{…}…`. The part in braces maps it to the hash slot of the lock's own key in a cluster:
///
/// - a key without `}` is hashed whole: `shedlock-rs:{key}`;
/// - a key with a hash tag is hashed by the tag: `shedlock-rs:{tag}key`;
/// - a key with a `}` but without a hash tag is hashed whole too, but cannot be written as a tag. A number that hashes
///   to the same slot replaces it: `shedlock-rs:{number}key`.
fn companion(lock: &str) -> String {
    match hash_tag(lock) {
        Some(tag) => format!("{COMPANION}{{{tag}}}{lock}"),
        None if lock.contains('}') => format!("{COMPANION}{{{}}}{lock}", number_for(lock)),
        None => [COMPANION, "{", lock, "}"].concat(),
    }
}

/// Each slot has a number below this; a test checks it.
const END: u32 = 109_758;

/// The smallest number whose decimal digits hash to the slot of this key.
fn number_for(lock: &str) -> u32 {
    static NUMBERS: LazyLock<HashMap<Slot, u32>> = LazyLock::new(|| {
        // The smallest number is inserted last and replaces the others.
        let numbers = (0..END).rev();
        numbers
            .map(|number| (Slot::for_key(number.to_string()), number))
            .collect()
    });
    let number = NUMBERS.get(&Slot::for_key(lock));
    number.copied().unwrap_or_default()
}

/// The text between the first `{` and the next `}`, unless it is empty.
fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The lock's own key, from the text after [`COMPANION`].
fn lock_of(rest: &str) -> Option<&str> {
    let (tag, behind) = rest.strip_prefix('{')?.split_once('}')?;
    Some(if behind.is_empty() { tag } else { behind })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn pair(name: &str) -> Pair {
        let keys = Keys::new("job-lock", "default").unwrap();
        keys.of(&LockName::new(name).unwrap())
    }

    /// The wire format: it must not change.
    #[test]
    fn keys_are_as_documented() {
        assert_eq!(pair("payroll").lock, "job-lock:default:payroll");
        assert_eq!(
            pair("payroll").companion,
            "shedlock-rs:{job-lock:default:payroll}"
        );
        assert_eq!(
            pair("a{b}c").companion,
            "shedlock-rs:{b}job-lock:default:a{b}c"
        );
        assert_eq!(
            pair("a}b").companion,
            "shedlock-rs:{2594}job-lock:default:a}b"
        );
        assert_eq!(
            pair("{}").companion,
            "shedlock-rs:{22608}job-lock:default:{}"
        );
        assert_eq!(pair("a{b").companion, "shedlock-rs:{job-lock:default:a{b}");
    }

    #[test]
    fn the_journals_keys_are_in_one_slot_and_are_no_locks() {
        let keys = Keys::new("job-lock", "default").unwrap();
        assert_eq!(keys.journal(), "shedlock-rs:journal:{job-lock:default}");
        let braces = Keys::new("}", "a}b%{").unwrap();
        assert_eq!(braces.journal(), "shedlock-rs:journal:{%7D:a%7Db%25{}");
        for keys in [keys, braces] {
            let key = |suffix: &str| format!("{}:{suffix}", keys.journal());
            assert_eq!(Slot::for_key(key("runs")), Slot::for_key(key("jobs")));
            assert_eq!(keys.name_of(&key("runs")), None);
        }
    }

    #[test]
    fn a_key_leads_back_to_its_lock() {
        let keys = Keys::new("job-lock", "a*b").unwrap();
        for text in [
            "payroll", "a{b}c", "a}b", "{}", "a{b", "x:y", "}", "{a}{b}", "é",
        ] {
            let name = LockName::new(text).unwrap();
            let pair = keys.of(&name);
            assert_eq!(keys.name_of(&pair.lock), Some(name.clone()), "{text}");
            assert_eq!(keys.name_of(&pair.companion), Some(name), "{text}");
        }
        let long = format!("job-lock:a*b:{}", "x".repeat(LONGEST_NAME + 1));
        for other in [
            "job-lock:other:x",
            "shedlock-rs:",
            "shedlock-rs:{a",
            "shedlock-rs:{}job-lock:a*b:x",
            "x",
            &long,
        ] {
            assert_eq!(keys.name_of(other), None, "{other}");
        }
        assert_eq!(keys.pattern(), r"*job-lock:a\*b:*");
    }

    #[test]
    fn both_keys_hash_to_one_slot() {
        for name in [
            "payroll", "a{b}c", "a{b", "{x}", "a{b{c}d", "a}b", "{", "}", "{}", "{}{x}", "a{}{b}",
            "}{", "{{}}", "{}}", "}}{a}",
        ] {
            let pair = pair(name);
            let (lock, companion) = (Slot::for_key(&pair.lock), Slot::for_key(&pair.companion));
            assert_eq!(lock, companion, "{pair:?}");
        }
    }

    #[test]
    fn each_slot_has_a_number() {
        let slots: HashSet<_> = (0..END)
            .map(|number| Slot::for_key(number.to_string()))
            .collect();
        assert_eq!(slots.len(), 16_384);
    }
}
