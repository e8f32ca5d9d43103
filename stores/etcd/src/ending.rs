//! Extending a lease, and ending it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    Error, ErrorKind, ExtendRequest, Extension, Lease, LockName, Owner, Slot, SlotEnd,
};
use shedlock_store::Record;

use crate::EtcdProvider;
use crate::found::Found;
use crate::granted::{Left, seconds};
use crate::provider::{Held, ROUNDS};
use crate::txn::{Change, Changed, Own, contended};
use crate::value::{released, whole_millis};

/// How an owner's lease ended.
pub(crate) enum Ended {
    /// By this call.
    Now,
    /// By an earlier call of this owner.
    Before,
    /// Otherwise: it ran out, or the lock is another's by now.
    Lost,
}

/// What is asked of the end of a lease.
pub(crate) struct End<'a> {
    pub(crate) name: &'a LockName,
    pub(crate) owner: &'a Owner,
    /// What is known of it, where it was won here.
    pub(crate) held: Option<&'a Held>,
    pub(crate) at_least: Duration,
    pub(crate) slot: Option<(Slot, SlotEnd)>,
}

impl EtcdProvider {
    /// Moves the lock's own key to a new lease of the store. To keep the old one alive would be one
    /// write less, but that is not agreed on by the cluster: a leader that was paused ends leases by
    /// what it knew, also those that were kept alive elsewhere meanwhile.
    ///
    /// Where the old one lasts longer than is asked for, the lock keeps it: nothing is written.
    pub(crate) async fn try_extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        request.validate(lease.lock_at_least_for())?;
        seconds(request.lock_at_most_for(), "lock_at_most_for")?;
        let pair = self.keys().of(lease.name())?;
        let held = lease.state::<Held>();
        let since = held.map_or_else(|| self.clock().now(), |held| held.since);
        // What is known from before may be out of date: then the change is not made, and the answer
        // says what is there.
        let mut found = match held {
            Some(held) => held.found.clone(),
            None => self.look(&pair).await?,
        };
        for _ in 0..ROUNDS {
            let Some(lock) = found.held_by(lease.owner()) else {
                return Ok(Extension::Lost);
            };
            let old = lock.lease;
            let left = self.left_of_lock(held, old).await?;
            if self.clock().now() + request.lock_at_most_for() <= left.ends {
                found = self.look(&pair).await?;
                if found.held_by(lease.owner()).is_some() && found.ends_with(old) {
                    let until = found.end_of(lease);
                    let state = Held {
                        found,
                        since,
                        ends: Some(left.ends),
                    };
                    return Ok(Extension::Extended(extended(lease, request, until, state)));
                }
                continue;
            }
            let now = self.clock().system_time();
            let new = request.lock_at_most_for().max(left.at_most);
            let new = self.grant(new).await?;
            let until = whole_millis(now) + new.lasts;
            // By the wall clock, which may have been set since.
            let locked_until = found.end_of(lease).map_or(until, |end| end.max(until));
            let mut record = found.record();
            record.owner = lease.owner().to_string();
            record.locked_until = locked_until;
            record.fencing_token = Some(lock.created.unsigned_abs());
            let change = Change {
                pair: &pair,
                before: &found,
                lock: Own::Put {
                    value: lock.value.clone(),
                    lease: new.id,
                },
                record: Some(record),
            };
            match self.change(&change).await {
                Ok(Changed::Done(found)) => {
                    self.revoke_behind(old);
                    let state = Held {
                        found,
                        since,
                        ends: Some(new.ends),
                    };
                    let extended = extended(lease, request, Some(locked_until), state);
                    return Ok(Extension::Extended(extended));
                }
                Ok(Changed::Raced(now) | Changed::Overtaken(now)) => {
                    self.give_back(Some(new), &now);
                    found = now;
                }
                Ok(Changed::LeaseGone) => found = self.look(&pair).await?,
                Err(error) => {
                    // What may yet arrive needs its lease.
                    if !error.is_unknown() {
                        self.revoke_behind(new.id);
                    }
                    return Err(error);
                }
            }
        }
        Err(contended())
    }

    /// Ends this owner's lease; the lock then names nobody as holder.
    pub(crate) async fn end(&self, end: &End<'_>) -> Result<Ended, Error> {
        if let Some((_, SlotEnd::Failed { retry_after })) = end.slot {
            seconds(retry_after, "the pause of a failed slot")?;
        }
        let pair = self.keys().of(end.name)?;
        let mut found = match end.held {
            Some(held) => held.found.clone(),
            None => self.look(&pair).await?,
        };
        for _ in 0..ROUNDS {
            if found.is_released_by(end.owner) {
                return Ok(Ended::Before);
            }
            let Some(lock) = found.held_by(end.owner) else {
                return Ok(Ended::Lost);
            };
            let now = self.clock().system_time();
            let kept = self.left_of(end, &found, now);
            let granted = if kept.is_zero() {
                None
            } else {
                Some(self.grant(kept).await?)
            };
            let lasts = granted.map_or(Duration::ZERO, |granted| granted.lasts);
            let change = Change {
                pair: &pair,
                before: &found,
                lock: match granted {
                    Some(granted) => Own::Put {
                        value: released(&lock.value),
                        lease: granted.id,
                    },
                    None => Own::Delete,
                },
                record: Some(ended(end, &found, whole_millis(now) + lasts)),
            };
            let old = lock.lease;
            let answer = self.change(&change).await;
            match &answer {
                Ok(Changed::Done(_)) => self.revoke_behind(old),
                Ok(Changed::Raced(now) | Changed::Overtaken(now)) => self.give_back(granted, now),
                // What may yet arrive needs its lease.
                Err(error) if error.is_unknown() => {}
                _ => self.give_back(granted, &found),
            }
            match answer? {
                Changed::Done(_) => return Ok(Ended::Now),
                Changed::Raced(now) => found = now,
                Changed::Overtaken(now) => {
                    found = now;
                    if found.held_by(end.owner).is_none() && !found.is_released_by(end.owner) {
                        // It may have ended by this call, and somebody else may have taken the lock
                        // since: the runtime knows whether the lease can have ended by itself.
                        return Err(Error::new(
                            ErrorKind::Unknown,
                            "the answer to an unlock was lost, and the lock has changed since",
                        ));
                    }
                }
                Changed::LeaseGone => found = self.look(&pair).await?,
            }
        }
        Err(contended())
    }

    /// What is left of the lease that the lock's own key ends with: where this lease's own call was
    /// granted it, from then; otherwise as the store tells.
    async fn left_of_lock(&self, held: Option<&Held>, lease: i64) -> Result<Left, Error> {
        let known = held.filter(|held| held.found.ends_with(lease));
        match known.and_then(|held| held.ends) {
            Some(ends) => Ok(Left {
                ends,
                at_most: Duration::ZERO,
            }),
            None => self.left(lease).await,
        }
    }

    /// How much longer the lock is kept after its unlock.
    fn left_of(&self, end: &End<'_>, found: &Found, now: SystemTime) -> Duration {
        let held_for = match end.held {
            // From the answer, which came no earlier than the lock was taken.
            Some(held) => self.clock().now().saturating_since(held.since),
            // The lease was won elsewhere: by its record, and the clocks of that host and this one.
            None => found
                .record()
                .locked_at
                .and_then(|at| now.duration_since(at).ok())
                .unwrap_or_default(),
        };
        let at_least = end.at_least.saturating_sub(held_for);
        match end.slot {
            Some((_, SlotEnd::Failed { retry_after })) => at_least.max(retry_after),
            _ => at_least,
        }
    }
}

/// The lease once it was extended.
fn extended(
    lease: &Lease,
    request: &ExtendRequest,
    until: Option<SystemTime>,
    state: Held,
) -> Lease {
    let extended = lease.extended(request).with_state(Arc::new(state));
    match until {
        Some(until) => extended.with_locked_until(until),
        None => extended,
    }
}

/// The record once the lease has ended.
fn ended(end: &End<'_>, before: &Found, until: SystemTime) -> Record {
    let mut record = before.record();
    record.owner = end.owner.released();
    record.locked_until = until;
    // Where somebody has deleted the record, the lock's own key tells.
    if let Some(lock) = &before.lock {
        record.fencing_token = Some(lock.created.unsigned_abs());
        record.locked_at = record.locked_at.or(before.value().at);
    }
    if let Some((slot, end)) = end.slot {
        record.slots = record.slots.ended(slot, end);
    }
    record
}
