//! The content of a lock's document.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mongodb::bson::{Bson, DateTime, Document};
use shedlock_core::{Error, LockName, LockRecord, SkippedSlots, Slot, SlotState};
use shedlock_provider::{Record, Result, conflict, internal};

// ShedLock's fields: the end, the start of the last acquisition, the owner.
pub(crate) const UNTIL: &str = "lockUntil";
pub(crate) const AT: &str = "lockedAt";
pub(crate) const BY: &str = "lockedBy";
// Our fields: the fencing token of our last acquisition, the last slot that was taken, the last slot that is done, and
// the attempts at an unfinished last slot that must not be lost, and the slots that a pause skips.
pub(crate) const TOKEN: &str = "shedlockFencingToken";
pub(crate) const SLOT: &str = "shedlockSlot";
pub(crate) const DONE: &str = "shedlockSlotDone";
pub(crate) const ATTEMPTS: &str = "shedlockSlotAttempts";
pub(crate) const SKIP_FROM: &str = "shedlockSkipFrom";
pub(crate) const SKIP_UNTIL: &str = "shedlockSkipUntil";

/// The precision to which the current time, and with it every instant of a document, is truncated.
pub(crate) const RESOLUTION: Duration = Duration::from_millis(1);

/// A document, and the time of the judging clock when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) record: Record,
    pub(crate) now: SystemTime,
}

impl Look {
    /// Reads a reply that contains both, as `record` and `now`.
    pub(crate) fn read(answer: &Document) -> Result<Self> {
        let parts = (answer.get_document("record"), answer.get_datetime("now"));
        let (Ok(document), Ok(now)) = parts else {
            return Err(internal(
                "the server's reply to a read lacks the document or its time",
            ));
        };
        Ok(Self {
            record: record(document)?,
            now: instant(*now),
        })
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.record.locked_until > self.now
    }

    pub(crate) fn shown(&self, name: &LockName) -> LockRecord {
        self.record.as_lock_record(name, self.is_locked(), self.now)
    }
}

/// Parses a document. Returns `Conflict` if a field has a type that is never written there: ShedLock would treat such a
/// lock as held for ever.
pub(crate) fn record(document: &Document) -> Result<Record> {
    let until = date(document, UNTIL)?.ok_or_else(|| foreign(document, UNTIL))?;
    let slot = |field| {
        let slot = number(document, field)?.map(Slot::from_micros).transpose();
        slot.map_err(|_| foreign(document, field))
    };
    let mut record = Record::until(until);
    record.locked_at = date(document, AT)?;
    record.owner = match document.get(BY) {
        None | Some(Bson::Null) => String::new(),
        Some(Bson::String(owner)) => owner.clone(),
        Some(_) => return Err(foreign(document, BY)),
    };
    record.fencing_token = number(document, TOKEN)?;
    let skipped = slot(SKIP_FROM)?.zip(slot(SKIP_UNTIL)?);
    let skipped = skipped.map(|(from, until)| SkippedSlots::new(from, until));
    record.slots =
        SlotState::new(slot(SLOT)?, slot(DONE)?, number(document, ATTEMPTS)?).with_skipped(skipped);
    Ok(record)
}

fn date(document: &Document, field: &str) -> Result<Option<SystemTime>> {
    match document.get(field) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::DateTime(date)) => Ok(Some(instant(*date))),
        Some(_) => Err(foreign(document, field)),
    }
}

/// An integer; the shell may have written it as a double.
pub(crate) fn number<N: TryFrom<i64>>(document: &Document, field: &str) -> Result<Option<N>> {
    let number = match document.get(field) {
        None | Some(Bson::Null) => return Ok(None),
        Some(Bson::Int64(number)) => Some(*number),
        Some(Bson::Int32(number)) => Some((*number).into()),
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        Some(Bson::Double(number)) if number.fract() == 0.0 && number.abs() < 9.0e15 => {
            Some(*number as i64)
        }
        Some(_) => None,
    };
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| foreign(document, field)).map(Some)
}

fn foreign(document: &Document, field: &str) -> Error {
    let holds = document.get(field).map_or_else(
        || "is missing".to_owned(),
        |value| format!("has the type {:?}", value.element_type()),
    );
    conflict(format!(
        "the lock's document was not written by shedlock or ShedLock: its field {field:?} \
         {holds}"
    ))
    .advise("check what wrote it, then fix or delete it, or use another collection")
}

/// A date of a document. Dates that cannot be represented become 1970.
pub(crate) fn instant(date: DateTime) -> SystemTime {
    let millis = date.timestamp_millis();
    let distance = Duration::from_millis(millis.unsigned_abs());
    let instant = if millis >= 0 {
        UNIX_EPOCH.checked_add(distance)
    } else {
        UNIX_EPOCH.checked_sub(distance)
    };
    instant.unwrap_or(UNIX_EPOCH)
}

/// The number of whole milliseconds after which this duration has certainly passed, counted from a current time that is
/// truncated to milliseconds. Zero for a duration of zero.
pub(crate) fn millis(duration: Duration) -> i64 {
    if duration.is_zero() {
        return 0;
    }
    let whole = duration.as_nanos().div_ceil(1_000_000) + RESOLUTION.as_millis();
    i64::try_from(whole).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;
    use mongodb::bson::doc;

    fn at(millis: i64) -> DateTime {
        DateTime::from_millis(millis)
    }

    #[test]
    fn shedlocks_document_is_a_lock() {
        let found = record(&doc! {
            "_id": "job", "lockUntil": at(2_000), "lockedAt": at(1_000), "lockedBy": "web-3",
        })
        .unwrap();
        assert_eq!(found.locked_until, UNIX_EPOCH + Duration::from_secs(2));
        assert_eq!(
            found.shedlock_at(),
            Some(UNIX_EPOCH + Duration::from_secs(1))
        );
        assert_eq!(found.slots, SlotState::default());
    }

    #[test]
    fn what_is_never_written_there_is_a_conflict() {
        let good = doc! { "lockUntil": at(1), "lockedAt": at(1), "lockedBy": "h/1/ab" };
        assert!(record(&good).unwrap().shedlock_at().is_none());
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
            let error = record(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{field}");
            assert!(error.to_string().contains(field), "{error}");
        }
    }

    #[test]
    fn numbers_that_the_shell_wrote_are_read() {
        let document =
            doc! { "lockUntil": at(1), "shedlockSlot": 7_i32, "shedlockFencingToken": 8.0 };
        let found = record(&document).unwrap();
        assert_eq!(found.slots.last.unwrap().as_micros(), 7);
        assert_eq!(found.fencing_token, Some(8));
    }

    #[test]
    fn durations_are_over_never_too_early() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_nanos(1)), 2);
        assert_eq!(millis(Duration::from_secs(3)), 3_001);
    }

    #[test]
    fn dates_are_cut_and_the_strangest_do_no_harm() {
        let instant_of = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_999_999);
        let date = DateTime::from_system_time(instant_of);
        assert_eq!(date.timestamp_millis(), 1_700_000_000_123);
        assert_eq!(
            instant(date),
            UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)
        );
        assert!(instant(at(-1)) < UNIX_EPOCH);
        let _ = (instant(DateTime::MIN), instant(DateTime::MAX));
    }
}
