//! The rules of law 9 for an attempt whose record is at hand.

use std::time::SystemTime;

use shedlock_core::{
    AttemptRequest, Error, ErrorKind, LockRecord, LockState, Skip, Slot, SlotState,
};

use crate::errors::Result;

/// Why this record refuses the request; none where the lock is free and its slot can be taken.
///
/// `shedlock_at` is when ShedLock acquired the lock, if it was the last to do so. The slot itself is judged first, by
/// [`check_slot`].
pub fn refusal(
    request: &AttemptRequest,
    record: &LockRecord,
    shedlock_at: Option<SystemTime>,
) -> Option<Skip> {
    let slots = SlotState::new(
        record.last_slot,
        record.last_slot_done,
        record.slot_attempts,
    );
    match slots.refusal(request, shedlock_at, record.state) {
        Some(reason) => Some(record.as_skip_for(reason)),
        None if record.state == LockState::Free => None,
        None => Some(record.as_skip()),
    }
}

/// Refuses a slot as `SlotAhead` that is further ahead of the clock that judges it than the request tolerates. `clock`
/// is whose it is: "the server's clock".
pub fn check_slot(request: &AttemptRequest, now: SystemTime, clock: &str) -> Result<()> {
    let Some(slot) = request.slot() else {
        return Ok(());
    };
    let latest = now.checked_add(request.slot_tolerance());
    if latest.is_none_or(|latest| slot.instant() <= latest) {
        return Ok(());
    }
    Err(slot_ahead(slot, now, clock))
}

/// The error of a slot that is too far ahead, for a store that has refused it by itself.
pub fn slot_ahead(slot: Slot, now: SystemTime, clock: &str) -> Error {
    let now = Slot::at(now).map_or_else(|_| "before 1970".to_owned(), |now| now.to_string());
    Error::new(
        ErrorKind::SlotAhead,
        format!(
            "slot {slot} is too far ahead of {clock} ({now}): compare the clocks of all hosts that \
             share the locks"
        ),
    )
}
