//! What an operator does to a lock in memory.

use super::{LONGEST, MemoryProvider, Record, after, next_token};
use crate::{
    Error, ForceUnlockRequest, ForcedUnlock, LockState, PauseRequest, Paused, PruneRequest, Pruned,
    ResetSlotRequest, ResumeRequest, Resumed, Slot, SlotReset,
};

impl MemoryProvider {
    pub(super) fn try_force_unlock(&self, request: &ForceUnlockRequest) -> ForcedUnlock {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let Some(record) = records.get_mut(request.name()) else {
            return ForcedUnlock::NotHeld;
        };
        if record.locked_until <= now {
            return ForcedUnlock::NotHeld;
        }
        let before = record.as_record(request.name(), now);
        if before.state == LockState::Paused {
            return ForcedUnlock::Paused(before);
        }
        if request
            .expected_owner()
            .is_some_and(|expected| before.owner.as_deref() != Some(expected))
        {
            return ForcedUnlock::OwnerDiffers(before);
        }
        record.is_released = true;
        record.locked_until = now;
        ForcedUnlock::Freed(before)
    }

    pub(super) fn try_reset_slot(&self, request: &ResetSlotRequest) -> Result<SlotReset, Error> {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let Some(record) = records.get_mut(request.name()) else {
            return Ok(SlotReset::NoSlot);
        };
        let Some(last) = record.slots.last else {
            return Ok(SlotReset::NoSlot);
        };
        let before = record.as_record(request.name(), now);
        let to = match request.slot() {
            Some(slot) => slot,
            None if last.instant() <= now => return Ok(SlotReset::NotAhead(before)),
            None => Slot::at(now)?,
        };
        record.slots = record.slots.reset(to);
        Ok(SlotReset::Reset {
            before,
            last_slot: to,
        })
    }

    pub(super) fn try_pause(&self, request: &PauseRequest) -> Result<Paused, Error> {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let locked_until = after(now, request.duration(now, LONGEST)?)?;
        let found = records.get(request.name());
        let before = found.map(|record| record.as_record(request.name(), now));
        match &before {
            Some(record) if record.pause().is_some_and(|pause| request.is_pause(&pause)) => {
                let until = record.locked_until.unwrap_or(locked_until);
                return Ok(Paused::done(before, until));
            }
            Some(record) if record.state == LockState::Held && !request.is_replacing_holder() => {
                return Ok(Paused::Held(record.clone()));
            }
            _ => {}
        }
        let token = found.and_then(|record| record.fencing_token);
        let slots = found.map(|record| record.slots).unwrap_or_default();
        let record = Record {
            owner: request.owner().into(),
            is_released: false,
            locked_at: now,
            locked_until,
            fencing_token: Some(next_token(token, now)),
            slots: slots.paused_until(Slot::at(locked_until)?),
        };
        records.insert(request.name().clone(), record);
        Ok(Paused::done(before, locked_until))
    }

    pub(super) fn try_resume(&self, request: &ResumeRequest) -> Result<Resumed, Error> {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let Some(record) = records.get_mut(request.name()) else {
            return Ok(Resumed::NotPaused(None));
        };
        let before = record.as_record(request.name(), now);
        if before.state != LockState::Paused {
            return Ok(Resumed::NotPaused(Some(before)));
        }
        record.is_released = true;
        record.locked_until = now;
        record.slots = if request.is_catching_up() {
            record.slots.caught_up()
        } else {
            record.slots.paused_until(Slot::at(now)?)
        };
        Ok(Resumed::Resumed(before))
    }

    pub(super) fn try_prune(&self, request: &PruneRequest) -> Result<Pruned, Error> {
        request.validate()?;
        let mut records = self.lock();
        let now = self.clock.system_time();
        let Some(record) = records.get(request.name()) else {
            return Ok(Pruned::NoRecord);
        };
        let before = record.as_record(request.name(), now);
        if let Some(reason) = request.refusal(&before, now) {
            return Ok(Pruned::kept(before, reason));
        }
        records.remove(request.name());
        Ok(Pruned::Removed(before))
    }
}
