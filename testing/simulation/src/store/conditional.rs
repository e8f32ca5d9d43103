//! A store that evaluates the condition itself, as SQL and Redis do, and its client.

use std::sync::Arc;
use std::time::SystemTime;

use shedlock_core::{
    Attempt, AttemptRequest, BoundedAttempt, BoxFuture, Capabilities, Error, ErrorKind,
    ExtendRequest, Extension, ForceUnlockRequest, ForcedUnlock, Lease, ListRequest, LockName,
    LockProvider, LockRecord, ProviderIdentity, SkipReason, SlotEnd, SlotState, StoreClock, Unlock,
    UnlockRequest,
};

use shedlock_proof::Mistake;

use super::{Store, at_once};
use crate::ledger::{Ending, Grant};
use crate::transition::Transition;
use crate::world::{Link, NodeClock, instant_of};

impl Store {
    /// Judges an attempt with the record in hand, by the store's own clock.
    pub(super) fn attempt(
        &self,
        request: &AttemptRequest,
        not_after: SystemTime,
    ) -> Result<BoundedAttempt, Error> {
        let store_time = self.world.calendar();
        let is_late = store_time > not_after && self.wrong != Some(Mistake::LateAttempt);
        if is_late && self.is_free(request.name()) {
            if not_after > SystemTime::UNIX_EPOCH {
                self.ledger.count(Transition::RefusedAsLate);
            }
            return Ok(BoundedAttempt::TooLate { store_time });
        }
        self.attempt_in_time(request).map(BoundedAttempt::Judged)
    }

    /// Whether an attempt could be granted. An attempt for a slot that is used up is refused here
    /// as late rather than as taken: it only matters that it is not granted.
    fn is_free(&self, name: &LockName) -> bool {
        let record = at_once(self.memory.inspect(name)).ok().flatten();
        let until = record.and_then(|record| record.locked_until);
        until.is_none_or(|until| until <= self.world.calendar())
    }

    fn attempt_in_time(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let name = request.name();
        let answer = at_once(self.mistaken.attempt(request));
        match &answer {
            Ok(Attempt::Acquired(lease)) => {
                let now = self.world.now();
                let at = lease.acquired_at().map_or(now, instant_of);
                if at == now {
                    let grant = Grant {
                        owner: request.owner().to_string(),
                        token: lease.fencing_token(),
                        slot: lease.slot(),
                        at,
                        counts_from: at,
                        until: lease.locked_until().map_or(now, instant_of),
                        ended: None,
                        is_double: false,
                    };
                    self.ledger.granted(name.as_str(), grant);
                } else {
                    self.ledger.count(Transition::FoundItself);
                }
            }
            Ok(Attempt::Skipped(skip)) => self.ledger.count(skipped(skip.reason)),
            Err(error) if error.kind() == ErrorKind::Lost => {
                self.ledger.count(Transition::RefusedAsEnded);
            }
            Err(_) => {}
            Ok(_) => {}
        }
        self.compare(name);
        answer
    }

    pub(super) fn withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        let ended = at_once(self.mistaken.withdraw(request));
        if let Ok(true) = ended {
            let (name, owner) = (request.name().as_str(), request.owner().as_str());
            let now = self.world.now();
            self.ledger.ended(name, owner, Ending::Withdrawn, now);
            self.tell_of_slots(request.name(), owner);
        }
        self.compare(request.name());
        ended
    }

    pub(super) fn extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        let answer = at_once(self.mistaken.extend(lease, request));
        if let Ok(Extension::Extended(extended)) = &answer {
            let until = extended.locked_until().map_or(0, instant_of);
            let (name, owner) = (lease.name().as_str(), lease.owner().as_str());
            self.ledger.extended(name, owner, until);
        }
        self.compare(lease.name());
        answer
    }

    pub(super) fn unlock(&self, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let (name, owner) = (lease.name(), lease.owner().as_str());
        let answer = at_once(self.mistaken.unlock(lease, request));
        // If repeated, it returns the same result.
        if let Ok(Unlock::Unlocked) = answer
            && !self.ledger.is_over(name.as_str(), owner)
        {
            let is_done = matches!(request.slot_end(), SlotEnd::Done { .. });
            let record = at_once(self.memory.inspect(name)).ok().flatten();
            let free = record.and_then(|record| record.locked_until);
            let ending = Ending::Unlocked { is_done };
            self.ledger
                .ended(name.as_str(), owner, ending, free.map_or(0, instant_of));
            self.tell_of_slots(name, owner);
        }
        self.compare(name);
        answer
    }

    fn tell_of_slots(&self, name: &LockName, owner: &str) {
        let Some(record) = at_once(self.memory.inspect(name)).ok().flatten() else {
            return;
        };
        let (last, done) = (record.last_slot, record.last_slot_done);
        let after = SlotState::new(last, done, record.slot_attempts);
        self.ledger.left_slots(name.as_str(), owner, after);
    }

    fn force_unlock(&self, request: &ForceUnlockRequest) -> Result<ForcedUnlock, Error> {
        let answer = at_once(self.memory.force_unlock(request));
        if let Ok(ForcedUnlock::Freed(_)) = &answer {
            self.ledger.forced(request.name().as_str());
        }
        answer
    }
}

pub(super) fn skipped(reason: SkipReason) -> Transition {
    match reason {
        SkipReason::AtLeast => Transition::SkippedByAtLeast,
        SkipReason::SlotTaken | SkipReason::SlotGivenUp => Transition::SlotRefused,
        SkipReason::SlotPending => Transition::SlotPending,
        SkipReason::BackingOff => Transition::SlotBackingOff,
        SkipReason::Contended => Transition::LostRace,
        _ => Transition::SkippedAsHeld,
    }
}

/// Sends each call to the store unchanged.
#[derive(Debug)]
pub(crate) struct Conditional {
    link: Link,
    clock: StoreClock,
    identity: ProviderIdentity,
    capabilities: Capabilities,
}

impl Conditional {
    pub(crate) fn new(link: Link, clock: &NodeClock) -> Self {
        Self {
            link,
            clock: StoreClock::with_clock(Arc::new(clock.clone())),
            identity: ProviderIdentity::unique(),
            capabilities: shedlock_core::MemoryProvider::new().capabilities(),
        }
    }
}

impl LockProvider for Conditional {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(self.clock.attempt(request, move |not_after| {
            let request = request.clone();
            let call = self.link.call(move |store| {
                let answer = store.attempt(&request, not_after)?;
                Ok((answer, store.world.calendar()))
            });
            async {
                let (answer, store_time) = call.await?;
                self.clock.observe(store_time);
                Ok(answer)
            }
        }))
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        let request = request.clone();
        Box::pin(self.link.call(move |store| store.withdraw(&request)))
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        let (lease, request) = (lease.clone(), request.clone());
        Box::pin(self.link.call(move |store| store.extend(&lease, &request)))
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        let (lease, request) = (lease.clone(), request.clone());
        Box::pin(self.link.call(move |store| store.unlock(&lease, &request)))
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        let name = name.clone();
        Box::pin(
            self.link
                .call(move |store| at_once(store.memory.inspect(&name))),
        )
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        let request = request.clone();
        Box::pin(
            self.link
                .call(move |store| at_once(store.memory.list(&request))),
        )
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForcedUnlock, Error>> {
        let request = request.clone();
        Box::pin(self.link.call(move |store| store.force_unlock(&request)))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.link.call(|_| Ok(())))
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        "simulated"
    }
}
