//! Taking a lock.

use std::sync::Arc;
use std::time::SystemTime;

use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, Lease, LockState, Skip, SkipReason, Slot,
};
use shedlock_store::Record;

use crate::EtcdProvider;
use crate::found::Found;
use crate::granted::{Granted, seconds};
use crate::provider::{Held, ROUNDS};
use crate::txn::{Change, Changed, Own};
use crate::value::{whole_millis, write};

impl EtcdProvider {
    /// Reads, judges, asks for a lease of the store, and writes if what was read still stands. Where
    /// it does not, the answer says what stands instead, and it is judged again: whoever won that
    /// race holds the lock, as a rule.
    pub(crate) async fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        request.validate()?;
        seconds(request.lock_at_most_for(), "lock_at_most_for")?;
        let pair = self.keys().of(request.name())?;
        let mut found = self.look(&pair).await?;
        let mut granted = None;
        for round in 0.. {
            let now = self.clock().system_time();
            let answer = self.judged(request, &found, granted, now);
            if !matches!(answer, Ok(None)) {
                self.give_back(granted, &found);
            }
            if let Some(answer) = answer? {
                return Ok(answer);
            }
            if round == ROUNDS {
                break;
            }
            // One lease for all rounds: it lasts no shorter than if it were counted from now, since
            // at-most is counted from before the attempt.
            let lease = match granted {
                Some(lease) => lease,
                None => self.grant(request.lock_at_most_for()).await?,
            };
            granted = Some(lease);
            let change = Change {
                pair: &pair,
                before: &found,
                lock: Own::Put {
                    value: write(now, request.owner().as_str()).into_bytes(),
                    lease: lease.id,
                },
                record: Some(taken(request, &found, now, lease)),
            };
            match self.change(&change).await {
                Ok(Changed::Done(now)) => {
                    return Ok(Attempt::Acquired(self.won(request, now, Some(lease))));
                }
                Ok(Changed::Raced(now) | Changed::Overtaken(now)) => found = now,
                Ok(Changed::LeaseGone) => {
                    granted = None;
                    found = self.look(&pair).await?;
                }
                Err(error) => {
                    // What may yet arrive needs its lease.
                    if !error.is_unknown() {
                        self.give_back(granted, &found);
                    }
                    return Err(error);
                }
            }
        }
        self.give_back(granted, &found);
        Ok(Attempt::Skipped(Skip::new(SkipReason::Contended)))
    }

    /// The answer to this request where nothing has to be written for it.
    fn judged(
        &self,
        request: &AttemptRequest,
        found: &Found,
        granted: Option<Granted>,
        now: SystemTime,
    ) -> Result<Option<Attempt>, Error> {
        // Asked again: the answer was lost.
        if found.held_by(request.owner()).is_some() {
            let lease = self.won(request, found.clone(), granted);
            return Ok(Some(Attempt::Acquired(lease)));
        }
        if found.is_endless() {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the lock's key has no lease, which neither shedlock nor ShedLock writes, and \
                 nobody would ever free it: look at it, and delete it or unlock by force",
            ));
        }
        check_slot(request, now)?;
        let seen = found.told(request.name(), now);
        let slots = found.record().slots;
        let refused = slots.refusal(request, found.value().shedlock_at(), seen.state);
        Ok(Some(Attempt::Skipped(match refused {
            Some(reason) => seen.as_skip_for(reason),
            None if seen.state != LockState::Free => seen.as_skip(),
            None if found.is_released_by(request.owner()) => return Err(Error::attempt_ended()),
            None => return Ok(None),
        })))
    }

    fn won(&self, request: &AttemptRequest, found: Found, granted: Option<Granted>) -> Lease {
        let lease = found.lease(request);
        let ends = granted.filter(|granted| found.ends_with(granted.id));
        lease.with_state(Arc::new(Held {
            found,
            since: self.clock().now(),
            ends: ends.map(|granted| granted.ends),
        }))
    }

    /// Gives back a lease of the store, unless the lock that was found ends with it after all.
    pub(crate) fn give_back(&self, granted: Option<Granted>, found: &Found) {
        if let Some(granted) = granted.filter(|granted| !found.ends_with(granted.id)) {
            self.revoke_behind(granted.id);
        }
    }
}

/// The record after this request has won.
fn taken(request: &AttemptRequest, before: &Found, now: SystemTime, lease: Granted) -> Record {
    let at = whole_millis(now);
    let mut record = Record::until(at + lease.lasts);
    record.owner = request.owner().to_string();
    record.locked_at = Some(at);
    record.slots = before.record().slots.taken(request);
    record
}

/// Refuses a slot that lies too far ahead.
fn check_slot(request: &AttemptRequest, now: SystemTime) -> Result<(), Error> {
    let Some(slot) = request.slot() else {
        return Ok(());
    };
    let latest = now.checked_add(request.slot_tolerance());
    if latest.is_none_or(|latest| slot.instant() <= latest) {
        return Ok(());
    }
    let clock = Slot::at(now).map_or_else(|_| "before 1970".to_owned(), |now| now.to_string());
    Err(Error::new(
        ErrorKind::SlotAhead,
        format!(
            "slot {slot} lies too far ahead of this host's clock ({clock}), which judges here since \
             etcd tells no time: compare the clocks of all hosts that share the locks"
        ),
    ))
}
