//! The contents of a bucket's messages.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::time::{SystemTime, UNIX_EPOCH};

use async_nats::HeaderMap;
use bytes::Bytes;
use shedlock_core::{Error, Owner, SlotState};
use shedlock_provider::{Record, Result, conflict, whole_millis};

const HEADER: &str = "Shedlock-";

const BESIDE: &str = "shedlock-nats 1 before ";

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) sequence: u64,
    pub(crate) time: SystemTime,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) data: Vec<u8>,
}

impl Message {
    /// Reads the record from this message alone, and whether we wrote the message.
    pub(crate) fn record(&self) -> Result<(Record, bool)> {
        if self.headers.iter().any(|(name, _)| name == "KV-Operation") {
            // ShedLock deletes the key when it unlocks: it held the lock before.
            let mut record = Record::until(whole_millis(self.time));
            record.locked_at = Some(whole_millis(self.time));
            record.owner = Owner::released_text("");
            return Ok((record, false));
        }
        let value = <[u8; 8]>::try_from(&self.data[..]).map_err(|_| self.foreign())?;
        let until = u64::try_from(i64::from_be_bytes(value)).unwrap_or_default();
        let mut text = format!("shedlock 1\nuntil {until}\n");
        let mut is_ours = false;
        for (name, value) in &self.headers {
            let word = name.strip_prefix(HEADER);
            let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
            if let Some(word) = word.filter(is_word) {
                is_ours = true;
                let word = word.to_ascii_lowercase();
                // Without an owner, the blank before the mark of an end is lost in transit.
                let is_mark_alone =
                    word == "owner" && Owner::without_mark(&format!(" {value}")).is_empty();
                let blank = if is_mark_alone { " " } else { "" };
                text.push_str(&format!("{word} {blank}{value}\n"));
            }
        }
        let mut record = Record::from_text(&text)?;
        if !is_ours {
            record.locked_at = Some(whole_millis(self.time));
        }
        Ok((record, is_ours))
    }

    fn foreign(&self) -> Error {
        conflict(format!(
            "the key contains {} bytes, but a lock has 8",
            self.data.len()
        ))
        .advise("check what wrote it, then delete it or use another name")
    }
}

/// What a running lease reserves in its message. A bucket that is full still accepts a message that is no larger than the
/// one that it replaces, and an end adds its mark and the slot that is done.
const SPARE: &str = "................................................................";

pub(crate) fn message(record: &Record) -> (Bytes, HeaderMap) {
    let until = i64::try_from(record.until_millis()).unwrap_or(i64::MAX);
    let mut headers = HeaderMap::new();
    for line in record.to_text().lines().skip(2) {
        if let Some((word, value)) = line.split_once(' ') {
            let (first, rest) = word.split_at(1);
            let name = format!("{HEADER}{}{rest}", first.to_ascii_uppercase());
            headers.insert(name, value);
        }
    }
    if Owner::is_ours(&record.owner) && !Owner::is_released(&record.owner) {
        headers.insert(format!("{HEADER}Spare"), SPARE);
    }
    (Bytes::copy_from_slice(&until.to_be_bytes()), headers)
}

/// The companion record of a lock: token and slots, in case ShedLock overwrites the headers.
///
/// It is written before the lock itself is taken. It therefore contains both the previous state and the state after a
/// successful acquisition.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// The sequence of the lock's message that the acquisition was based on.
    pub(crate) based_on: u64,
    pub(crate) was: Record,
    pub(crate) taken: Record,
}

/// Identifies the messages that a record was read from. The default means that there are none.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The sequence of the lock's message; 0 if there is none.
    pub(crate) lock: u64,
    /// The sequence of the companion message; 0 if there is none.
    pub(crate) beside: u64,
    /// The record's fencing token, which the companion message contains as well.
    pub(crate) token: Option<u64>,
    pub(crate) slots: SlotState,
    /// Whether token and slots come from the companion message rather than from the lock's own.
    pub(crate) is_from_beside: bool,
    /// An announced acquisition in the companion message that may still happen. The next write of that message must
    /// carry it over.
    pub(crate) pending: Option<Beside>,
    /// The connection over which the record was read or written.
    pub(crate) connection: u64,
}

/// Only the lock's own message counts. If it is unchanged after a write whose reply was lost, that write may still
/// arrive, even if the write of the companion message has arrived.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.lock == other.lock
    }
}

/// Returns the part of a record that the companion message contains.
pub(crate) fn kept(token: Option<u64>, slots: SlotState) -> Record {
    let mut record = Record::until(UNIX_EPOCH);
    record.fencing_token = token;
    record.slots = slots;
    record
}

impl Beside {
    /// Returns this announcement if its acquisition may still happen. `sequence` is that of the lock's message. Once it
    /// is larger than the sequence that the acquisition was based on, the lock was taken or can no longer be taken this
    /// way.
    pub(crate) fn pending(&self, sequence: u64) -> Option<Self> {
        let is_deleted = sequence == 0 && self.based_on > 0;
        (self.based_on >= sequence && !is_deleted).then(|| self.clone())
    }

    /// Carries over a pending acquisition that this one overwrites. The pending one may still win, so the result
    /// contains the larger slot and the larger token of both.
    pub(crate) fn carrying(mut self, pending: &Self) -> Self {
        self.based_on = self.based_on.max(pending.based_on);
        let token = self.taken.fencing_token.max(pending.taken.fencing_token);
        let (own, other) = (self.taken.slots, pending.taken.slots);
        let attempts = match own.last.cmp(&other.last) {
            Less => other.attempts,
            Greater => own.attempts,
            // The slot is used up if either acquisition uses it up.
            Equal => own.attempts.zip(other.attempts).map(|(a, b)| a.max(b)),
        };
        // Whichever acquisition happens clears what a pause has skipped, or leaves it. What both leave stays.
        let skipped = own.skipped.filter(|_| own.skipped == other.skipped);
        let slots = SlotState::new(own.last.max(other.last), own.done.max(other.done), attempts)
            .with_skipped(skipped);
        self.taken = kept(token, slots);
        self
    }

    pub(crate) fn to_text(&self) -> String {
        let (was, taken) = (self.was.to_text(), self.taken.to_text());
        format!("{BESIDE}{}\n{was}\n{taken}", self.based_on)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let read = || {
            let text = std::str::from_utf8(bytes).ok()?;
            let (first, rest) = text.strip_prefix(BESIDE)?.split_once('\n')?;
            let (was, taken) = rest.split_once("\n\n")?;
            Some(Self {
                based_on: first.parse().ok()?,
                was: Record::from_text(was).ok()?,
                taken: Record::from_text(taken).ok()?,
            })
        };
        read().ok_or_else(|| {
            conflict("the lock's companion key was not written by any version of this crate")
                .advise("check what wrote it, then delete it")
        })
    }

    /// Adds token and slots to a record that ShedLock wrote, whose message has this sequence.
    pub(crate) fn complete(&self, record: &mut Record, sequence: u64) {
        // If the message is still the previous one, the lock has not been taken, or not yet.
        let known = if sequence == self.based_on {
            &self.was
        } else {
            &self.taken
        };
        record.slots = known.slots;
        record.fencing_token = self.was.fencing_token.max(self.taken.fencing_token);
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;
    use std::time::Duration;

    const OURS: &str = "shedlock 1\nuntil 1800000000999\nat 1799999999001\ntoken 18\n\
        slot 1799999940000001\ndone 1799999880000000\nattempts 2\nowner web/1/ab unlocked\n";

    /// The message as the server returns it.
    fn stored(record: &Record) -> Message {
        let (data, headers) = message(record);
        let headers = headers.iter().map(|(name, values)| {
            let value = values[0].to_string().trim().to_owned();
            (name.to_string(), value)
        });
        Message {
            sequence: 7,
            time: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            headers: headers.collect(),
            data: data.to_vec(),
        }
    }

    #[test]
    fn the_value_is_shedlocks_and_the_headers_hold_the_rest() {
        let record = Record::from_text(OURS).unwrap();
        let message = stored(&record);
        assert_eq!(message.data, 1_800_000_000_999_i64.to_be_bytes());
        let owner = ("Shedlock-Owner".to_owned(), "web/1/ab unlocked".to_owned());
        assert!(message.headers.contains(&owner), "{message:?}");
        assert_eq!(message.record().unwrap(), (record, true));
    }

    /// A bucket that is full accepts no larger message.
    #[test]
    fn the_end_of_a_lease_is_no_larger_than_the_lease() {
        let size = |record: &Record| {
            let headers = message(record).1;
            let length = |(name, values): (_, &Vec<async_nats::HeaderValue>)| {
                format!("{name}: {}", values[0].as_str()).len()
            };
            headers.iter().map(length).sum::<usize>()
        };
        let ended = Record::from_text(OURS).unwrap();
        let mut held = ended.clone();
        held.owner = "web/1/ab".to_owned();
        held.slots.done = None;
        assert!(size(&ended) <= size(&held));
        assert_eq!(stored(&held).record().unwrap(), (held, true));
    }

    #[test]
    fn a_lock_of_shedlock_that_was_freed_by_force_is_free_and_has_no_owner() {
        let mut record = Record::from_text("shedlock 1\nuntil 5\nat 4\n").unwrap();
        for owner in [Owner::freed_text(""), Owner::released_text("")] {
            record.owner = owner;
            let read = stored(&record).record().unwrap();
            assert_eq!(read, (record.clone(), true));
            assert!(Owner::is_released(&read.0.owner));
        }
    }

    #[test]
    fn shedlocks_own_messages_say_their_end_and_when_they_were_written() {
        let mut message = stored(&Record::until(UNIX_EPOCH + Duration::from_millis(5)));
        let (record, is_ours) = message.record().unwrap();
        assert!(!is_ours);
        assert_eq!(record.locked_at, Some(message.time));
        assert_eq!(record.until_millis(), 5);
        message.headers = vec![("KV-Operation".to_owned(), "DEL".to_owned())];
        message.data.clear();
        let (record, is_ours) = message.record().unwrap();
        assert!(!is_ours && Owner::is_released(&record.owner));
        message.headers.clear();
        assert_eq!(message.record().unwrap_err().kind(), ErrorKind::Conflict);
    }

    #[test]
    fn a_companion_reveals_an_acquisition_that_never_happened() {
        let was = Record::from_text("shedlock 1\nuntil 0\ntoken 7\nslot 1\n").unwrap();
        let taken = Record::from_text("shedlock 1\nuntil 0\ntoken 9\nslot 2\n").unwrap();
        let beside = Beside {
            based_on: 5,
            was,
            taken,
        };
        let read = Beside::from_bytes(beside.to_text().as_bytes()).unwrap();
        for (sequence, slot) in [(5, 1), (6, 2)] {
            let mut record = Record::until(UNIX_EPOCH);
            read.complete(&mut record, sequence);
            assert_eq!(record.slots.last.unwrap().as_micros(), slot);
            assert_eq!(record.fencing_token, Some(9));
        }
        assert!(Beside::from_bytes(b"mine").is_err());
    }

    #[test]
    fn an_announced_taking_is_carried_over_while_it_may_come() {
        let beside = |based_on, taken: &str| Beside {
            based_on,
            was: Record::from_text("shedlock 1\nuntil 0\ntoken 7\nslot 100\n").unwrap(),
            taken: Record::from_text(&format!("shedlock 1\nuntil 0\n{taken}")).unwrap(),
        };
        let announced = beside(5, "token 9\nslot 200\nattempts 1\n");
        // The lock has changed since, or was deleted by hand.
        assert!(announced.pending(6).is_none() && announced.pending(0).is_none());
        assert!(beside(0, "slot 200\n").pending(0).is_some());
        for (sequence, own, taken, based_on) in [
            (
                5,
                "token 8\nslot 150\n",
                "token 9\nslot 200\nattempts 1\n",
                5,
            ),
            (5, "token 10\nslot 250\n", "token 10\nslot 250\n", 5),
            (5, "token 8\n", "token 9\nslot 200\nattempts 1\n", 5),
            // Used up in one of the two.
            (5, "token 8\nslot 200\n", "token 9\nslot 200\n", 5),
            (
                5,
                "slot 200\nattempts 2\n",
                "token 9\nslot 200\nattempts 2\n",
                5,
            ),
            // A lock that was read before the state that the other acquisition is based on.
            (
                3,
                "token 8\nslot 150\n",
                "token 9\nslot 200\nattempts 1\n",
                5,
            ),
        ] {
            let pending = announced.pending(sequence).unwrap();
            let next = beside(sequence, own).carrying(&pending);
            assert_eq!(next.taken, beside(0, taken).taken, "{own}");
            assert_eq!(next.based_on, based_on, "{own}");
        }
    }
}
