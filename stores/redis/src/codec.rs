//! What is read of a lock: what a script answers, the value of the lock's own key, and the record beside it.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, Value as Reply};
use shedlock_core::{AttemptRequest, Error, Lease, LockName, LockRecord, Owner, Slot, SlotState};
use shedlock_store::{Added, Result, conflict, internal, maybe};

/// What a script returns of a lock: its own key as it was found, the record beside it as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) word: String,
    /// The server's clock; 1970 where there is the word alone.
    pub(crate) now: SystemTime,
    /// The value of the lock's own key, if there is one.
    pub(crate) raw: Option<Vec<u8>>,
    /// The same, read.
    pub(crate) value: Added,
    /// What is left of the key's time in milliseconds; negative where it has no end.
    left: i64,
    /// What the record said of slots before, where an attempt has taken one that may be taken back.
    pub(crate) before: Option<String>,
    kept: Kept,
}

/// The record beside a lock's own key, which lasts when that is gone: two lines of words, `-` for what is not known.
///
/// The first, `{token} {slot} {slot_done} {slot_attempts}`, is of all acquisitions, and may have more words some day;
/// the second, `{at} {until} {owner}`, is of the last one. An unlock adds ` unlocked {until}` to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// Of the last acquisition of ours, with the mark of its unlock.
    owner: String,
    at: Option<SystemTime>,
    until: Option<SystemTime>,
    token: Option<u64>,
    slots: SlotState,
}

impl Found {
    /// Reads the answer of a script: a text, or one with what is left of the lock's own key, and its value. The text is
    /// a word, or a line `{word} {now}` and the record, if there is one.
    /// `Conflict` where the record holds what we do not write.
    pub(crate) fn parse(reply: Reply) -> Result<Self> {
        let (text, left, raw): (Vec<u8>, i64, Vec<u8>) = match reply {
            Reply::BulkString(text) => (text, 0, Vec::new()),
            parts => FromRedisValue::from_redis_value(parts)
                .map_err(|error| malformed().with_source(error))?,
        };
        // A key that ends some day or never is there, though it may hold nothing.
        let raw = Some(raw).filter(|raw| !raw.is_empty() || left != 0);
        let text = std::str::from_utf8(&text).map_err(|error| foreign().with_source(error))?;
        let (head, record) = text.split_once('\n').unwrap_or((text, ""));
        let (word, now) = head.split_once(' ').unwrap_or((head, "0"));
        // An attempt adds a line for what was before.
        let added = record.match_indices('\n').nth(1).map(|(at, _)| at);
        let (record, before) = match added.filter(|_| word == "won") {
            Some(at) => (&record[..at], Some(record[at..].trim_start().to_owned())),
            None => (record, None),
        };
        Ok(Self {
            word: word.to_owned(),
            now: instant(now.parse().map_err(|_| malformed())?),
            value: raw.as_deref().map(value).unwrap_or_default(),
            raw,
            left,
            before,
            kept: Kept::parse(record)?,
        })
    }

    pub(crate) fn is_some(&self) -> bool {
        self.raw.is_some() || self.kept != Kept::default()
    }

    /// Whether the lock's own key names this acquisition.
    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        self.value.owner == owner.as_str()
    }

    /// Whether the lock's own key never ends, which no lock does.
    pub(crate) fn is_endless(&self) -> bool {
        self.raw.is_some() && self.left == -1
    }

    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let (lease, kept) = (Lease::granted(request), &self.kept);
        // The record was deleted since.
        if kept.owner != request.owner().as_str() {
            return lease;
        }
        let lease = lease.with_slot_attempt(request.slot().and(kept.slots.attempts));
        let lease = maybe(lease, kept.at, Lease::with_acquired_at);
        let lease = maybe(lease, kept.until, Lease::with_locked_until);
        maybe(lease, kept.token, Lease::with_fencing_token)
    }

    pub(crate) fn locked_until(&self) -> Option<SystemTime> {
        self.kept.until
    }

    pub(crate) fn record(&self, name: &LockName) -> LockRecord {
        let (kept, value) = (&self.kept, &self.value);
        let is_locked = self.raw.is_some();
        let owner = if is_locked { &value.owner } else { &kept.owner };
        let mut record =
            LockRecord::from_stored(name.clone(), owner, is_locked).with_slots(kept.slots);
        if !is_locked {
            record.locked_at = kept.at;
            // The key may have been deleted before its end.
            record.locked_until = kept.until.map(|until| until.min(self.now));
        } else if value.owner == kept.owner {
            record.locked_at = kept.at.or(value.at);
            record.locked_until = kept.until.or(self.ends());
        } else {
            record.locked_at = value.at;
            record.locked_until = self.ends();
        }
        record.fencing_token = kept.token;
        record.read_at = Some(self.now);
        record
    }

    fn ends(&self) -> Option<SystemTime> {
        let left = u64::try_from(self.left).ok()?;
        self.now.checked_add(Duration::from_millis(left))
    }

    /// The error of an answer that the script has no reason for.
    pub(crate) fn unexpected(&self) -> Error {
        internal(format!(
            "a script answered {:?} against its own rules",
            self.word
        ))
    }
}

/// Reads the value of a lock's own key. ShedLock's owner ends with a random part of its own.
pub(crate) fn value(raw: &[u8]) -> Added {
    let mut value = Added::parse(raw);
    if !Owner::is_ours(&value.owner)
        && let Some(end) = value.owner.rfind(':')
    {
        value.owner.truncate(end);
    }
    value
}

impl Kept {
    /// Reads a record; nothing where there is none.
    /// `Conflict` for what we do not write.
    fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let (lasting, last) = text.split_once('\n').ok_or_else(foreign)?;
        let mut words = lasting.split(' ');
        let token = number(words.next())?;
        let slots = SlotState::new(
            slot(words.next())?,
            slot(words.next())?,
            number(words.next())?,
        );
        let mut words = last.split(' ');
        let at = number(words.next())?;
        let mut until = number(words.next())?;
        let owner = words.next().ok_or_else(foreign)?;
        // What is left is the mark.
        let is_running = words.next().is_none();
        if let Some(ended) = words.next_back() {
            until = number(Some(ended))?;
        }
        Ok(Self {
            owner: if is_running {
                owner.to_owned()
            } else {
                Owner::released_text(owner)
            },
            at: at.map(instant),
            until: until.map(instant),
            token,
            slots,
        })
    }
}

pub(crate) fn instant(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros)
}

/// A whole number; none where there is `-`.
fn number<T: FromStr>(word: Option<&str>) -> Result<Option<T>> {
    match word {
        None => Err(foreign()),
        Some("-") => Ok(None),
        Some(digits) => digits.parse().map(Some).map_err(|_| foreign()),
    }
}

fn slot(word: Option<&str>) -> Result<Option<Slot>> {
    let slot = number(word)?.map(Slot::from_micros).transpose();
    slot.map_err(|error| foreign().with_source(error))
}

fn foreign() -> Error {
    conflict(
        "the record of fencing token and slots beside the lock (its key begins with \
         \"shedlock-rs:\") holds what shedlock does not write there: look at it",
    )
}

/// The server answered, with what is no answer to the question.
pub(crate) fn malformed() -> Error {
    internal("the server's answer cannot be read: is it Redis or Valkey?")
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    const AT: Duration = Duration::from_millis(1_700_000_000_123);

    #[test]
    fn shedlocks_value_tells_host_and_instant() {
        let text = b"ADDED:2023-11-14T22:13:20.123Z@web-3:7f4df1a2-87e5-4b1c-9a59-0d7f6c3b2a10";
        let value = value(text);
        assert_eq!(value.owner, "web-3");
        assert_eq!(value.at, Some(UNIX_EPOCH + AT));
        assert_eq!(value.shedlock_at(), Some(UNIX_EPOCH + AT));
    }

    #[test]
    fn a_record_is_read_while_its_lease_runs_and_when_it_was_ended() {
        let running = "7 10 - 2\n1000 2000 web-3/1/ab";
        let kept = Kept::parse(running).unwrap();
        assert_eq!(kept.owner, "web-3/1/ab");
        assert_eq!((kept.token, kept.slots.attempts), (Some(7), Some(2)));
        assert_eq!(
            (kept.slots.last, kept.slots.done),
            (Slot::from_micros(10).ok(), None)
        );
        assert_eq!(
            (kept.at, kept.until),
            (Some(instant(1000)), Some(instant(2000)))
        );
        let ended = Kept::parse(&format!("{running} unlocked 1500")).unwrap();
        assert_eq!(ended.owner, "web-3/1/ab unlocked");
        assert_eq!(ended.until, Some(instant(1500)));
        let freed = Kept::parse(&format!("{running} unlocked")).unwrap();
        assert_eq!(freed.owner, "web-3/1/ab unlocked");
        assert_eq!(freed.until, Some(instant(2000)));
    }

    #[test]
    fn what_a_later_release_may_keep_is_passed_over() {
        let kept = Kept::parse("7 - - - more words\n- - web-3/1/ab").unwrap();
        assert_eq!((kept.token, kept.at, kept.until), (Some(7), None, None));
    }

    #[test]
    fn what_we_do_not_write_is_told_apart_from_nothing() {
        assert_eq!(Kept::parse("").unwrap(), Kept::default());
        for text in [
            "7",
            "7 - - -",
            "7 - - -\n",
            "many - - -\n1 2 a/b/c",
            "7 - -\n1 2 a/b/c",
            "7 - - -\n1 2",
            "7 - - -\n1 2 a/b/c unlocked then",
        ] {
            let error = Kept::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{text:?}");
        }
    }
}
