//! What an operator does by hand.

use shedlock_core::{
    Error, ErrorKind, ForceUnlock, ForceUnlockRequest, Owner, ResetSlotRequest, Slot, SlotReset,
};

use crate::EtcdProvider;
use crate::provider::ROUNDS;
use crate::txn::{Change, Changed, Own, contended};
use crate::value::whole_millis;

impl EtcdProvider {
    pub(crate) async fn try_force_unlock(
        &self,
        request: &ForceUnlockRequest,
    ) -> Result<ForceUnlock, Error> {
        let name = request.name();
        let pair = self.keys().of(name)?;
        let mut found = self.look(&pair).await?;
        for _ in 0..ROUNDS {
            let now = self.clock().system_time();
            if found.lock.is_none() {
                return Ok(ForceUnlock::NotHeld);
            }
            let shown = found.told(name, now);
            let differs = |expected| shown.owner.as_deref() != Some(expected);
            if request.expected_owner().is_some_and(differs) {
                return Ok(ForceUnlock::OwnerDiffers(shown));
            }
            // The record is of our own acquisitions: what frees ShedLock's leaves it.
            let mut record = Some(found.record()).filter(|it| it.owner == found.value().owner);
            if let Some(record) = &mut record {
                record.owner = Owner::released_text(Owner::without_mark(&record.owner));
                record.locked_until = whole_millis(now);
            }
            let change = Change {
                pair: &pair,
                before: &found,
                lock: Own::Delete,
                record,
            };
            match self.change(&change).await? {
                Changed::Done(_) => return Ok(ForceUnlock::Freed(shown)),
                Changed::Raced(now) => found = now,
                // Whoever holds the lock by now must not be forced out by the same request.
                Changed::Overtaken(_) => {
                    return Err(Error::new(
                        ErrorKind::Unknown,
                        "the answer to a forced unlock was lost, and the lock has changed since: \
                         look at it before asking again",
                    ));
                }
                Changed::LeaseGone => found = self.look(&pair).await?,
            }
        }
        Err(contended())
    }

    pub(crate) async fn try_reset_slot(
        &self,
        request: &ResetSlotRequest,
    ) -> Result<SlotReset, Error> {
        let name = request.name();
        let pair = self.keys().of(name)?;
        let mut found = self.look(&pair).await?;
        for _ in 0..ROUNDS {
            let now = self.clock().system_time();
            let mut record = found.record();
            let Some(last) = record.slots.last else {
                return Ok(SlotReset::NoSlot);
            };
            let shown = found.told(name, now);
            let to = match request.target() {
                Some(slot) => slot,
                None if last.instant() <= now => return Ok(SlotReset::NotAhead(shown)),
                None => Slot::at(now)?,
            };
            record.slots = record.slots.reset(to);
            let change = Change {
                pair: &pair,
                before: &found,
                lock: Own::Leave,
                record: Some(record),
            };
            match self.change(&change).await? {
                Changed::Done(_) => return Ok(SlotReset::reset(shown, to)),
                Changed::Raced(now) | Changed::Overtaken(now) => found = now,
                Changed::LeaseGone => found = self.look(&pair).await?,
            }
        }
        Err(contended())
    }
}
