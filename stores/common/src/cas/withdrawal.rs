//! Withdrawing an attempt.

use std::time::{Duration, UNIX_EPOCH};

use shedlock_core::admin::Changed;
use shedlock_core::{AttemptRequest, Owner};

use super::{Record, Versioned, VersionedStore};
use crate::errors::Result;
use crate::errors::{ROUNDS, contended};
use crate::store::{End, Ended};

const TICK: Duration = Duration::from_millis(1);

impl<S: VersionedStore> Versioned<S> {
    /// Ends the lease that the attempt has won, if any. Returns whether there was one, running or expired.
    ///
    /// Otherwise a copy of the attempt may still be on its way. The copy names the version of a free record that was
    /// read before the copy was sent, or requires that there is no record. So a free record is replaced, and a missing
    /// one is created. The store then refuses the copy whenever it arrives. If a write here loses a race, the copy may
    /// have won it, so the record is judged again.
    pub(crate) async fn take_back(&self, request: &AttemptRequest) -> Result<bool> {
        let (name, owner) = (&request.name, &request.owner);
        for _ in 0..ROUNDS {
            let (found, now) = self.read(name).await?;
            let Some(before) = found else {
                let written = self.write(name, None, withdrawn(owner));
                if written.await?.0 == Changed::Done {
                    return Ok(false);
                }
                continue;
            };
            if before.record.owner == owner.as_str() {
                let known = Some((Some(before), now));
                match self.finish(&End::withdrawn(request), known).await? {
                    Ended::ByThisCall => return Ok(true),
                    Ended::ByAnEarlierCall => return Ok(false),
                    // Another owner has taken the lock since.
                    Ended::Lost => continue,
                }
            }
            let record = &before.record;
            if record.is_locked(now) || owner.has_ended_in(&record.owner) {
                return Ok(false);
            }
            let replaced = replaced(before.record, owner);
            let written = self.write(name, Some(&before.version), replaced);
            if written.await?.0 == Changed::Done {
                return Ok(false);
            }
        }
        Err(contended())
    }
}

/// Returns the record of a lock that no one has acquired: free at once, whichever clock judges it.
fn withdrawn(owner: &Owner) -> Record {
    let mut record = Record::until(UNIX_EPOCH);
    record.owner = owner.released();
    record
}

/// Returns an equivalent free record that is not equal to the old one, so that no store keeps its version. Its end
/// moves back: if it moved forward, it could lie in the future of a clock that is behind.
///
/// A record without an owner and without a start was deleted by hand, at least in part. It is marked as one of ours,
/// because a store may treat an empty record as a new acquisition by ShedLock.
fn replaced(before: Record, owner: &Owner) -> Record {
    let earlier = before.locked_until.checked_sub(TICK);
    let earlier = earlier.filter(|end| *end >= UNIX_EPOCH);
    let mut record = before;
    record.locked_until = earlier.unwrap_or(UNIX_EPOCH + TICK);
    if record.owner.is_empty() && record.locked_at.is_none() {
        record.owner = owner.released();
    }
    record
}
