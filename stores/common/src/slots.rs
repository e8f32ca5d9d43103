//! The slot rules (law 9) for an attempt whose record has been read.

use std::time::SystemTime;

use shedlock_core::{AttemptRequest, Error, ErrorKind, LockRecord, LockState, Skip, Slot};

use crate::errors::Result;

/// Returns why this record refuses the request, or none if the lock is free and its slot can be taken.
///
/// `latest` is the latest time that it can be by any clock that judges: an interval of skipped slots that ends later
/// belongs to a pause that something else has ended. `shedlock_at` is when ShedLock acquired the lock, if ShedLock was
/// the last to acquire it. Call [`check_slot`] first, which checks the slot itself.
pub fn refusal(
    request: &AttemptRequest,
    record: &LockRecord,
    shedlock_at: Option<SystemTime>,
    latest: SystemTime,
) -> Option<Skip> {
    let slots = record.slots().as_of(latest);
    match slots.refusal(request, shedlock_at, record.state) {
        Some(reason) => Some(record.as_skip_for(reason, &slots)),
        None if record.state == LockState::Free => None,
        None => Some(record.as_skip()),
    }
}

/// Refuses a slot as `SlotAhead` if it is further ahead of `now` than the request tolerates. `clock` describes the
/// clock that `now` comes from: "the server's clock".
pub fn check_slot(request: &AttemptRequest, now: SystemTime, clock: &str) -> Result<()> {
    let Some(slot) = request.slot else {
        return Ok(());
    };
    let latest = now.checked_add(request.slot_tolerance);
    if latest.is_none_or(|latest| slot.instant() <= latest) {
        return Ok(());
    }
    Err(slot_ahead(slot, now, clock))
}

/// Returns the error for a slot that is too far ahead, for a store that refused the slot itself.
pub fn slot_ahead(slot: Slot, now: SystemTime, clock: &str) -> Error {
    let now = Slot::at(now).map_or_else(|_| "before 1970".to_owned(), |now| now.to_string());
    Error::new(
        ErrorKind::SlotAhead,
        format!("slot {slot} is too far ahead of {clock} ({now})"),
    )
    .advise("claim it when it is due, or, if it is, set that clock (NTP)")
}
