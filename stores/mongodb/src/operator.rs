//! What a person does to a lock.

use mongodb::bson::{Bson, doc};
use shedlock_core::{
    Error, ErrorKind, ForceUnlock, ForceUnlockRequest, LockState, Owner, ResetSlotRequest, Slot,
    SlotReset,
};

use crate::attempt::ROUNDS;
use crate::expression::{ATTEMPTS, BY, SLOT, UNTIL, literal};
use crate::provider::MongoProvider;
use crate::send::Written;

impl MongoProvider {
    /// Under the condition that the owner is the one that was read: a lock that changed hands in
    /// between is looked at again.
    pub(crate) async fn try_force_unlock(
        &self,
        request: &ForceUnlockRequest,
    ) -> Result<ForceUnlock, Error> {
        let name = request.name();
        for _ in 0..ROUNDS {
            let Some(seen) = self.commands().read(name).await? else {
                return Ok(ForceUnlock::NotHeld);
            };
            let found = seen.record(name);
            if found.state == LockState::Free {
                return Ok(ForceUnlock::NotHeld);
            }
            if let Some(expected) = request.expected_owner()
                && found.owner.as_deref() != Some(expected)
            {
                return Ok(ForceUnlock::OwnerDiffers(found));
            }
            let now = self.commands().now();
            let stored = seen.found.owner.as_deref();
            // A condition on null is met by a field that is missing.
            let query = doc! {
                "_id": name.as_str(),
                BY: stored.map_or(Bson::Null, Bson::from),
                "$expr": now.is_before_end(),
            };
            let marked = Owner::released_text(Owner::without_mark(stored.unwrap_or_default()));
            let freed = doc! { "$set": { UNTIL: now.later(0), BY: literal(&marked) } };
            if let Written::Document(_) = self.commands().update(query, vec![freed]).await? {
                return Ok(ForceUnlock::Freed(found));
            }
        }
        Err(changes())
    }

    /// Under the condition that the last slot is the one that was read.
    pub(crate) async fn try_reset_slot(
        &self,
        request: &ResetSlotRequest,
    ) -> Result<SlotReset, Error> {
        let name = request.name();
        for _ in 0..ROUNDS {
            let Some(seen) = self.commands().read(name).await? else {
                return Ok(SlotReset::NoSlot);
            };
            let Some(last) = seen.found.slots.last else {
                return Ok(SlotReset::NoSlot);
            };
            let before = seen.record(name);
            let to = match request.target() {
                Some(slot) => slot,
                None if last.instant() <= seen.now => return Ok(SlotReset::NotAhead(before)),
                None => Slot::at(seen.now)?,
            };
            let query = doc! { "_id": name.as_str(), SLOT: last.as_micros() };
            let reset = doc! { "$set": { SLOT: to.as_micros(), ATTEMPTS: Bson::Null } };
            if let Written::Document(_) = self.commands().update(query, vec![reset]).await? {
                return Ok(SlotReset::reset(before, to));
            }
        }
        Err(changes())
    }
}

fn changes() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the lock changed hands each time between the look at it and the write; nothing was \
         written: try again",
    )
}
