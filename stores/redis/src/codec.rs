//! Reads the state of a lock: the reply of a script, the value of the lock's own key, and the record next to it.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, Value as Reply};
use shedlock_core::{
    AttemptRequest, Error, Lease, LockName, LockRecord, Owner, Pause, SkippedSlots, Slot, SlotState,
};
use shedlock_provider::{Added, Result, conflict, internal, maybe};

/// What a script returns about a lock: its own key as it was found, and the record next to it as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) word: String,
    /// The server's clock; 1970 if the reply is only a word.
    pub(crate) now: SystemTime,
    /// The value of the lock's own key, if the key exists.
    pub(crate) raw: Option<Vec<u8>>,
    /// The parsed value of the lock's own key.
    pub(crate) value: Added,
    /// The key's remaining time to live in milliseconds; negative if it does not expire.
    left: i64,
    /// The slots in the record before the attempt, if the attempt took a slot that may be given back.
    pub(crate) before: Option<String>,
    kept: Kept,
    /// The record next to the lock's own key as it is stored, if the reply is that of a look.
    pub(crate) stored: Option<String>,
}

/// The record next to a lock's own key. It outlasts the key. It has two lines of words, with `-` for unknown values.
///
/// The first, `{token} {slot} {slot_done} {slot_attempts}`, covers all acquisitions. The slots that a pause skips,
/// ` {skip_from} {skip_until}`, follow if there are any. Later versions may append words to it. The second, `{at} {until}
/// {owner}`, describes the last acquisition. An unlock appends ` unlocked {until}` to it, and a forced one ` freed`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// The owner of our last acquisition, with the mark if it was unlocked.
    owner: String,
    at: Option<SystemTime>,
    until: Option<SystemTime>,
    token: Option<u64>,
    slots: SlotState,
}

impl Found {
    /// Reads the reply of a script: a text, or a text with the remaining time of the lock's own key and its value. The
    /// text is a word, or a line `{word} {now}` followed by the record, if there is one. Returns `Conflict` if the
    /// record contains something that we do not write.
    pub(crate) fn parse(reply: Reply) -> Result<Self> {
        let (text, left, raw): (Vec<u8>, i64, Vec<u8>) = match reply {
            Reply::BulkString(text) => (text, 0, Vec::new()),
            parts => FromRedisValue::from_redis_value(parts)
                .map_err(|error| malformed().with_source(error))?,
        };
        // A remaining time other than zero means that the key exists, even if its value is empty.
        let raw = Some(raw).filter(|raw| !raw.is_empty() || left != 0);
        let text = std::str::from_utf8(&text).map_err(|error| foreign().with_source(error))?;
        let (head, record) = text.split_once('\n').unwrap_or((text, ""));
        let (word, now) = head.split_once(' ').unwrap_or((head, "0"));
        // A won attempt may append a line with the slots before it.
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
            stored: (word == "seen").then(|| record.to_owned()),
        })
    }

    pub(crate) fn is_some(&self) -> bool {
        self.raw.is_some() || self.kept != Kept::default()
    }

    /// Whether the lock's own key contains this owner.
    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        self.value.owner == owner.as_str()
    }

    /// Whether the lock's own key never expires, which is never true for a lock.
    pub(crate) fn is_endless(&self) -> bool {
        self.raw.is_some() && self.left == -1
    }

    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let (lease, kept) = (Lease::granted(request), &self.kept);
        // The record was deleted since.
        if kept.owner != request.owner.as_str() {
            return lease;
        }
        let lease = lease.with_slot_attempt(request.slot.and(kept.slots.attempts));
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
        // The record has no room for the reason of a pause.
        let pause = Pause::parse(&value.owner);
        let is_own = pause.map_or(&*value.owner, |pause| pause.id()) == kept.owner;
        let mut record =
            LockRecord::from_stored(name.clone(), owner, is_locked).with_slots(kept.slots);
        if !is_locked {
            record.locked_at = kept.at;
            // The key may have been deleted before its end.
            record.locked_until = kept.until.map(|until| until.min(self.now));
        } else if is_own {
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

    /// The error for a reply that the script cannot return at this point.
    pub(crate) fn unexpected(&self) -> Error {
        internal(format!(
            "a script returned the unexpected reply {:?}",
            self.word
        ))
    }
}

/// Parses the value of a lock's own key. ShedLock's owner ends with a random part, which differs per acquisition.
pub(crate) fn value(raw: &[u8]) -> Added {
    let mut value = Added::parse(raw);
    if !Owner::is_ours(&value.owner)
        && let Some(end) = value.owner.rfind(':')
    {
        value.owner.truncate(end);
    }
    value
}

/// Returns the words of the slots in this record: those after the token.
pub(crate) fn slots_of(record: &str) -> &str {
    let line = record.split('\n').next().unwrap_or_default();
    line.split_once(' ').map_or("- - -", |(_, words)| words)
}

/// Returns the words of these slots, with the words of later versions in those that they replace.
pub(crate) fn words(slots: &SlotState, replaced: &str) -> String {
    let slot = |slot: Option<Slot>| match slot {
        Some(slot) => slot.as_micros().to_string(),
        None => "-".to_owned(),
    };
    let attempts = slots.attempts.map(|made| made.to_string());
    let mut words = vec![
        slot(slots.last),
        slot(slots.done),
        attempts.unwrap_or("-".to_owned()),
    ];
    let later: Vec<_> = replaced.split(' ').skip(5).map(str::to_owned).collect();
    if slots.skipped.is_some() || !later.is_empty() {
        words.push(slot(slots.skipped.map(|it| it.from)));
        words.push(slot(slots.skipped.map(|it| it.until)));
    }
    words.extend(later);
    words.join(" ")
}

impl Kept {
    /// Parses a record; the default if there is none. Returns `Conflict` for anything that we do not write.
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
        let skipped = match words.next() {
            None => None,
            from => slot(from)?.zip(slot(words.next())?),
        };
        let slots = slots.with_skipped(skipped.map(|(from, until)| SkippedSlots::new(from, until)));
        let mut words = last.split(' ');
        let at = number(words.next())?;
        let mut until = number(words.next())?;
        let owner = words.next().ok_or_else(foreign)?;
        let owner = match words.next() {
            None => owner.to_owned(),
            Some("freed") => Owner::freed_text(owner),
            Some(_) => Owner::released_text(owner),
        };
        if let Some(ended) = words.next_back() {
            until = number(Some(ended))?;
        }
        Ok(Self {
            owner,
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

/// An integer; `None` for `-`.
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
        "the lock's companion record (its key begins with \"shedlock-rs:\") holds a value that \
             shedlock never writes",
    )
    .advise("check what wrote it")
}

/// The error for a server's reply that does not fit the request.
pub(crate) fn malformed() -> Error {
    internal("cannot parse the server's reply").advise("check that the server is Redis or Valkey")
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    const AT: Duration = Duration::from_millis(1_700_000_000_123);

    #[test]
    fn shedlocks_value_contains_host_and_instant() {
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
        let freed = Kept::parse(&format!("{running} freed")).unwrap();
        assert_eq!(freed.owner, "web-3/1/ab freed");
        assert_eq!(freed.until, Some(instant(2000)));
        assert_eq!(ended.slots.skipped, None);
    }

    #[test]
    fn what_a_later_release_may_keep_is_passed_over() {
        let kept = Kept::parse("7 - - - - - more words\n- - web-3/1/ab").unwrap();
        assert_eq!((kept.token, kept.at, kept.until), (Some(7), None, None));
        assert_eq!(
            words(&kept.slots, "- - - - - more words"),
            "- - - - - more words"
        );
    }

    #[test]
    fn the_slots_that_a_pause_skips_follow_the_other_words() {
        let text = "7 10 - 2 20 30\n- - web-3/1/ab";
        let kept = Kept::parse(text).unwrap();
        let slot = |micros| Slot::from_micros(micros).unwrap();
        let skipped = SkippedSlots::new(slot(20), slot(30));
        assert_eq!(kept.slots.skipped, Some(skipped));
        assert_eq!(words(&kept.slots, slots_of(text)), "10 - 2 20 30");
        assert_eq!(words(&kept.slots.caught_up(), slots_of(text)), "10 - 2");
        assert_eq!(slots_of(""), "- - -");
    }

    #[test]
    fn what_we_never_write_is_distinguished_from_no_record() {
        assert_eq!(Kept::parse("").unwrap(), Kept::default());
        for text in [
            "7",
            "7 - - -",
            "7 - - -\n",
            "many - - -\n1 2 a/b/c",
            "7 - -\n1 2 a/b/c",
            "7 - - -\n1 2",
            "7 - - -\n1 2 a/b/c unlocked then",
            "7 - - - 1\n1 2 a/b/c",
            "7 - - - more words\n1 2 a/b/c",
        ] {
            let error = Kept::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{text:?}");
        }
    }
}
