//! Extending and ending a lease.

use std::sync::Arc;

use shedlock_core::admin::Changed;
use shedlock_core::{ExtendRequest, Extension, Lease, LockName, SlotEnd};

use super::engine::Look;
use super::time::Now;
use super::{Found, Record, Versioned, VersionedStore};
use crate::errors::{ROUNDS, contended};
use crate::errors::{Result, overtaken};
use crate::store::{End, Ended};

impl<S: VersionedStore> Versioned<S> {
    pub(crate) async fn prolong(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension> {
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
            // The replaced version is still current, so its end may be the one to keep.
            let end = now.end_of(request.lock_at_most_for)?;
            let locked_until = before.record.locked_until.max(end);
            let record = Record {
                locked_until,
                ..before.record
            };
            let written = self.write(lease.name(), Some(&before.version), record);
            if let (_, Some(found)) = written.await? {
                let extended = lease.extended(request).with_locked_until(locked_until);
                return Ok(Extension::Extended(extended.with_state(Arc::new(found))));
            }
        }
        Err(contended())
    }

    /// Ends this owner's lease. Afterwards the record names no holder.
    pub(crate) async fn finish(
        &self,
        end: &End<'_>,
        mut known: Option<Look<S::Version>>,
    ) -> Result<Ended> {
        let End { name, owner, .. } = *end;
        let released = owner.released();
        let mut was_overtaken = false;
        for _ in 0..ROUNDS {
            let (found, now, is_fresh) = self.look_unless(&mut known, name).await?;
            let is_ended = |found: &Found<_>| found.record.owner == released;
            if found.as_ref().is_some_and(is_ended) {
                return Ok(Ended::ByAnEarlierCall);
            }
            let is_ours = |found: &Found<_>| match end.includes_expired() {
                true => found.record.owner == owner.as_str(),
                false => found.record.is_held_by(owner, now),
            };
            let Some(before) = found.filter(is_ours) else {
                if !is_fresh {
                    continue;
                }
                if was_overtaken {
                    return Err(overtaken());
                }
                return Ok(Ended::Lost);
            };
            let record = ended(before.record, end, &released, now)?;
            let written = self.write(name, Some(&before.version), record);
            match written.await?.0 {
                Changed::Done => return Ok(Ended::ByThisCall),
                Changed::Raced => {}
                Changed::Overtaken => was_overtaken = true,
            }
        }
        Err(contended())
    }

    /// Returns the known record the first time, and reads it afterwards. The last value is whether
    /// it was read.
    async fn look_unless(
        &self,
        known: &mut Option<Look<S::Version>>,
        name: &LockName,
    ) -> Result<(Option<Found<S::Version>>, Now, bool)> {
        if let Some((found, now)) = known.take() {
            return Ok((found, now, false));
        }
        let (found, now) = self.read(name).await?;
        Ok((found, now, true))
    }
}

fn ended(before: Record, end: &End<'_>, released: &str, now: Now) -> Result<Record> {
    let mut record = before;
    released.clone_into(&mut record.owner);
    record.locked_until = now.past();
    if !end.at_least.is_zero() {
        let acquired_at = record.locked_at.unwrap_or(now.told);
        let kept = now.end_from(acquired_at, end.at_least)?;
        record.locked_until = record.locked_until.max(kept);
    }
    match end.slot {
        Some((_, SlotEnd::Failed { retry_after })) if !retry_after.is_zero() => {
            record.locked_until = record.locked_until.max(now.end_of(retry_after)?);
        }
        Some((slot, end)) => record.slots = record.slots.ended(slot, end),
        None => {}
    }
    Ok(record)
}
