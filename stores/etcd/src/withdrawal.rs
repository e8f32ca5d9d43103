//! Withdrawing an attempt.

use std::time::{Duration, UNIX_EPOCH};

use shedlock_core::{AttemptRequest, Error, Owner, SlotEnd};
use shedlock_store::Record;

use crate::EtcdProvider;
use crate::ending::{End, Ended};
use crate::found::Found;
use crate::provider::{Held, ROUNDS};
use crate::txn::{Change, Changed, Own, contended};

impl EtcdProvider {
    /// Ends the lease that the attempt has won, if it has; true if there was one.
    ///
    /// Otherwise a copy of the attempt may still be on its way. Its transaction needs the record beside
    /// the lock at the revision that was read before it was sent, or that there was none. So that record
    /// is put again, or a released one is put where there is none: then the copy is refused whenever it
    /// arrives. A race that is lost here may have been won by the copy, so the keys are judged again.
    pub(crate) async fn try_withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        let pair = self.keys().of(request.name())?;
        let mut found = self.look(&pair).await?;
        for _ in 0..ROUNDS {
            if found.held_by(request.owner()).is_some() {
                match self.end_won(request, found).await? {
                    Ended::Now => return Ok(true),
                    Ended::Before => return Ok(false),
                    Ended::Lost => {
                        found = self.look(&pair).await?;
                        continue;
                    }
                }
            }
            if found.is_released_by(request.owner()) || !found.admits_copies() {
                return Ok(false);
            }
            let kept = found.kept.as_ref().map(|kept| kept.record.clone());
            let change = Change {
                pair: &pair,
                before: &found,
                lock: Own::Leave,
                record: Some(kept.unwrap_or_else(|| withdrawn(request.owner()))),
            };
            match self.change(&change).await? {
                Changed::Done(_) => return Ok(false),
                Changed::Raced(now) | Changed::Overtaken(now) => found = now,
                Changed::LeaseGone => found = self.look(&pair).await?,
            }
        }
        Err(contended())
    }

    /// At once: its task never ran.
    async fn end_won(&self, request: &AttemptRequest, found: Found) -> Result<Ended, Error> {
        let held = Held {
            found,
            since: self.clock().now(),
            ends: None,
        };
        let end = End {
            name: request.name(),
            owner: request.owner(),
            held: Some(&held),
            at_least: Duration::ZERO,
            slot: request.slot().map(|slot| (slot, SlotEnd::NotStarted)),
        };
        self.end(&end).await
    }
}

/// The record of a lock that no one has acquired.
fn withdrawn(owner: &Owner) -> Record {
    let mut record = Record::until(UNIX_EPOCH);
    record.owner = owner.released();
    record
}
