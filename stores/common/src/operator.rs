//! The manual operations of an operator, built on a read and a conditional write.

use std::time::{Duration, SystemTime};

use shedlock_core::{
    Attempt, AttemptRequest, Error, ForceUnlockRequest, ForcedUnlock, Lease, LockName, LockState,
    Owner, PauseRequest, Paused, PruneRequest, Pruned, ResetEffect, ResetSlotRequest,
    ResumeRequest, Resumed, SlotReset, UnlockRequest,
};

use crate::errors::{Result, unavailable, unknown};
use crate::limits::HUNDRED_YEARS;
use crate::store::{Change, Changed, End, LeaseChange, Seen, Store};

/// How many rounds a call makes before it returns an error. A round is lost only if another client
/// won it.
pub const ROUNDS: usize = 4;

/// How long a lock whose record is created for a change is held before the change replaces it.
const CREATION: Duration = Duration::from_secs(5);

/// Returns the error for a call that lost every one of its [`ROUNDS`].
pub fn contended() -> Error {
    unavailable("other clients kept changing the lock before it could be written").retry()
}

/// Returns the error for a change whose reply was lost and whose record has changed since. The same
/// request must not hit the current holder, who may have taken the lock since.
fn overtaken(what: &str) -> Error {
    unknown(format!(
        "the reply to {what} was lost, and the lock has changed since: inspect it before you retry"
    ))
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
        if seen.record.state == LockState::Paused {
            return Ok(ForcedUnlock::Paused(seen.record));
        }
        let differs = |expected| seen.record.owner.as_deref() != Some(expected);
        if request.expected_owner().is_some_and(differs) {
            return Ok(ForcedUnlock::OwnerDiffers(seen.record));
        }
        let owner = Owner::freed_text(seen.record.owner.as_deref().unwrap_or_default());
        let freed = Change {
            lease: LeaseChange::End {
                owner: &owner,
                kept: None,
            },
            slots: None,
        };
        match store.change(name, &seen, &freed).await? {
            Changed::Done => return Ok(ForcedUnlock::Freed(seen.record)),
            Changed::Raced => {}
            Changed::Overtaken => return Err(overtaken("a forced unlock")),
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
    let skew = store.capabilities().slot_clock.tolerated_skew();
    let mut created: Option<Lease> = None;
    for _ in 0..ROUNDS {
        let Some(seen) = store.look(name).await? else {
            if request.restored().is_none() {
                return Ok(SlotReset::NoSlot);
            }
            created = create(store, name).await?;
            continue;
        };
        let (to, slots) = match request.effect(&seen.record, now(store, &seen), skew)? {
            ResetEffect::NoSlot => return Ok(SlotReset::NoSlot),
            ResetEffect::NotAhead => return Ok(SlotReset::NotAhead(seen.record)),
            ResetEffect::NotRestored => return Ok(SlotReset::NotRestored(seen.record)),
            ResetEffect::Set(to, slots) => (to, slots),
        };
        let reset = Change {
            lease: LeaseChange::Keep,
            slots: Some(slots),
        };
        if store.change(name, &seen, &reset).await? == Changed::Done {
            if let Some(lease) = &created {
                let _ = store
                    .end(&End::unlocked(lease, &UnlockRequest::new()))
                    .await?;
            }
            return Ok(SlotReset::reset(seen.record, to));
        }
    }
    Err(contended())
}

pub(crate) async fn pause<S: Store>(store: &S, request: &PauseRequest) -> Result<Paused> {
    let name = request.name();
    store.check_name(name)?;
    let capabilities = store.capabilities();
    let longest = capabilities.longest_lock_at_most_for.min(HUNDRED_YEARS);
    let skew = capabilities.slot_clock.tolerated_skew();
    let mut created: Option<Lease> = None;
    for _ in 0..ROUNDS {
        let Some(seen) = store.look(name).await? else {
            // A request that is wrong creates nothing.
            request.duration(store.clock().system_time(), longest)?;
            created = create(store, name).await?;
            continue;
        };
        let record = &seen.record;
        let stored = |end| store.stored_end(end);
        let effect = request.effect(Some(record), now(store, &seen), skew, longest, stored)?;
        let until = effect.until;
        let is_created = |lease: &Lease| record.owner.as_deref() == Some(lease.owner().as_str());
        let is_created = created.as_ref().is_some_and(is_created);
        if record.pause().is_some_and(|pause| request.is_pause(&pause)) {
            let until = record.locked_until.unwrap_or(until);
            return Ok(Paused::done(None, until));
        }
        let is_held = record.state.may_run() && !is_created;
        if is_held && !request.is_replacing_holder() {
            return Ok(Paused::Held(seen.record));
        }
        let pause = Change {
            lease: LeaseChange::Take {
                owner: &effect.owner,
                until,
            },
            slots: capabilities.completion.then_some(effect.slots),
        };
        match store.change(name, &seen, &pause).await? {
            Changed::Done => {
                let before = (!is_created).then_some(seen.record);
                return Ok(Paused::done(before, until));
            }
            Changed::Raced => {}
            Changed::Overtaken => return Err(overtaken("a pause")),
        }
    }
    Err(contended())
}

pub(crate) async fn resume<S: Store>(store: &S, request: &ResumeRequest) -> Result<Resumed> {
    let name = request.name();
    store.check_name(name)?;
    let capabilities = store.capabilities();
    let skew = capabilities.slot_clock.tolerated_skew();
    for _ in 0..ROUNDS {
        let Some(seen) = store.look(name).await? else {
            return Ok(Resumed::NotPaused(None));
        };
        let record = &seen.record;
        let Some(effect) = request.effect(record, now(store, &seen), skew)? else {
            return Ok(Resumed::NotPaused(Some(seen.record)));
        };
        let owner = Owner::released_text(record.owner.as_deref().unwrap_or_default());
        let resumed = Change {
            lease: match effect.ends_pause {
                true => LeaseChange::End {
                    owner: &owner,
                    kept: effect.kept_until,
                },
                false => LeaseChange::Keep,
            },
            slots: capabilities.completion.then_some(effect.slots),
        };
        match store.change(name, &seen, &resumed).await? {
            Changed::Done => return Ok(Resumed::Resumed(seen.record)),
            Changed::Raced => {}
            Changed::Overtaken => return Err(overtaken("a resumption")),
        }
    }
    Err(contended())
}

pub(crate) async fn prune<S: Store>(store: &S, request: &PruneRequest) -> Result<Pruned> {
    let name = request.name();
    request.validate()?;
    store.check_name(name)?;
    for _ in 0..ROUNDS {
        let Some(seen) = store.look(name).await? else {
            return Ok(Pruned::NoRecord);
        };
        let capabilities = store.capabilities();
        if let Some(reason) = request.refusal(&seen.record, now(store, &seen), &capabilities) {
            return Ok(Pruned::kept(seen.record, reason));
        }
        // A removal that may have happened needs no error: the next look shows what is there now.
        if store.remove(name, &seen).await? == Changed::Done {
            return Ok(Pruned::Removed(seen.record));
        }
    }
    Err(contended())
}

/// Creates a record by an ordinary attempt, for the change that follows.
async fn create<S: Store>(store: &S, name: &LockName) -> Result<Option<Lease>> {
    let creation = AttemptRequest::new(name.clone(), Owner::generate(), CREATION);
    Ok(match store.attempt(&creation).await? {
        Attempt::Acquired(lease) => Some(lease),
        _ => None,
    })
}

/// The time at which a record was read, by the clock that judges its lease.
fn now<S: Store>(store: &S, seen: &Seen<S::Version>) -> SystemTime {
    let read_at = seen.record.read_at;
    read_at.unwrap_or_else(|| store.clock().system_time())
}
