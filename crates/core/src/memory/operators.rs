//! What an operator does to a lock in memory.

use std::time::{Duration, SystemTime};

use super::{HUNDRED_YEARS, Mark, MemoryProvider, Record, after, next_token};
use crate::{
    Error, ForceUnlockRequest, ForcedUnlock, LockProvider, LockState, Owner, PauseRequest, Paused,
    PruneRequest, Pruned, ResetEffect, ResetSlotRequest, ResumeRequest, Resumed, Slot, SlotReset,
    SlotState,
};

/// Rounds up: the slots up to this end are skipped, and slots have whole microseconds.
fn whole_micros(end: SystemTime) -> Result<SystemTime, Error> {
    Ok(Slot::at(after(end, Duration::from_nanos(999))?)?.instant())
}

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
        record.mark = Some(Mark::Freed);
        record.locked_until = now;
        ForcedUnlock::Freed(before)
    }

    pub(super) fn try_reset_slot(&self, request: &ResetSlotRequest) -> Result<SlotReset, Error> {
        let mut records = self.lock();
        let now = self.clock.system_time();
        if request.restored().is_some() {
            let record = records.entry(request.name().clone());
            record.or_insert_with(|| Record {
                owner: Owner::generate().shared(),
                mark: Some(Mark::Released),
                locked_at: now,
                locked_until: now,
                fencing_token: None,
                slots: SlotState::default(),
            });
        }
        let Some(record) = records.get_mut(request.name()) else {
            return Ok(SlotReset::NoSlot);
        };
        let before = record.as_record(request.name(), now);
        Ok(match request.effect(&before, now, Duration::ZERO)? {
            ResetEffect::NoSlot => SlotReset::NoSlot,
            ResetEffect::NotAhead => SlotReset::NotAhead(before),
            ResetEffect::NotRestored => SlotReset::NotRestored(before),
            ResetEffect::Set(last_slot, slots) => {
                record.slots = slots;
                SlotReset::Reset { before, last_slot }
            }
        })
    }

    pub(super) fn try_pause(&self, request: &PauseRequest) -> Result<Paused, Error> {
        let mut records = self.lock();
        let now = self.clock.system_time();
        let found = records.get(request.name());
        let before = found.map(|record| record.as_record(request.name(), now));
        let pause = request.effect(
            before.as_ref(),
            now,
            Duration::ZERO,
            HUNDRED_YEARS,
            whole_micros,
        )?;
        let locked_until = pause.until;
        match &before {
            Some(record) if record.pause().is_some_and(|pause| request.is_pause(&pause)) => {
                let until = record.locked_until.unwrap_or(locked_until);
                return Ok(Paused::done(before, until));
            }
            Some(record) if record.state.may_run() && !request.is_replacing_holder() => {
                return Ok(Paused::Held(record.clone()));
            }
            _ => {}
        }
        let token = found.and_then(|record| record.fencing_token);
        let record = Record {
            owner: pause.owner.into(),
            mark: None,
            locked_at: now,
            locked_until,
            fencing_token: Some(next_token(token, now)),
            slots: pause.slots,
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
        let Some(resumed) = request.effect(&before, now, Duration::ZERO)? else {
            return Ok(Resumed::NotPaused(Some(before)));
        };
        if resumed.ends_pause {
            record.mark = Some(Mark::Released);
            record.locked_until = resumed.kept_until.map_or(now, |kept| kept.max(now));
        }
        record.slots = resumed.slots;
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
        if let Some(reason) = request.refusal(&before, now, &self.capabilities()) {
            return Ok(Pruned::kept(before, reason));
        }
        records.remove(request.name());
        Ok(Pruned::Removed(before))
    }
}
