//! What an operator does by hand.

use shedlock_core::{
    Error, ErrorKind, ForceUnlock, ForceUnlockRequest, Owner, ResetSlotRequest, Slot, SlotReset,
};

use crate::provider::{ROUNDS, Wrote};
use crate::{CasProvider, Record, VersionedStore};

impl<S: VersionedStore> CasProvider<S> {
    pub(crate) async fn try_force_unlock(
        &self,
        request: &ForceUnlockRequest,
    ) -> Result<ForceUnlock, Error> {
        let name = request.name();
        self.store.check_name(name)?;
        for _ in 0..ROUNDS {
            let (found, now) = self.look(name).await?;
            let Some(before) = found.filter(|found| found.record.is_locked(now)) else {
                return Ok(ForceUnlock::NotHeld);
            };
            let shown = before.record.as_lock_record(name, now);
            let differs = |expected| shown.owner.as_deref() != Some(expected);
            if request.expected_owner().is_some_and(differs) {
                return Ok(ForceUnlock::OwnerDiffers(shown));
            }
            let owner = Owner::without_mark(&before.record.owner);
            let freed = Record {
                owner: Owner::released_text(owner),
                locked_until: now.past(),
                ..before.record
            };
            match self.write(name, Some(&before.version), freed).await? {
                Wrote::Done(_) => return Ok(ForceUnlock::Freed(shown)),
                Wrote::Raced => {}
                // Whoever holds the lock by now must not be forced out by the same request.
                Wrote::Overtaken => {
                    return Err(Error::new(
                        ErrorKind::Unknown,
                        "the answer to a forced unlock was lost, and the lock has changed since: \
                         look at it before asking again",
                    ));
                }
            }
        }
        Err(self.contended())
    }

    pub(crate) async fn try_reset_slot(
        &self,
        request: &ResetSlotRequest,
    ) -> Result<SlotReset, Error> {
        let name = request.name();
        self.store.check_name(name)?;
        for _ in 0..ROUNDS {
            let (found, now) = self.look(name).await?;
            let Some(before) = found else {
                return Ok(SlotReset::NoSlot);
            };
            let Some(last) = before.record.slots.last else {
                return Ok(SlotReset::NoSlot);
            };
            let shown = before.record.as_lock_record(name, now);
            let to = match request.target() {
                Some(slot) => slot,
                None if last.instant() <= now.told => return Ok(SlotReset::NotAhead(shown)),
                None => Slot::at(now.told)?,
            };
            let reset = Record {
                slots: before.record.slots.reset(to),
                ..before.record
            };
            let written = self.write(name, Some(&before.version), reset);
            if written.await?.done().is_some() {
                return Ok(SlotReset::reset(shown, to));
            }
        }
        Err(self.contended())
    }
}
