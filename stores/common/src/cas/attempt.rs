//! Taking a lock.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Attempt, AttemptRequest, Budget, Error, Lease, LockState, Skip, SkipReason};

use super::time::Now;
use super::{Found, Record, Versioned, VersionedStore};
use crate::errors::ROUNDS;
use crate::errors::{Result, unread};
use crate::slots::{check_slot, refusal};

impl<S: VersionedStore> Versioned<S> {
    /// Reads the record, judges it, and writes if its version is still current. Otherwise it starts over: the winner of
    /// the race usually holds the lock, and the next read finds that.
    pub(crate) async fn take(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        let name = &request.name;
        let mut has_written = false;
        for _ in 0..ROUNDS {
            budget.count();
            let look = self.read(name).await;
            // A write that lost its race may have lost to a copy of itself that a client or the network sent again.
            let unread = |error| if has_written { unread(error) } else { error };
            let (before, now) = look.map_err(unread)?;
            if let Some(found) = &before {
                // A repeated attempt whose first reply was lost.
                if found.record.is_held_by(&request.owner, now) {
                    return Ok(Attempt::Acquired(self.granted(request, found.clone())));
                }
                if let Some(skip) = refused(request, &found.record, now)? {
                    return Ok(Attempt::Skipped(skip));
                }
                if request.owner.has_ended_in(&found.record.owner) {
                    return Err(Error::attempt_ended());
                }
            } else {
                check_slot(request, now.told, CLOCK)?;
            }
            let record = self.taken(request, before.as_ref(), now)?;
            let version = before.as_ref().map(|found| &found.version);
            budget.count();
            if let (_, Some(found)) = self.write(name, version, record).await? {
                return Ok(Attempt::Acquired(self.granted(request, found)));
            }
            has_written = true;
        }
        Ok(Attempt::Skipped(Skip::new(SkipReason::Contended)))
    }

    fn taken(
        &self,
        request: &AttemptRequest,
        before: Option<&Found<S::Version>>,
        now: Now,
    ) -> Result<Record> {
        let before = before.map(|found| &found.record);
        let at_most = request.lock_at_most_for;
        let mut record = self.acquired(request.owner.as_str(), before, at_most, now)?;
        let slots = before.map(|record| record.slots.as_of(now.by_any_clock()));
        record.slots = slots.unwrap_or_default().taken(request);
        Ok(record)
    }

    /// The record of an acquisition by this owner, without its slots.
    pub(crate) fn acquired(
        &self,
        owner: &str,
        before: Option<&Record>,
        at_most: Duration,
        now: Now,
    ) -> Result<Record> {
        let mut record = Record::until(now.end_of(at_most)?);
        record.owner = owner.to_owned();
        record.locked_at = Some(now.stamp());
        let stored = before.and_then(|record| record.fencing_token);
        let next = stored.map_or(0, |token| token.saturating_add(1));
        let is_own = !self.store.has_revisions();
        record.fencing_token = is_own.then(|| next.max(now.micros()));
        Ok(record)
    }

    fn granted(&self, request: &AttemptRequest, mut found: Found<S::Version>) -> Lease {
        let revision = self.store.revision(&found.version);
        found.record = found.record.with_token_of(revision);
        found.record.as_lease(request).with_state(Arc::new(found))
    }
}

fn refused(request: &AttemptRequest, record: &Record, now: Now) -> Result<Option<Skip>> {
    check_slot(request, now.told, CLOCK)?;
    let mut seen = record.as_seen(&request.name, now);
    // An expired lease of this same owner does not block the attempt.
    if record.owner == request.owner.as_str() {
        seen.state = LockState::Free;
    }
    let latest = now.by_any_clock();
    Ok(refusal(request, &seen, record.shedlock_at(), latest))
}

const CLOCK: &str = "the reference clock";
