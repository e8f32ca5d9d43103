//! What a script answers.

use std::time::{Duration, SystemTime};

use redis::Value as Reply;
use shedlock_core::{
    AttemptRequest, Error, ErrorKind, Lease, LockName, LockRecord, Owner, SlotState,
};

use crate::kept::{Kept, foreign, instant};
use crate::value::Value;

/// What a script tells of a lock: its own key as it was found, the record beside it as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// What was done.
    pub(crate) word: String,
    /// The server's clock, where it tells more than the word.
    pub(crate) now: SystemTime,
    /// The value of the lock's own key, if there is one.
    pub(crate) raw: Option<Vec<u8>>,
    /// What is left of its time in milliseconds; negative where it has no end.
    left: i64,
    /// What the record said of slots before, where an attempt has taken one that may be taken back.
    pub(crate) before: Option<String>,
    kept: Kept,
}

impl Found {
    /// Reads the answer of a script: a text, or one with what is left of the lock's own key, and its
    /// value. The text is a word, or a line `{word} {now}` and the record, if there is one.
    ///
    /// # Errors
    /// `Conflict` where the record holds what we do not write.
    pub(crate) fn parse(reply: Reply) -> Result<Self, Error> {
        let (text, left, raw) = match reply {
            Reply::BulkString(text) => (text, 0, None),
            Reply::Array(parts) => match <[Reply; 3]>::try_from(parts) {
                Ok(
                    [
                        Reply::BulkString(text),
                        Reply::Int(left),
                        Reply::BulkString(raw),
                    ],
                ) => (text, left, Some(raw)),
                _ => return Err(malformed()),
            },
            _ => return Err(malformed()),
        };
        let text = std::str::from_utf8(&text).map_err(|error| foreign().with_source(error))?;
        let (head, record) = text.split_once('\n').unwrap_or((text, ""));
        let (word, now) = head.split_once(' ').unwrap_or((head, "0"));
        // An attempt adds a line for what was before.
        let before = (word == "won")
            .then(|| record.match_indices('\n').nth(1))
            .flatten()
            .map(|(at, _)| record.split_at(at));
        let (record, before) = before.map_or((record, None), |(record, rest)| {
            (record, Some(rest.trim_start().to_owned()))
        });
        Ok(Self {
            word: word.to_owned(),
            now: instant(now.parse().map_err(|_| malformed())?),
            raw: raw.filter(|raw| !raw.is_empty()),
            left,
            before,
            kept: Kept::parse(record)?,
        })
    }

    /// Whether there is anything at all.
    pub(crate) fn is_some(&self) -> bool {
        self.raw.is_some() || self.kept != Kept::default()
    }

    /// What the lock's own key says.
    pub(crate) fn value(&self) -> Value {
        self.raw.as_deref().map(Value::parse).unwrap_or_default()
    }

    /// Whether the lock's own key names this acquisition.
    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        self.value().owner == owner.as_str()
    }

    /// Whether the lock's own key never ends, which no lock does.
    pub(crate) fn is_endless(&self) -> bool {
        self.raw.is_some() && self.left == -1
    }

    /// What is kept of the slots.
    pub(crate) fn slots(&self) -> SlotState {
        self.kept.slots
    }

    /// The lease that this request has won, now or before.
    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let mut lease = Lease::granted(request);
        // Otherwise somebody has deleted the record since.
        if self.kept.owner == request.owner().as_str() {
            let attempts = request.slot().and(self.kept.slots.attempts);
            lease = lease.with_slot_attempt(attempts);
            if let Some(at) = self.kept.at {
                lease = lease.with_acquired_at(at);
            }
            if let Some(until) = self.kept.until {
                lease = lease.with_locked_until(until);
            }
            if let Some(token) = self.kept.token {
                lease = lease.with_fencing_token(token);
            }
        }
        lease
    }

    /// When the lease that was just extended ends.
    pub(crate) fn locked_until(&self) -> Option<SystemTime> {
        self.kept.until
    }

    /// The record of the lock.
    pub(crate) fn record(&self, name: &LockName) -> LockRecord {
        let value = self.value();
        let is_locked = self.raw.is_some();
        let owner = if is_locked {
            &value.owner
        } else {
            &self.kept.owner
        };
        let mut record =
            LockRecord::from_stored(name.clone(), owner, is_locked).with_slots(self.kept.slots);
        if !is_locked {
            record.locked_at = self.kept.at;
            // The key may have been deleted before its end.
            record.locked_until = self.kept.until.map(|until| until.min(self.now));
        } else if value.owner == self.kept.owner {
            record.locked_at = self.kept.at.or(value.at);
            record.locked_until = self.kept.until.or(self.ends());
        } else {
            record.locked_at = value.at;
            record.locked_until = self.ends();
        }
        record.fencing_token = self.kept.token;
        record.read_at = Some(self.now);
        record
    }

    /// When the lock's own key ends.
    fn ends(&self) -> Option<SystemTime> {
        let left = u64::try_from(self.left).ok()?;
        self.now.checked_add(Duration::from_millis(left))
    }
}

fn malformed() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the server's answer cannot be read: is it Redis or Valkey?",
    )
}
