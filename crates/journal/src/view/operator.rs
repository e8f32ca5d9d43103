//! What operators do to locks, and how the journal's audit describes it.

use std::time::{Duration, SystemTime};

use super::second;
use crate::lock_store::lock_store;
use shedlock_core::{
    Actor, AttemptRequest, AuditRecord, Clock, Error, ExtendRequest, Extension, ForceUnlockRequest,
    ForcedUnlock, Journal, JournalEntry, Lease, LockName, LockProvider, LockRecord, LockState,
    Owner, Slot, SystemClock, admin,
};
use shedlock_support::redact;

/// What became of a lease that an operator extends.
#[derive(Debug)]
pub enum Extended {
    /// It ends at this time, if the store reports it.
    Done(Option<SystemTime>),
    /// Its end stays at this time, because it is not before the new one.
    Unchanged(SystemTime),
    /// No lease runs.
    NotHeld,
    /// Another owner has it.
    OwnerDiffers,
    /// ShedLock has it, and extends its own leases only.
    OfShedLock,
    /// It has ended in the meantime.
    Ended,
}

/// Extends the lease that this record shows, if this owner has it.
///
/// # Errors
/// Those of the store.
pub async fn extend_by_operator(
    provider: &dyn LockProvider,
    lock: &LockRecord,
    expected: Option<&str>,
    lasts: Duration,
) -> Result<Extended, Error> {
    let owner = lock.owner.as_deref().unwrap_or_default();
    if !lock.state.may_run() {
        return Ok(Extended::NotHeld);
    }
    if expected.is_some_and(|expected| expected != owner) {
        return Ok(Extended::OwnerDiffers);
    }
    let Ok(owner) = Owner::parse(owner) else {
        return Ok(Extended::OfShedLock);
    };
    let lease = Lease::granted(&AttemptRequest::new(lock.name.clone(), owner, lasts));
    let request = ExtendRequest::new(lasts);
    let Extension::Extended(extended) = provider.extend(&lease, &request).await? else {
        return Ok(Extended::Ended);
    };
    let until = match extended.locked_until() {
        Some(until) => Some(until),
        // MySQL returns no row from a write. The lease is extended, also if this fails.
        None => {
            let now = provider.inspect(&lock.name).await;
            now.ok().flatten().and_then(|now| now.locked_until)
        }
    };
    let unchanged = until.filter(|until| lock.locked_until.is_some_and(|was| *until <= was));
    Ok(unchanged.map_or(Extended::Done(until), Extended::Unchanged))
}

/// Frees a lock, if the owner that was seen, or that the operator names, still has it.
///
/// # Errors
/// Those of the store.
pub async fn unlock_by_operator(
    provider: &dyn LockProvider,
    name: &LockName,
    seen: Option<&LockRecord>,
    expected: Option<&str>,
) -> Result<ForcedUnlock, Error> {
    let Some(seen) = seen.filter(|lock| lock.state != LockState::Free) else {
        return Ok(ForcedUnlock::NotHeld);
    };
    let mut request = ForceUnlockRequest::new(name.clone());
    // The owner that was shown, so that a lock which is retaken in between is left alone.
    if let Some(owner) = expected.or(seen.owner.as_deref()) {
        request = request.with_expected_owner(owner);
    }
    admin::force_unlock(provider, &request).await
}

/// The lease that an action ended, if there was one.
pub fn taken_from(before: Option<&LockRecord>) -> Option<String> {
    let lock = before.filter(|lock| lock.state.may_run())?;
    let owner = lock.owner.as_deref().unwrap_or("an unnamed owner");
    let until = lock.locked_until.map(second);
    let until = until.map_or_else(String::new, |until| format!(" (until {until})"));
    Some(format!("ended the lease of {owner}{until}"))
}

/// The lease before an extension, and the new end if it is known.
pub fn extension_detail(before: &LockRecord, until: Option<SystemTime>) -> String {
    let owner = before.owner.as_deref().unwrap_or_default();
    let now = until.map_or_else(String::new, |end| format!(" until {}", second(end)));
    let was = before.locked_until.map(second);
    let was = was.map_or_else(String::new, |end| format!(" (previously until {end})"));
    format!("held by {owner}{now}{was}")
}

/// The last slot before and after a reset.
pub fn slot_detail(before: &LockRecord, last_slot: Slot) -> String {
    let was = before.last_slot;
    let was = was.map_or_else(String::new, |was| format!("; it was {was}"));
    format!("the last slot is now {last_slot}{was}")
}

/// Whether this last slot is more than a day ahead of the store's clock. A mistyped year would keep a job from running
/// for as long, without an error at any start.
pub fn is_far_ahead(to: SystemTime, clock: Option<SystemTime>) -> bool {
    const FAR: Duration = Duration::from_secs(24 * 60 * 60);
    let clock = clock.unwrap_or_else(|| SystemClock.system_time());
    to.duration_since(clock).is_ok_and(|ahead| ahead > FAR)
}

/// Records what an operator has done to a lock of this store: the reason, and the end of a pause. Returns false if there
/// is no journal.
///
/// # Errors
/// Those of the journal.
pub async fn record_action(
    provider: &dyn LockProvider,
    journal: &dyn Journal,
    actor: Actor,
    (action, name): (&str, &LockName),
    detail: &str,
    (reason, until): (&str, Option<SystemTime>),
) -> Result<bool, Error> {
    if journal.version().await?.is_none() {
        return Ok(false);
    }
    let (now, random) = (SystemClock.system_time(), SystemClock.random());
    let mut record = AuditRecord::new(now, random, actor, action, name.as_str());
    record.detail = redact(detail).into_owned();
    record.until = until;
    record.lock_store = lock_store(provider, &SystemClock).await.flatten();
    let reason = Some(reason).filter(|reason| !reason.is_empty());
    record.reason = reason.map(|reason| redact(reason).into_owned());
    journal.record(&[JournalEntry::Audit(record)]).await?;
    Ok(true)
}
