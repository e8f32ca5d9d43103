//! What an operator's command reads and changes.

use std::time::Duration;

use shedlock_core::admin::{Change, Changed, LeaseChange};
use shedlock_core::{LockName, LockState};
use shedlock_provider::{Result, Seen, whole_millis};

use crate::codec::write;
use crate::found::{Found, KeyChange};
use crate::store::{EtcdStore, acquired};

impl EtcdStore {
    /// Reads a lock. Two ends come from the store's lease: that of a lock that ShedLock holds, which no record contains,
    /// and that of at-least, which the record contains by the clock of the host that unlocked.
    pub(crate) async fn look_at(&self, name: &LockName) -> Result<Option<Seen<Found>>> {
        let found = self.find(name).await?;
        let mut record = found.shown(name, self.clock.system_time());
        let is_reported = record.state == LockState::AtLeast || record.locked_until.is_none();
        let lock = found.lock.as_ref().filter(|it| it.lease != 0);
        if let Some(lock) = lock.filter(|_| is_reported) {
            let left = self.left(lock.lease).await?.unwrap_or_default();
            let latest = self.clock.system_time() + left;
            let recorded = record.locked_until.unwrap_or(latest);
            record.locked_until = Some(recorded.clamp(latest - Duration::from_secs(1), latest));
        }
        let version = Some(found).filter(|found| found.lock.is_some() || found.kept.is_some());
        Ok(version.map(|version| Seen { record, version }))
    }

    pub(crate) async fn change_record(
        &self,
        name: &LockName,
        found: &Found,
        change: &Change,
    ) -> Result<Changed> {
        let now = self.clock.system_time();
        let (key, mut record) = match &change.lease {
            LeaseChange::Keep => (KeyChange::Leave, Some(found.record())),
            LeaseChange::End { owner, kept } => {
                // The record describes only our own acquisitions. Freeing a lock that ShedLock holds leaves it unchanged.
                let own = Some(found.record()).filter(|it| it.owner == found.value().owner);
                let freed = own.map(|mut record| {
                    record.owner.clone_from(owner);
                    record.locked_until = whole_millis(now);
                    record
                });
                let left = kept.and_then(|kept| kept.duration_since(now).ok());
                match (left, freed) {
                    (Some(left), Some(mut record)) => {
                        let lease = self.grant(left).await?;
                        record.locked_until += lease.lasts;
                        let at = record.locked_at.unwrap_or(now);
                        let value = write(at, owner).into_bytes();
                        (KeyChange::Put(value, lease.id), Some(record))
                    }
                    (_, freed) => (KeyChange::Delete, freed),
                }
            }
            LeaseChange::Take { owner, until } => {
                let lasts = until.duration_since(now).unwrap_or_default();
                let lease = self.grant(lasts).await?;
                let record = acquired(owner, found, now, lease);
                let value = write(now, owner).into_bytes();
                (KeyChange::Put(value, lease.id), Some(record))
            }
        };
        if let (Some(record), Some(slots)) = (&mut record, change.slots) {
            record.slots = slots;
        }
        let changed = self.end_keys(name, found, key, record, None);
        let (changed, _) = changed.await?;
        // The store's lease of the key that was deleted or replaced could last for years.
        let old = found.lock.as_ref().map_or(0, |lock| lock.lease);
        if changed == Changed::Done && change.lease != LeaseChange::Keep && old != 0 {
            self.revoke(old);
        }
        Ok(changed)
    }
}
