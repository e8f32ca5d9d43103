//! The contents of a lock's record, and its text form for stores that have no ShedLock format.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    AttemptRequest, Error, Lease, LockName, LockRecord, Owner, SkippedSlots, Slot, SlotState,
};

use super::time::{Now, millis};
use crate::builder::maybe;
use crate::errors::{Result, conflict};

/// The contents of a lock's record in a store.
///
/// The engine writes whole milliseconds. For a record that ShedLock wrote, a store fills in the fields that the record
/// contains, and keeps the token and the slots of our last record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The owner that acquired the lock last, with the mark that an unlock leaves ([`Owner::released`]). Empty if the
    /// record names no owner.
    pub owner: String,
    /// When the lock was last acquired, if recorded.
    pub locked_at: Option<SystemTime>,
    /// When the lock becomes, or became, free.
    pub locked_until: SystemTime,
    /// The fencing token of our last acquisition.
    pub fencing_token: Option<u64>,
    /// The recorded state of the lock's slots.
    pub slots: SlotState,
}

impl Record {
    /// Creates a record that contains only the end of the lock.
    pub fn until(locked_until: SystemTime) -> Self {
        Self {
            owner: String::new(),
            locked_at: None,
            locked_until,
            fencing_token: None,
            slots: SlotState::default(),
        }
    }

    /// When the lock becomes, or became, free, in milliseconds since 1970, as most formats store it.
    pub fn until_millis(&self) -> u64 {
        millis(self.locked_until)
    }

    /// Returns the record as lines of text, each a word and a value; see `docs/wire-format.md`.
    ///
    /// ```
    /// # use shedlock_provider::Record;
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// let mut record = Record::until(UNIX_EPOCH + Duration::from_millis(1_800_000_000_000));
    /// record.owner = "web-3/4711/5f0c9b1d7e3a4c28".to_owned();
    /// let text = record.to_text();
    /// assert_eq!(text, "shedlock 1\nuntil 1800000000000\nowner web-3/4711/5f0c9b1d7e3a4c28\n");
    /// assert_eq!(Record::from_text(&text)?, record);
    /// # Ok::<(), shedlock_core::Error>(())
    /// ```
    pub fn to_text(&self) -> String {
        let owner: String = self.owner.chars().filter(|c| !c.is_control()).collect();
        let slot = |slot: Option<Slot>| slot.map(|slot| slot.as_micros().to_string());
        let words = [
            ("until", Some(self.until_millis().to_string())),
            ("at", self.locked_at.map(|at| millis(at).to_string())),
            ("token", self.fencing_token.map(|token| token.to_string())),
            ("slot", slot(self.slots.last)),
            ("done", slot(self.slots.done)),
            (
                "attempts",
                self.slots.attempts.map(|number| number.to_string()),
            ),
            ("skipfrom", slot(self.slots.skipped.map(|it| it.from))),
            ("skipuntil", slot(self.slots.skipped.map(|it| it.until))),
            ("owner", Some(owner).filter(|owner| !owner.is_empty())),
        ];
        let mut text = "shedlock 1\n".to_owned();
        let lines = words.into_iter();
        text.extend(lines.filter_map(|(word, value)| Some(format!("{word} {}\n", value?))));
        text
    }

    /// Parses a record that [`to_text`](Self::to_text) wrote, in this version or a later one. Unknown words are
    /// ignored.
    ///
    /// # Errors
    /// `Conflict` for any other text, including text that `to_text` would write differently: a repeated word, a number
    /// with a sign or leading zeros, an owner with control characters.
    pub fn from_text(text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| foreign(text))
    }

    fn read(text: &str) -> Option<Self> {
        let mut record = Self::until(UNIX_EPOCH);
        let mut lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        if lines.next() != Some("shedlock 1") {
            return None;
        }
        let mut seen = Vec::new();
        let (mut from, mut until) = (None, None);
        for line in lines {
            let (word, value) = line.split_once(' ')?;
            match word {
                "until" => record.locked_until = instant(value)?,
                "at" => record.locked_at = Some(instant(value)?),
                "token" => record.fencing_token = Some(number(value)?),
                "slot" => record.slots.last = Some(slot(value)?),
                "done" => record.slots.done = Some(slot(value)?),
                "attempts" => record.slots.attempts = Some(number(value)?),
                "skipfrom" => from = Some(slot(value)?),
                "skipuntil" => until = Some(slot(value)?),
                "owner" if value.chars().any(char::is_control) => return None,
                "owner" => record.owner = value.to_owned(),
                _ => continue,
            }
            if seen.contains(&word) {
                return None;
            }
            seen.push(word);
        }
        record.slots.skipped = match (from, until) {
            (None, None) => None,
            (Some(from), Some(until)) => Some(SkippedSlots::new(from, until)),
            _ => return None,
        };
        seen.contains(&"until").then_some(record)
    }

    /// Parses a record from the bytes in a store: the text form of [`from_text`](Self::from_text), in UTF-8.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text), and `Conflict` for bytes that are not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::from_text(text),
            Err(_) => Err(foreign(&String::from_utf8_lossy(bytes))),
        }
    }

    /// Fills in a missing fencing token with the number of the write that acquired the lock: that write could not
    /// contain its own number. A released record without a token is left as it is: a withdrawal wrote it.
    pub fn with_token_of(mut self, write: Option<u64>) -> Self {
        let is_acquired = Owner::is_ours(&self.owner) && !Owner::is_released(&self.owner);
        if is_acquired {
            self.fencing_token = self.fencing_token.or(write);
        }
        self
    }

    /// Whether no one may take the lock, because a lease may still run or because at-least keeps it taken.
    pub(crate) fn is_locked(&self, now: Now) -> bool {
        let free = if Owner::is_released(&self.owner) {
            now.told
        } else {
            now.sure
        };
        self.locked_until > free
    }

    /// Whether this owner's lease is certainly still running.
    pub(crate) fn is_held_by(&self, owner: &Owner, now: Now) -> bool {
        self.owner == owner.as_str() && self.locked_until > now.latest
    }

    /// When ShedLock acquired the lock, if ShedLock was the last to acquire it.
    pub fn shedlock_at(&self) -> Option<SystemTime> {
        self.locked_at.filter(|_| !Owner::is_ours(&self.owner))
    }

    /// Returns the lease of the request that won this record.
    pub fn as_lease(&self, request: &AttemptRequest) -> Lease {
        let lease = Lease::granted(request)
            .with_locked_until(self.locked_until)
            .with_slot_attempt(request.slot.and(self.slots.attempts));
        let lease = maybe(lease, self.locked_at, Lease::with_acquired_at);
        maybe(lease, self.fencing_token, Lease::with_fencing_token)
    }

    /// Returns the public view of this record. `is_locked` is whether the lock's end is still ahead by the clock that
    /// judges leases. `read_at` is that clock's time at the read.
    pub fn as_lock_record(
        &self,
        name: &LockName,
        is_locked: bool,
        read_at: SystemTime,
    ) -> LockRecord {
        let mut record =
            LockRecord::from_stored(name.clone(), &self.owner, is_locked).with_slots(self.slots);
        record.locked_at = self.locked_at;
        record.locked_until = Some(self.locked_until);
        record.fencing_token = self.fencing_token;
        record.read_at = Some(read_at);
        record
    }

    pub(crate) fn as_seen(&self, name: &LockName, now: Now) -> LockRecord {
        self.as_lock_record(name, self.is_locked(now), now.told)
    }
}

/// Parses a number in the one form that this module writes, and no other.
fn number<T: FromStr + ToString>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn instant(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(number(text)?))
}

fn slot(text: &str) -> Option<Slot> {
    Slot::from_micros(number(text)?).ok()
}

fn foreign(text: &str) -> Error {
    let start: String = text.chars().take(40).collect();
    conflict(format!(
        "the record contains {start:?}, which is not a lock"
    ))
    .advise("check what wrote it, then delete it or use another name")
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    const WHOLE: &str = "shedlock 1\nuntil 1800000000999\nat 1799999999001\ntoken 18446744073709551615\n\
         slot 1799999940000001\ndone 1799999880000000\nattempts 2\nskipfrom 1799999945000000\n\
         skipuntil 1799999950000000\nowner web 3/1/ab unlocked\n";

    #[test]
    fn the_text_is_frozen() {
        let record = Record::from_text(WHOLE).unwrap();
        assert_eq!(record.owner, "web 3/1/ab unlocked");
        assert_eq!(record.slots.attempts, Some(2));
        assert_eq!(
            record.slots.last.unwrap().as_micros(),
            1_799_999_940_000_001
        );
        assert_eq!(record.fencing_token, Some(u64::MAX));
        assert_eq!(record.to_text(), WHOLE);
    }

    #[test]
    fn words_of_later_versions_are_passed_over() {
        let later = format!("{WHOLE}colour blue\n");
        assert_eq!(
            Record::from_text(&later).unwrap(),
            Record::from_text(WHOLE).unwrap()
        );
    }

    #[test]
    fn an_invalid_record_is_a_conflict() {
        for text in [
            "",
            "{}",
            "shedlock 2\nuntil 1\n",
            "shedlock 1\n",
            "shedlock 1\nuntil soon\n",
            "shedlock 1\nuntil 1\nslot -1\n",
            "shedlock 1\nuntil 1\n\n",
            "shedlock 1\nuntil +1\n",
            "shedlock 1\nuntil 01\n",
            "shedlock 1\nuntil 1\nuntil 2\n",
            "shedlock 1\r\nuntil 1\r\n",
            "shedlock 1\nuntil 1\nowner a\tb\n",
            "shedlock 1\nuntil 1\nskipfrom 1\n",
            "shedlock 1\nuntil 1\nskipuntil 1\n",
        ] {
            let error = Record::from_text(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{text:?}");
        }
    }

    #[test]
    fn an_owner_cannot_write_lines_of_its_own() {
        let mut record = Record::from_text("shedlock 1\nuntil 1\n").unwrap();
        record.owner = "host\ntoken 7".to_owned();
        let read = Record::from_text(&record.to_text()).unwrap();
        assert_eq!(
            (read.owner.as_str(), read.fencing_token),
            ("hosttoken 7", None)
        );
    }
}
