//! Extending a lease, and ending it.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Error, ErrorKind, ExtendRequest, Extension, Lease, LockName, Owner, Slot, SlotEnd,
};

use crate::provider::{Look, ROUNDS, Wrote};
use crate::time::{Now, check_longest};
use crate::{CasProvider, Found, Record, VersionedStore};

/// How an owner's lease ended.
pub(crate) enum Ended {
    /// By this call.
    Now,
    /// By an earlier call of this owner.
    Before,
    /// Otherwise: it ran out, or the lock is another's by now.
    Lost,
}

impl<S: VersionedStore> CasProvider<S> {
    pub(crate) async fn try_extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        request.validate(lease.lock_at_least_for())?;
        check_longest(request.lock_at_most_for())?;
        let mut known = self.known(lease);
        for _ in 0..ROUNDS {
            let (found, now, is_fresh) = self.look_unless(&mut known, lease.name()).await?;
            let held = found.filter(|found| found.record.is_held_by(lease.owner(), now));
            let Some(before) = held else {
                if is_fresh {
                    return Ok(Extension::Lost);
                }
                continue;
            };
            // The version that is replaced still stands, so its end is the one to keep.
            let end = now.end_of(request.lock_at_most_for())?;
            let locked_until = before.record.locked_until.max(end);
            let record = Record {
                locked_until,
                ..before.record
            };
            let written = self.write(lease.name(), Some(&before.version), record);
            if let Some(found) = written.await?.done() {
                let extended = lease.extended(request).with_locked_until(locked_until);
                return Ok(Extension::Extended(extended.with_state(Arc::new(found))));
            }
        }
        Err(self.contended())
    }

    /// Ends this owner's lease; the record then names nobody as holder.
    pub(crate) async fn end(
        &self,
        name: &LockName,
        owner: &Owner,
        mut known: Option<Look<S::Version>>,
        at_least: Duration,
        slot: Option<(Slot, SlotEnd)>,
    ) -> Result<Ended, Error> {
        self.store.check_name(name)?;
        let mut was_overtaken = false;
        for _ in 0..ROUNDS {
            let (found, now, is_fresh) = self.look_unless(&mut known, name).await?;
            let is_ended = |found: &Found<_>| found.record.owner == owner.released();
            if found.as_ref().is_some_and(is_ended) {
                return Ok(Ended::Before);
            }
            let held = found.filter(|found| found.record.is_held_by(owner, now));
            let Some(before) = held else {
                if !is_fresh {
                    continue;
                }
                if was_overtaken {
                    return Err(overtaken());
                }
                return Ok(Ended::Lost);
            };
            let record = ended(before.record, owner, now, at_least, slot)?;
            match self.write(name, Some(&before.version), record).await? {
                Wrote::Done(_) => return Ok(Ended::Now),
                Wrote::Raced => {}
                Wrote::Overtaken => was_overtaken = true,
            }
        }
        Err(self.contended())
    }

    /// What is known, once; else what is read. The last says which.
    async fn look_unless(
        &self,
        known: &mut Option<Look<S::Version>>,
        name: &LockName,
    ) -> Result<(Option<Found<S::Version>>, Now, bool), Error> {
        if let Some((found, now)) = known.take() {
            return Ok((found, now, false));
        }
        let (found, now) = self.look(name).await?;
        Ok((found, now, true))
    }
}

/// The lease may have ended by this call, and the lock may be another's since. The runtime knows
/// whether it can have ended by itself.
fn overtaken() -> Error {
    Error::new(
        ErrorKind::Unknown,
        "the answer to an unlock was lost, and the lock has changed since: ask again",
    )
}

fn ended(
    before: Record,
    owner: &Owner,
    now: Now,
    at_least: Duration,
    slot: Option<(Slot, SlotEnd)>,
) -> Result<Record, Error> {
    let mut record = before;
    record.owner = owner.released();
    record.locked_until = now.past();
    if !at_least.is_zero() {
        let acquired_at = record.locked_at.unwrap_or(now.told);
        let kept = now.end_from(acquired_at, at_least)?;
        record.locked_until = record.locked_until.max(kept);
    }
    match slot {
        Some((_, SlotEnd::Failed { retry_after })) if !retry_after.is_zero() => {
            record.locked_until = record.locked_until.max(now.end_of(retry_after)?);
        }
        Some((slot, end)) => record.slots = record.slots.ended(slot, end),
        None => {}
    }
    Ok(record)
}
