//! The mistakes that a conditional store can make: those of the model, with the real rules.

use std::time::SystemTime;

use shedlock_core::{
    Attempt, AttemptRequest, Completion, Error, ErrorKind, ExtendRequest, Extension,
    ForceUnlockRequest, Lease, LockName, LockProvider, LockState, Owner, ResetSlotRequest, SlotEnd,
    Unlock, UnlockRequest,
};

use super::{Store, at_once};
use crate::Wrong;
use crate::ledger::Ending;

impl Store {
    pub(super) fn memory_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        match self.wrong {
            Some(Wrong::OwnerIsHost) => {
                let asked = with_owner(request, self.host_of(request.owner())?);
                let answer = at_once(self.memory.attempt(&asked))?;
                Ok(match answer {
                    Attempt::Acquired(lease) => Attempt::Acquired(passed_on(request, &lease)),
                    skipped => skipped,
                })
            }
            Some(Wrong::TokenOnExpiryOnly) => {
                let before = self.ledger.grant_of(request.name().as_str());
                let answer = at_once(self.memory.attempt(request))?;
                Ok(match (answer, before) {
                    (Attempt::Acquired(lease), Some(before))
                        if matches!(before.ended, Some(Ending::Unlocked { .. })) =>
                    {
                        Attempt::Acquired(lease.with_fencing_token(before.token.unwrap_or(0)))
                    }
                    (answer, _) => answer,
                })
            }
            Some(Wrong::OwnerReturns) => {
                let answer = at_once(self.memory.attempt(request));
                if !answer
                    .as_ref()
                    .is_err_and(|error| error.kind() == ErrorKind::Lost)
                {
                    return answer;
                }
                // Its mark now belongs to another owner.
                let name = request.name();
                let long_ago = SystemTime::UNIX_EPOCH;
                self.memory
                    .write_as_shedlock(name, "another", long_ago, long_ago);
                at_once(self.memory.attempt(request))
            }
            Some(Wrong::SlotsAnyOrder) => {
                self.give_up_open_slot(request)?;
                at_once(self.memory.attempt(request))
            }
            _ => at_once(self.memory.attempt(request)),
        }
    }

    pub(super) fn memory_withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        match self.wrong {
            Some(Wrong::UnusedSlotKept) => {
                at_once(self.memory.withdraw(&request.clone().without_slot()))
            }
            _ => at_once(self.memory.withdraw(request)),
        }
    }

    pub(super) fn memory_extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        match self.wrong {
            Some(Wrong::OwnerIsHost) => {
                let lease = lease_of(lease, self.host_of(lease.owner())?);
                at_once(self.memory.extend(&lease, request))
            }
            Some(Wrong::ExtendWithoutOwner) => {
                let owner = self.holder(lease.name()).unwrap_or(lease.owner().clone());
                let answer = at_once(self.memory.extend(&lease_of(lease, owner), request))?;
                Ok(match answer {
                    Extension::Extended(extended) => {
                        Extension::Extended(lease_of(&extended, lease.owner().clone()))
                    }
                    lost => lost,
                })
            }
            Some(Wrong::ExtensionShortens) => {
                let answer = at_once(self.memory.extend(lease, request))?;
                let now = self.world.calendar();
                let until = now + request.lock_at_most_for();
                match answer {
                    Extension::Extended(extended) if extended.locked_until() > Some(until) => {
                        let at = extended.acquired_at().unwrap_or(now);
                        let owner = lease.owner().as_str();
                        self.memory
                            .write_as_shedlock(lease.name(), owner, at, until);
                        Ok(Extension::Extended(extended.with_locked_until(until)))
                    }
                    answer => Ok(answer),
                }
            }
            _ => at_once(self.memory.extend(lease, request)),
        }
    }

    pub(super) fn memory_unlock(
        &self,
        lease: &Lease,
        request: &UnlockRequest,
    ) -> Result<Unlock, Error> {
        let name = lease.name();
        match self.wrong {
            Some(Wrong::OwnerIsHost) => {
                let lease = lease_of(lease, self.host_of(lease.owner())?);
                at_once(self.memory.unlock(&lease, request))
            }
            Some(Wrong::UnlockWithoutOwner) => {
                let answer = at_once(self.memory.unlock(lease, request))?;
                if answer == Unlock::Unlocked || self.holder(name).is_none() {
                    return Ok(answer);
                }
                let anybody = ForceUnlockRequest::new(name.clone());
                at_once(self.memory.force_unlock(&anybody))?;
                Ok(Unlock::Unlocked)
            }
            Some(Wrong::AtLeastForgotten) => {
                let request = request.clone().ignoring_at_least();
                at_once(self.memory.unlock(lease, &request))
            }
            Some(Wrong::AtLeastTooEarly) => {
                let short = AttemptRequest::new(
                    name.clone(),
                    lease.owner().clone(),
                    lease.lock_at_most_for(),
                );
                let short = short.with_lock_at_least_for(lease.lock_at_least_for() / 2);
                at_once(self.memory.unlock(&Lease::granted(&short), request))
            }
            Some(Wrong::SlotOfLeaseOnly) => {
                let answer = at_once(self.memory.unlock(lease, request))?;
                if answer == Unlock::Unlocked {
                    self.memory.remove(name);
                }
                Ok(answer)
            }
            Some(Wrong::UnusedSlotKept) if request.slot_end() == SlotEnd::NotStarted => {
                let request = UnlockRequest::new().ignoring_at_least();
                at_once(self.memory.unlock(lease, &request))
            }
            _ => at_once(self.memory.unlock(lease, request)),
        }
    }

    /// Whether the owners in records match the ledger. Not if the owner is the host.
    pub(super) fn has_true_owners(&self) -> bool {
        self.wrong != Some(Wrong::OwnerIsHost)
    }

    fn host_of(&self, owner: &Owner) -> Result<Owner, Error> {
        let node = self.ledger.node_of(owner.as_str()).unwrap_or(0);
        Owner::parse(&format!("node-{node}/1/0"))
    }

    /// The current holder of the lock.
    fn holder(&self, name: &LockName) -> Option<Owner> {
        let record = at_once(self.memory.inspect(name)).ok().flatten()?;
        let owner = record.owner.filter(|_| record.state == LockState::Held)?;
        Owner::parse(&owner).ok()
    }

    fn give_up_open_slot(&self, request: &AttemptRequest) -> Result<(), Error> {
        let name = request.name();
        let record = at_once(self.memory.inspect(name))?;
        let open = record
            .filter(|record| record.state == LockState::Free && record.slot_attempts.is_some())
            .and_then(|record| record.last_slot);
        let is_later = open.is_some_and(|open| request.slot() > Some(open));
        if let Some(open) = open
            && is_later
            && request.completion() != Completion::WhenTaken
        {
            let reset = ResetSlotRequest::new(name.clone()).with_slot(open);
            at_once(self.memory.reset_slot(&reset))?;
        }
        Ok(())
    }
}

fn with_owner(request: &AttemptRequest, owner: Owner) -> AttemptRequest {
    let at_most = request.lock_at_most_for();
    let mut other = AttemptRequest::new(request.name().clone(), owner, at_most)
        .with_lock_at_least_for(request.lock_at_least_for())
        .with_completion(request.completion());
    if let Some(slot) = request.slot() {
        other = other.with_slot(slot);
    }
    other
}

/// Returns one owner's lease as the lease of the requester.
fn passed_on(request: &AttemptRequest, lease: &Lease) -> Lease {
    let mut passed = Lease::granted(request).with_slot_attempt(lease.slot_attempt());
    if let Some(token) = lease.fencing_token() {
        passed = passed.with_fencing_token(token);
    }
    if let Some(at) = lease.acquired_at() {
        passed = passed.with_acquired_at(at);
    }
    match lease.locked_until() {
        Some(until) => passed.with_locked_until(until),
        None => passed,
    }
}

fn lease_of(lease: &Lease, owner: Owner) -> Lease {
    let at_most = lease.lock_at_most_for();
    let mut request = AttemptRequest::new(lease.name().clone(), owner, at_most)
        .with_lock_at_least_for(lease.lock_at_least_for());
    if let Some(slot) = lease.slot() {
        request = request.with_slot(slot);
    }
    passed_on(&request, lease)
}
