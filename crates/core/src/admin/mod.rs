//! What operators do to locks: forced unlocks, slot resets, pauses and removals.
//!
//! Each function reads the record, decides what to make of it, and writes that only if the record has
//! not changed since. It works on every [`LockProvider`]: a store implements a look and two
//! conditional writes, and knows nothing of the rules.
//!
//! Each of these steps ends within the provider's
//! [`longest_call`](crate::Capabilities::longest_call), and a step without a reply ends the function.
//!
//! ```
//! use shedlock::{AttemptRequest, ForceUnlockRequest, ForcedUnlock};
//! use shedlock::{LockName, LockProvider, MemoryProvider, Owner, admin};
//! use std::time::Duration;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let provider = MemoryProvider::new();
//! let payroll = LockName::new("payroll")?;
//! let hour = Duration::from_secs(3600);
//! let request = AttemptRequest::new(payroll.clone(), Owner::generate(), hour);
//! provider.attempt(&request).await?;
//!
//! let freed = admin::force_unlock(&provider, &ForceUnlockRequest::new(payroll)).await?;
//! assert!(matches!(freed, ForcedUnlock::Freed(_)));
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```

mod effects;
mod prune;

use std::time::{Duration, SystemTime};

use effects::ResetEffect;
pub use prune::{KeepReason, PruneRequest, Pruned};

use crate::clock::{Clock, SystemClock};
use crate::contract::{
    Attempt, AttemptRequest, Error, ErrorKind, ForceUnlockRequest, ForcedUnlock, HUNDRED_YEARS,
    Lease, LockName, LockProvider, LockState, Owner, PauseRequest, Paused, ResetSlotRequest,
    ResumeRequest, Resumed, SlotReset, UnlockRequest,
};
pub use crate::contract::{Change, Changed, LeaseChange, Seen};

/// How many rounds a function makes before it returns an error. A round is lost only if another
/// client won it.
const ROUNDS: usize = 4;

/// How long a lock whose record is created for a change is held before the change replaces it.
const CREATION: Duration = Duration::from_secs(5);

/// Frees a lock, whoever holds it, unless it is paused.
///
/// # Errors
/// Those of the store. After `OutcomeUnknown`, the lock may have been freed.
pub async fn force_unlock(
    provider: &dyn LockProvider,
    request: &ForceUnlockRequest,
) -> Result<ForcedUnlock, Error> {
    let admin = Admin::new(provider, &request.name);
    for _ in 0..ROUNDS {
        let seen = admin.look().await?;
        let Some(seen) = seen.filter(|seen| seen.record.state != LockState::Free) else {
            return Ok(ForcedUnlock::NotHeld);
        };
        if seen.record.state == LockState::Paused {
            return Ok(ForcedUnlock::Paused(seen.record));
        }
        let differs = |expected| seen.record.owner.as_deref() != Some(expected);
        if request.expected_owner.as_deref().is_some_and(differs) {
            return Ok(ForcedUnlock::OwnerDiffers(seen.record));
        }
        let owner = Owner::freed_text(seen.record.owner.as_deref().unwrap_or_default());
        let freed = Change {
            lease: LeaseChange::End { owner, kept: None },
            slots: None,
        };
        if admin.change("a forced unlock", &seen, &freed).await? {
            return Ok(ForcedUnlock::Freed(seen.record));
        }
    }
    Err(admin.contended())
}

/// Sets which slot was taken last, so that slots after it can be taken, and gives up an open slot:
/// after a wrong clock has claimed a slot in the future, or to run a slot again.
///
/// # Errors
/// Those of the store.
pub async fn reset_slot(
    provider: &dyn LockProvider,
    request: &ResetSlotRequest,
) -> Result<SlotReset, Error> {
    let admin = Admin::new(provider, &request.name);
    let skew = admin.slot_skew();
    let mut created: Option<Lease> = None;
    for _ in 0..ROUNDS {
        let Some(seen) = admin.look().await? else {
            if request.restored.is_none() {
                return Ok(SlotReset::NoSlot);
            }
            created = admin.create().await?;
            continue;
        };
        let effect = request.effect(&seen.record, seen.read_at(), skew);
        let (to, slots) = match effect.map_err(|error| admin.about(error))? {
            ResetEffect::NoSlot => return Ok(SlotReset::NoSlot),
            ResetEffect::NotAhead => return Ok(SlotReset::NotAhead(seen.record)),
            ResetEffect::NotRestored => return Ok(SlotReset::NotRestored(seen.record)),
            ResetEffect::Set(to, slots) => (to, slots),
        };
        let reset = Change {
            lease: LeaseChange::Keep,
            slots: Some(slots),
        };
        // A reset that may have happened needs no error: the next look shows what is there now.
        let changed = provider.change(&request.name, &seen, &reset).await?;
        if changed == Changed::Done {
            if let Some(lease) = &created {
                let _ = provider.unlock(lease, &UnlockRequest::new()).await?;
            }
            return Ok(SlotReset::Reset {
                before: seen.record,
                last_slot: to,
            });
        }
    }
    Err(admin.contended())
}

/// Pauses a lock: an operator holds it until it is resumed or until the pause ends.
///
/// The owner in the record becomes [`PauseRequest::owner`]. If the call is repeated after a lost
/// reply, it returns the pause that it finds. A lock that a task holds is not waited for:
/// [`Executor::pause`](crate::Executor::pause) does that.
///
/// # Errors
/// Those of the store, and `InvalidInput` for a pause that ends before it begins or later than the
/// store can hold. After `OutcomeUnknown`, the lock may be paused.
pub async fn pause(provider: &dyn LockProvider, request: &PauseRequest) -> Result<Paused, Error> {
    let admin = Admin::new(provider, &request.name);
    let capabilities = provider.capabilities();
    let longest = capabilities.longest_lock_at_most_for.min(HUNDRED_YEARS);
    let skew = admin.slot_skew();
    let mut created: Option<Lease> = None;
    for _ in 0..ROUNDS {
        let Some(seen) = admin.look().await? else {
            // A request that is wrong creates nothing.
            let now = provider.store_time().await?;
            let now = now.unwrap_or_else(|| SystemClock.system_time());
            let lasts = request.duration(now, longest);
            lasts.map_err(|error| admin.about(error))?;
            created = admin.create().await?;
            continue;
        };
        let record = &seen.record;
        let effect = request.effect(record, seen.read_at(), skew, longest, seen.unit);
        let effect = effect.map_err(|error| admin.about(error))?;
        let until = effect.until;
        let is_created = |lease: &Lease| record.owner.as_deref() == Some(lease.owner().as_str());
        let is_created = created.as_ref().is_some_and(is_created);
        if record.pause().is_some_and(|pause| request.is_pause(&pause)) {
            return Ok(Paused::Done {
                before: None,
                until: record.locked_until.unwrap_or(until),
            });
        }
        let is_held = record.state.may_run() && !is_created;
        if is_held && !request.replaces_holder {
            return Ok(Paused::Held(seen.record));
        }
        let pause = Change {
            lease: LeaseChange::Take {
                owner: effect.owner,
                until,
            },
            slots: capabilities.completion.then_some(effect.slots),
        };
        if admin.change("a pause", &seen, &pause).await? {
            return Ok(Paused::Done {
                before: (!is_created).then_some(seen.record),
                until,
            });
        }
    }
    Err(admin.contended())
}

/// Ends the pause of a lock.
///
/// # Errors
/// Those of the store. After `OutcomeUnknown`, the pause may have ended.
pub async fn resume(
    provider: &dyn LockProvider,
    request: &ResumeRequest,
) -> Result<Resumed, Error> {
    let admin = Admin::new(provider, &request.name);
    let capabilities = provider.capabilities();
    let skew = admin.slot_skew();
    for _ in 0..ROUNDS {
        let Some(seen) = admin.look().await? else {
            return Ok(Resumed::NotPaused(None));
        };
        let effect = request.effect(&seen.record, seen.read_at(), skew);
        let Some(effect) = effect.map_err(|error| admin.about(error))? else {
            return Ok(Resumed::NotPaused(Some(seen.record)));
        };
        let owner = Owner::released_text(seen.record.owner.as_deref().unwrap_or_default());
        let resumed = Change {
            lease: match effect.ends_pause {
                true => LeaseChange::End {
                    owner,
                    kept: effect.kept_until,
                },
                false => LeaseChange::Keep,
            },
            slots: capabilities.completion.then_some(effect.slots),
        };
        if admin.change("a resumption", &seen, &resumed).await? {
            return Ok(Resumed::Resumed(seen.record));
        }
    }
    Err(admin.contended())
}

/// Removes the record of a lock that has been idle for a time, together with everything that the
/// store keeps beside it. Afterwards the lock is like one that was never taken.
///
/// The rules of [`PruneRequest::refusal`] decide which record may be removed.
///
/// # Errors
/// Those of the store, and `InvalidInput` for an idle time of zero. After `OutcomeUnknown`, the
/// record may have been removed.
pub async fn prune(provider: &dyn LockProvider, request: &PruneRequest) -> Result<Pruned, Error> {
    let admin = Admin::new(provider, &request.name);
    request.validate().map_err(|error| admin.about(error))?;
    let capabilities = provider.capabilities();
    for _ in 0..ROUNDS {
        let Some(seen) = admin.look().await? else {
            return Ok(Pruned::NoRecord);
        };
        if let Some(reason) = request.refusal(&seen.record, seen.read_at(), &capabilities) {
            return Ok(Pruned::Kept {
                record: seen.record,
                reason,
            });
        }
        // A removal that may have happened needs no error: the next look shows what is there now.
        if provider.remove(&request.name, &seen).await? == Changed::Done {
            return Ok(Pruned::Removed(seen.record));
        }
    }
    Err(admin.contended())
}

/// The steps of these functions on one lock.
struct Admin<'a> {
    provider: &'a dyn LockProvider,
    name: &'a LockName,
}

impl<'a> Admin<'a> {
    fn new(provider: &'a dyn LockProvider, name: &'a LockName) -> Self {
        Self { provider, name }
    }

    async fn look(&self) -> Result<Option<Seen>, Error> {
        self.provider.look(self.name).await
    }

    /// Returns whether the change was made. False if the record had changed before.
    async fn change(&self, what: &str, seen: &Seen, change: &Change) -> Result<bool, Error> {
        match self.provider.change(self.name, seen, change).await? {
            Changed::Done => Ok(true),
            Changed::Raced => Ok(false),
            // The same request must not hit the current holder, who may have taken the lock since.
            Changed::Overtaken => {
                let what = format!("the reply to {what} was lost, and the lock has changed since");
                let error = Error::new(ErrorKind::OutcomeUnknown, what);
                Err(self.about(error.advise("inspect it before you retry")))
            }
        }
    }

    /// Creates a record by an ordinary attempt, for the change that follows.
    async fn create(&self) -> Result<Option<Lease>, Error> {
        let creation = AttemptRequest::new(self.name.clone(), Owner::generate(), CREATION);
        Ok(match self.provider.attempt(&creation).await? {
            Attempt::Acquired(lease) => Some(lease),
            Attempt::Skipped(_) => None,
        })
    }

    /// By how much the clocks differ that slots must not be too far ahead of.
    fn slot_skew(&self) -> Duration {
        self.provider.capabilities().slot_clock.tolerated_skew()
    }

    fn contended(&self) -> Error {
        let what = "other clients kept changing the lock before it could be written";
        self.about(Error::new(ErrorKind::Unavailable, what).retry())
    }

    fn about(&self, error: Error) -> Error {
        error
            .with_lock(self.name.as_str())
            .with_store(self.provider.store())
    }
}

impl Seen {
    /// The time at which the record was read, by the clock that judges its lease.
    fn read_at(&self) -> SystemTime {
        let read_at = self.record.read_at;
        read_at.unwrap_or_else(|| SystemClock.system_time())
    }
}
