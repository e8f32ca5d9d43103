//! Ending a lease, also on a store that is full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use shedlock_core::LockName;
use shedlock_core::admin::Changed;
use shedlock_provider::{End, Ended, ROUNDS, Record, Result, contended, overtaken, whole_millis};

use crate::codec::released;
use crate::explain::is_full;
use crate::found::{Found, KeyChange};
use crate::store::{EtcdStore, LeaseState};

impl EtcdStore {
    /// Ends an owner's lease, starting from the known state of its lock. Afterwards the lock names no holder.
    pub(crate) async fn finish(&self, end: &End<'_>, mut found: Found) -> Result<Ended> {
        let held = end.lease.and_then(|lease| lease.state::<LeaseState>());
        let unmarked = held.map(|held| &held.ended_unmarked);
        for _ in 0..ROUNDS {
            if found.is_released_by(end.owner) {
                return Ok(Ended::ByAnEarlierCall);
            }
            let lock = found.held_by(end.owner);
            if lock.is_none() && !(end.includes_expired() && found.names(end.owner)) {
                let was_sent = unmarked.is_some_and(|it| it.load(Ordering::Relaxed));
                return Ok(match was_sent && found.names(end.owner) {
                    true => Ended::ByAnEarlierCall,
                    false => Ended::Lost,
                });
            }
            let now = self.clock.system_time();
            let mut until = whole_millis(now);
            let kept = self.kept_for(end, &found, now);
            let mut own = KeyChange::Delete;
            if let Some(lock) = lock.filter(|_| !kept.is_zero()) {
                let granted = self.grant(kept).await?;
                until += granted.lasts;
                own = KeyChange::Put(released(&lock.value), granted.id);
            }
            let record = ended(end, &found, until);
            let change = self.end_keys(end.name, &found, own, Some(record), unmarked);
            let (changed, now) = change.await?;
            if changed == Changed::Done {
                if let Some(lock) = lock {
                    self.revoke(lock.lease);
                }
                return Ok(Ended::ByThisCall);
            }
            let is_over = now.held_by(end.owner).is_none() && !now.is_released_by(end.owner);
            if changed == Changed::Overtaken && is_over {
                return Err(overtaken());
            }
            found = now;
        }
        Err(contended())
    }

    /// Changes both keys. A store that is full refuses to write the record, but not to delete the lock's own key. So
    /// the lock is then ended without a mark in the record, if the record would lose nothing but the mark: it keeps
    /// the slots and the revision that refuses late copies, and the fencing token comes from the store's revision.
    ///
    /// `unmarked` is set unless such an end certainly had no effect. Its repetition is then not taken for an expired
    /// lease.
    pub(crate) async fn end_keys(
        &self,
        name: &LockName,
        before: &Found,
        lock: KeyChange,
        record: Option<Record>,
        unmarked: Option<&AtomicBool>,
    ) -> Result<(Changed, Found)> {
        let slots = record.as_ref().map(|record| record.slots);
        let can_be_unmarked = matches!(lock, KeyChange::Delete)
            && slots.is_none_or(|slots| slots == before.record().slots);
        match self.change_keys(name, before, lock, record).await {
            Err(error) if can_be_unmarked && is_full(&error) => {}
            changed => return changed,
        }
        let was_sent = unmarked.is_some_and(|it| it.swap(true, Ordering::Relaxed));
        let change = self.change_keys(name, before, KeyChange::Delete, None);
        let changed = change.await?;
        if let (Changed::Raced, Some(unmarked)) = (changed.0, unmarked) {
            unmarked.store(was_sent, Ordering::Relaxed);
        }
        Ok(changed)
    }

    /// Returns how much longer the lock is kept after its unlock.
    fn kept_for(&self, end: &End<'_>, found: &Found, now: SystemTime) -> Duration {
        let held = end.lease.and_then(|lease| lease.state::<LeaseState>());
        // Counted from the reply, which arrived no earlier than the lock was taken.
        let held_for = held.map(|held| self.clock.now().at_least_since(held.since));
        // If the lease was won elsewhere, the record and the clocks of that host and this one decide.
        let at = found.record().locked_at;
        let held_for = held_for.or(at.and_then(|at| now.duration_since(at).ok()));
        let at_least = end.at_least.saturating_sub(held_for.unwrap_or_default());
        at_least.max(end.retry_after())
    }
}

fn ended(end: &End<'_>, before: &Found, until: SystemTime) -> Record {
    let mut record = before.record();
    record.owner = end.owner.released();
    record.locked_until = until;
    // If the record was deleted, the lock's own key still contains these.
    if let Some(lock) = &before.lock {
        record.fencing_token = Some(lock.token);
        record.locked_at = record.locked_at.or(before.value().at);
    }
    if let Some((slot, end)) = end.slot {
        record.slots = record.slots.ended(slot, end);
    }
    record
}
