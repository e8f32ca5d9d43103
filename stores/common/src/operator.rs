//! The manual operations of an operator, built on a read and a conditional write.

use std::time::UNIX_EPOCH;

use shedlock_core::{
    Error, ForceUnlockRequest, ForcedUnlock, LockState, ResetSlotRequest, Slot, SlotReset,
    SlotState,
};

use crate::errors::{Result, unavailable, unknown};
use crate::store::{Changed, Store};

/// How many rounds a call makes before it returns an error. A round is lost only if another client
/// won it.
pub const ROUNDS: usize = 4;

/// Returns the error for a call that lost every one of its [`ROUNDS`].
pub fn contended() -> Error {
    unavailable("other clients kept changing the lock before it could be written: retry")
}

pub(crate) async fn force_unlock<S: Store>(
    store: &S,
    request: &ForceUnlockRequest,
) -> Result<ForcedUnlock> {
    let name = request.name();
    store.check_name(name)?;
    for _ in 0..ROUNDS {
        let seen = store.look(name).await?;
        let Some(seen) = seen.filter(|seen| seen.record.state != LockState::Free) else {
            return Ok(ForcedUnlock::NotHeld);
        };
        let differs = |expected| seen.record.owner.as_deref() != Some(expected);
        if request.expected_owner().is_some_and(differs) {
            return Ok(ForcedUnlock::OwnerDiffers(seen.record));
        }
        match store.free(name, &seen).await? {
            Changed::Done => return Ok(ForcedUnlock::Freed(seen.record)),
            Changed::Raced => {}
            // The same request must not force out the current holder, who may have taken the lock
            // since.
            Changed::Overtaken => {
                return Err(unknown(
                    "the reply to a forced unlock was lost, and the lock has changed since: \
                     inspect it before you retry",
                ));
            }
        }
    }
    Err(contended())
}

pub(crate) async fn reset_slot<S: Store>(
    store: &S,
    request: &ResetSlotRequest,
) -> Result<SlotReset> {
    let name = request.name();
    store.check_name(name)?;
    for _ in 0..ROUNDS {
        let Some(seen) = store.look(name).await? else {
            return Ok(SlotReset::NoSlot);
        };
        let record = &seen.record;
        let Some(last) = record.last_slot else {
            return Ok(SlotReset::NoSlot);
        };
        let now = record.read_at.unwrap_or(UNIX_EPOCH);
        let to = match request.slot() {
            Some(slot) => slot,
            None if last.instant() <= now => return Ok(SlotReset::NotAhead(seen.record)),
            None => Slot::at(now)?,
        };
        let slots = SlotState::new(Some(last), record.last_slot_done, record.slot_attempts);
        if store.set_slots(name, &seen, slots.reset(to)).await? == Changed::Done {
            return Ok(SlotReset::reset(seen.record, to));
        }
    }
    Err(contended())
}
