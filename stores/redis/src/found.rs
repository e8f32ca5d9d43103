//! What a script answers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    AttemptRequest, Error, ErrorKind, Lease, LockName, LockRecord, Owner, Skip, Slot, SlotState,
};

use crate::value::Value;

/// All that a script knows of a lock: its own key as it was found, the hash as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// What was done.
    pub(crate) word: String,
    /// The server's clock.
    pub(crate) now: SystemTime,
    /// The value of the lock's own key, if there is one.
    pub(crate) raw: Option<Vec<u8>>,
    /// What is left of its time in milliseconds; negative where it has no end.
    left: i64,
    /// The slot before and its attempts, as they are written, where an attempt has taken one that
    /// may be taken back.
    pub(crate) before: Option<(String, String)>,
    kept: Kept,
}

/// The hash beside the lock.
#[derive(Clone, Debug, Default)]
struct Kept {
    owner: String,
    at: Option<SystemTime>,
    until: Option<SystemTime>,
    token: Option<u64>,
    slots: SlotState,
}

impl Found {
    /// Reads the answer of a script.
    ///
    /// # Errors
    /// `Conflict` where the hash holds what we do not write.
    pub(crate) fn parse(reply: &[Vec<u8>]) -> Result<Self, Error> {
        let [
            word,
            now,
            raw,
            left,
            owner,
            at,
            until,
            token,
            slot,
            done,
            attempts,
            before @ ..,
        ] = reply
        else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("a script answered with {} parts", reply.len()),
            ));
        };
        let kept = Kept {
            owner: text(owner)?.to_owned(),
            at: number(at)?.map(instant),
            until: number(until)?.map(instant),
            token: number(token)?,
            slots: SlotState::new(
                number(slot)?.map(Slot::from_micros).transpose()?,
                number(done)?.map(Slot::from_micros).transpose()?,
                number(attempts)?,
            ),
        };
        Ok(Self {
            word: text(word)?.to_owned(),
            now: instant(number(now)?.unwrap_or_default()),
            raw: (!raw.is_empty()).then(|| raw.clone()),
            left: number(left)?.unwrap_or_default(),
            before: match before {
                [slot, attempts] => Some((text(slot)?.to_owned(), text(attempts)?.to_owned())),
                _ => None,
            },
            kept,
        })
    }

    /// Whether there is anything at all.
    pub(crate) fn is_some(&self) -> bool {
        self.raw.is_some() || !self.kept.owner.is_empty() || self.kept.slots != SlotState::default()
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
        // Otherwise somebody has deleted the hash since.
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

    /// The skip of an attempt that the record stands in the way of.
    pub(crate) fn skip(&self, name: &LockName) -> Skip {
        self.record(name).as_skip()
    }

    /// When the lock's own key ends.
    fn ends(&self) -> Option<SystemTime> {
        let left = u64::try_from(self.left).ok()?;
        self.now.checked_add(Duration::from_millis(left))
    }
}

fn instant(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros)
}

fn text(part: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(part).map_err(|error| foreign().with_source(error))
}

/// A whole number; none where the part is empty.
fn number<T: std::str::FromStr>(part: &[u8]) -> Result<Option<T>, Error> {
    let part = text(part)?;
    if part.is_empty() {
        return Ok(None);
    }
    part.parse().map(Some).map_err(|_| foreign())
}

fn foreign() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the hash of fencing token and slots beside the lock (its key begins with \
         \"shedlock-rs:\") holds what shedlock does not write there: look at it",
    )
}
