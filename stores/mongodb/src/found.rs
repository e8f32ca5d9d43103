//! What a document says of its lock.

use std::time::SystemTime;

use mongodb::bson::{Bson, Document};
use shedlock_core::{
    AttemptRequest, Error, ErrorKind, Lease, LockName, LockRecord, Owner, Slot, SlotState,
};

use crate::expression::{AT, ATTEMPTS, BY, DONE, SLOT, TOKEN, UNTIL};
use crate::time::instant;

/// A lock's document.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// When the lock is, or became, free.
    pub(crate) until: SystemTime,
    at: Option<SystemTime>,
    /// As stored: with the mark of an unlock, or ShedLock's host; none where the field is missing.
    pub(crate) owner: Option<String>,
    token: Option<u64>,
    /// What is kept of the slots.
    pub(crate) slots: SlotState,
}

impl Found {
    /// Reads a document.
    ///
    /// # Errors
    /// `Conflict` where a field is of a type that is never written there: ShedLock would hold such
    /// a lock for ever.
    pub(crate) fn parse(document: &Document) -> Result<Self, Error> {
        let until = date(document, UNTIL)?.ok_or_else(|| foreign(document, UNTIL))?;
        let owner = match document.get(BY) {
            None | Some(Bson::Null) => None,
            Some(Bson::String(owner)) => Some(owner.clone()),
            Some(_) => return Err(foreign(document, BY)),
        };
        let slot = |field| {
            let micros = number(document, field)?;
            let slot = micros.map(Slot::from_micros).transpose();
            slot.map_err(|_| foreign(document, field))
        };
        let attempts = number(document, ATTEMPTS)?.map(u32::try_from).transpose();
        let token = number(document, TOKEN)?.map(u64::try_from).transpose();
        Ok(Self {
            until,
            at: date(document, AT)?,
            owner,
            token: token.map_err(|_| foreign(document, TOKEN))?,
            slots: SlotState::new(
                slot(SLOT)?,
                slot(DONE)?,
                attempts.map_err(|_| foreign(document, ATTEMPTS))?,
            ),
        })
    }

    /// Whether it names this owner, whose lease has not been given back.
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        self.owner.as_deref() == Some(owner.as_str())
    }

    /// Whether this owner has given it back, and no other has taken it since.
    pub(crate) fn is_released_by(&self, owner: &Owner) -> bool {
        self.owner.as_deref() == Some(&owner.released())
    }

    /// When ShedLock acquired it, if it was the last to do so.
    pub(crate) fn shedlock_at(&self) -> Option<SystemTime> {
        let is_ours = self.owner.as_deref().is_some_and(Owner::is_ours);
        self.at.filter(|_| !is_ours)
    }

    /// The lease that this request has won, now or before.
    pub(crate) fn lease(&self, request: &AttemptRequest) -> Lease {
        let mut lease = Lease::granted(request)
            .with_locked_until(self.until)
            .with_slot_attempt(request.slot().and(self.slots.attempts));
        if let Some(at) = self.at {
            lease = lease.with_acquired_at(at);
        }
        match self.token {
            Some(token) => lease.with_fencing_token(token),
            None => lease,
        }
    }

    /// The record of the lock.
    pub(crate) fn record(&self, name: &LockName, is_locked: bool) -> LockRecord {
        let owner = self.owner.as_deref().unwrap_or_default();
        let mut record =
            LockRecord::from_stored(name.clone(), owner, is_locked).with_slots(self.slots);
        record.locked_at = self.at;
        record.locked_until = Some(self.until);
        record.fencing_token = self.token;
        record
    }
}

/// A document, and the judging clock when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) found: Found,
    pub(crate) now: SystemTime,
}

impl Seen {
    pub(crate) fn is_locked(&self) -> bool {
        self.found.until > self.now
    }

    pub(crate) fn record(&self, name: &LockName) -> LockRecord {
        let mut record = self.found.record(name, self.is_locked());
        record.read_at = Some(self.now);
        record
    }
}

fn date(document: &Document, field: &str) -> Result<Option<SystemTime>, Error> {
    match document.get(field) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::DateTime(date)) => Ok(Some(instant(*date))),
        Some(_) => Err(foreign(document, field)),
    }
}

/// A whole number; the shell may have written it as a double.
fn number(document: &Document, field: &str) -> Result<Option<i64>, Error> {
    match document.get(field) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::Int64(number)) => Ok(Some(*number)),
        Some(Bson::Int32(number)) => Ok(Some((*number).into())),
        Some(Bson::Double(number)) if number.fract() == 0.0 && number.abs() < 9.0e15 =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
            Ok(Some(*number as i64))
        }
        Some(_) => Err(foreign(document, field)),
    }
}

fn foreign(document: &Document, field: &str) -> Error {
    let holds = document.get(field).map_or_else(
        || "is missing".to_owned(),
        |value| format!("is of the type {:?}", value.element_type()),
    );
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the lock's document is none that shedlock or ShedLock writes: its field {field:?} \
             {holds}; find out whose it is, and mend or delete it, or use another collection"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{DateTime, doc};
    use std::time::{Duration, UNIX_EPOCH};

    fn at(millis: i64) -> DateTime {
        DateTime::from_millis(millis)
    }

    #[test]
    fn shedlocks_document_is_a_lock() {
        let found = Found::parse(&doc! {
            "_id": "job", "lockUntil": at(2_000), "lockedAt": at(1_000), "lockedBy": "web-3",
        })
        .unwrap();
        assert_eq!(found.until, UNIX_EPOCH + Duration::from_secs(2));
        assert_eq!(
            found.shedlock_at(),
            Some(UNIX_EPOCH + Duration::from_secs(1))
        );
        assert_eq!(found.slots, SlotState::default());
    }

    #[test]
    fn what_is_never_written_there_is_a_conflict() {
        let good = doc! { "lockUntil": at(1), "lockedAt": at(1), "lockedBy": "h/1/ab" };
        assert!(Found::parse(&good).unwrap().shedlock_at().is_none());
        for (field, value) in [
            ("lockUntil", Bson::String("2020-01-01".to_owned())),
            ("lockUntil", Bson::Null),
            ("lockedAt", Bson::Int64(1)),
            ("lockedBy", Bson::Boolean(true)),
            ("shedlockFencingToken", Bson::Int64(-1)),
            ("shedlockFencingToken", Bson::Double(0.5)),
            ("shedlockSlot", Bson::String("1".to_owned())),
            ("shedlockSlotAttempts", Bson::Int64(i64::MAX)),
        ] {
            let mut bad = good.clone();
            bad.insert(field, value);
            let error = Found::parse(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{field}");
            assert!(error.message().contains(field), "{error}");
        }
    }

    #[test]
    fn numbers_that_the_shell_wrote_are_read() {
        let document =
            doc! { "lockUntil": at(1), "shedlockSlot": 7_i32, "shedlockFencingToken": 8.0 };
        let found = Found::parse(&document).unwrap();
        assert_eq!(found.slots.last.unwrap().as_micros(), 7);
        assert_eq!(found.token, Some(8));
    }
}
