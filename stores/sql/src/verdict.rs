//! What a record means for an attempt.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    Attempt, AttemptRequest, Error, Lease, LockName, LockRecord, Operation, Owner, SkippedSlots,
    Slot, SlotState,
};
use shedlock_provider::{Result, check_slot, conflict, internal, maybe, refusal};

use crate::options::{ATTEMPTS_COLUMN, SLOT_COLUMN};
use crate::shape::Shape;
use crate::statement::Row;

#[derive(Debug)]
pub(crate) enum State {
    Absent,
    /// The lock can be taken.
    Free,
    Answered(Attempt),
}

impl State {
    /// Judges an attempt by the row that was read for it; `skew` is by how much other clocks that judge may be ahead. The reasons are checked in this order: our own lease, a slot
    /// that cannot be claimed, a lease that is still running.
    ///
    /// # Errors
    /// `Conflict` for a record of another name, without times or with an invalid slot; `SlotAhead`; `Lost` if this
    /// attempt has already ended; `Internal` if the row lacks the store's time.
    pub(crate) fn of(request: &AttemptRequest, row: &Row, skew: Duration) -> Result<Self> {
        let Some(now) = row.now else {
            return Err(internal("the row that was read lacks the store's time"));
        };
        let is_held = row.lock_until.is_some_and(|until| until > now);
        if let Some(stored) = &row.name {
            let asked = request.name.as_str();
            // Some collations treat `Job` and `job ` as equal. The record then belongs to another lock.
            if stored != asked {
                return Err(names_are_equal(asked, stored));
            }
            if is_held && row.owner.as_deref() == Some(request.owner.as_str()) {
                return Ok(Self::Answered(Attempt::Acquired(lease(request, row))));
            }
        }
        check_slot(request, instant(now), "the store's clock")?;
        if request.slot.is_some() {
            check_slots(row)?;
        }
        let Some(record) = record(row, &request.name) else {
            return Ok(Self::Absent);
        };
        if row.lock_until.is_none() {
            return Err(no_end());
        }
        let is_ours = row.owner.as_deref().is_some_and(Owner::is_ours);
        let shedlock_at = row.locked_at.filter(|_| !is_ours).map(instant);
        if let Some(skip) = refusal(request, &record, shedlock_at, instant(now) + skew) {
            return Ok(Self::Answered(Attempt::Skipped(skip)));
        }
        // This is how an unlock of this owner leaves the record.
        let is_over = |owner: &String| request.owner.has_ended_in(owner);
        if row.owner.as_ref().is_some_and(is_over) {
            return Err(Error::attempt_ended());
        }
        if row.token == Some(i64::MAX) {
            return Err(conflict(
                "the record's fencing token is at its maximum, which no clock has reached, and \
                 cannot grow",
            )
            .advise("check what wrote it, then set it to a token that was granted"));
        }
        Ok(Self::Free)
    }
}

/// Returns the error for a record without an end.
pub(crate) fn no_end() -> Error {
    conflict("the record has no end (lock_until is null), so it can never be taken")
        .advise("delete it or set lock_until")
}

/// Rejects values that shedlock never writes: they would block every slot, or be treated as no slot.
fn check_slots(row: &Row) -> Result<()> {
    let is_slot = |micros: i64| Slot::from_micros(micros).is_ok();
    let (column, value) = match (row.slot, row.slot_attempts) {
        (Some(slot), _) if !is_slot(slot) => (SLOT_COLUMN, slot),
        (_, Some(attempts)) if u32::try_from(attempts).is_err() => (ATTEMPTS_COLUMN, attempts),
        _ => return Ok(()),
    };
    Err(conflict(format!(
        "the record's column {column} holds {value}, which shedlock never writes"
    ))
    .advise((
        "check what wrote it, then set the last slot with",
        Operation::ResetSlot,
    )))
}

/// The last microsecond of the year 9999.
const LAST_SLOT: i64 = 253_402_300_799_999_999;

fn slots(row: &Row) -> SlotState {
    // An invalid slot is shown as the nearest valid one, so that an operator sees it and can reset it.
    let slot = |micros: Option<i64>| Slot::from_micros(micros?.clamp(0, LAST_SLOT)).ok();
    let skipped = slot(row.skip_from).zip(slot(row.skip_until));
    let skipped = skipped.map(|(from, until)| SkippedSlots::new(from, until));
    SlotState::new(slot(row.slot), slot(row.slot_done), attempts(row)).with_skipped(skipped)
}

fn attempts(row: &Row) -> Option<u32> {
    let attempts = row.slot_attempts?;
    Some(u32::try_from(attempts).unwrap_or(u32::MAX))
}

pub(crate) fn lease(request: &AttemptRequest, row: &Row) -> Lease {
    let lease = Lease::granted(request);
    let lease = maybe(lease, row.token(), Lease::with_fencing_token);
    let slot = request.completion.retries().and(request.slot);
    let lease = maybe(lease, slot, |lease, _| {
        lease.with_slot_attempt(attempts(row))
    });
    let lease = maybe(lease, row.locked_at.map(instant), Lease::with_acquired_at);
    maybe(lease, row.lock_until.map(instant), Lease::with_locked_until)
}

/// The error for a table in which this name is that of another lock.
pub(crate) fn names_are_equal(asked: &str, stored: &str) -> Error {
    conflict(format!(
        "the table treats the names {asked:?} and {stored:?} as equal"
    ))
    .advise("rename one of the locks, or give the column a collation that distinguishes them")
}

/// The record of this lock in a row; `None` if the row has none, or that of another name.
pub(crate) fn record(row: &Row, name: &LockName) -> Option<LockRecord> {
    row.name
        .as_deref()
        .filter(|found| *found == name.as_str())?;
    // A record without an end can never be taken.
    let is_locked = row.lock_until.is_none() || row.lock_until > row.now;
    let mut record = LockRecord::from_stored(
        name.clone(),
        row.owner.as_deref().unwrap_or_default(),
        is_locked,
    );
    record.locked_at = row.locked_at.map(instant);
    record.locked_until = row.lock_until.map(instant);
    record.fencing_token = row.token();
    record.read_at = row.now.map(instant);
    Some(record.with_slots(slots(row)))
}

/// The owner text that a record gets when an operator ends its lease: with the mark, or the stored text if the column
/// is too short for the mark.
pub(crate) fn marked<'a>(marked: &'a str, stored: &'a str, shape: &Shape) -> &'a str {
    let fits = marked.chars().count() <= shape.locked_by.length;
    if fits { marked } else { stored }
}

/// Microseconds since 1970 as an instant. Rows may contain anything, including times before 1970.
pub(crate) fn instant(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    let instant = match micros {
        0.. => UNIX_EPOCH.checked_add(distance),
        _ => UNIX_EPOCH.checked_sub(distance),
    };
    instant.unwrap_or(UNIX_EPOCH)
}
