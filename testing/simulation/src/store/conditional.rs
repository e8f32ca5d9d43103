//! A store that evaluates the condition itself, as SQL and Redis do, and its client.

use std::sync::Arc;
use std::time::SystemTime;

use shedlock_core::admin::{Change, Changed, LeaseChange, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, BoundedAttempt, BoxFuture, Capabilities, Error, ErrorKind,
    ExtendRequest, Extension, Lease, ListRequest, LockName, LockProvider, LockRecord,
    ProviderIdentity, Slot, SlotEnd, StoreClock, Unlock, UnlockRequest,
};

use shedlock_proof::Mistake;
use shedlock_proof::history::Stored;
use shedlock_provider::whole_millis;

use super::{Store, at_once};
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
        if is_late && self.is_free(&request.name) {
            if not_after > SystemTime::UNIX_EPOCH {
                self.chronicle.count(Transition::RefusedAsLate);
            }
            return Ok(BoundedAttempt::TooLate { store_time });
        }
        self.attempt_in_time(request).map(BoundedAttempt::Judged)
    }

    /// Whether an attempt could be granted. An attempt for a slot that is used up is refused here
    /// as late rather than as taken: it only matters that it is not granted.
    fn is_free(&self, name: &LockName) -> bool {
        let until = self.record(name).and_then(|record| record.locked_until);
        until.is_none_or(|until| until <= self.world.calendar())
    }

    fn attempt_in_time(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let name = &request.name;
        let before = self.record(name);
        let answer = at_once(self.mistaken.attempt(request));
        match &answer {
            Ok(Attempt::Acquired(lease)) => {
                let now = instant_of(whole_millis(self.world.calendar()));
                let at = lease.acquired_at().map_or(now, instant_of);
                // Two copies of one attempt may arrive in the same millisecond. A mistake may change the token of the
                // lease, but not that of the record.
                let token = self.record(name).and_then(|record| record.fencing_token);
                let is_found = before.is_some_and(|before| {
                    before.owner.as_deref() == Some(request.owner.as_str())
                        && before.locked_at == lease.acquired_at()
                        && before.fencing_token == token
                });
                if at == now && !is_found {
                    let granted = Stored::Granted {
                        token: lease.fencing_token(),
                        slot: lease.slot().map(Slot::as_micros),
                        from: at,
                        until: lease.locked_until().map_or(now, instant_of),
                        is_copy: self.chronicle.is_copy(),
                    };
                    self.chronicle.stored(name, request.owner.as_str(), granted);
                } else {
                    self.chronicle.count(Transition::FoundItself);
                }
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                self.chronicle.count(Transition::RefusedAsEnded);
            }
            _ => {}
        }
        self.compare(name);
        answer
    }

    pub(super) fn withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        let name = &request.name;
        let before = self.record(name);
        let answer = at_once(self.mistaken.withdraw(request));
        if let Ok(true) = answer {
            let owner = request.owner.as_str();
            self.write_of_end(name, owner, before.as_ref(), true, false);
        }
        self.compare(name);
        answer
    }

    pub(super) fn extend(
        &self,
        lease: &Lease,
        request: &ExtendRequest,
    ) -> Result<Extension, Error> {
        let name = lease.name();
        let answer = at_once(self.mistaken.extend(lease, request));
        if let Ok(Extension::Extended(_)) = &answer {
            let until = self.record(name).and_then(|record| record.locked_until);
            let until = until.map_or(0, instant_of);
            let owner = lease.owner().as_str();
            self.chronicle
                .stored(name, owner, Stored::Extended { until });
        }
        self.compare(name);
        answer
    }

    pub(super) fn unlock(&self, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let (name, owner) = (lease.name(), lease.owner().as_str());
        let before = self.record(name);
        let answer = at_once(self.mistaken.unlock(lease, request));
        if let Ok(Unlock::Unlocked) = answer {
            let is_done = matches!(request.slot_end, SlotEnd::Done { .. });
            self.write_of_end(name, owner, before.as_ref(), false, is_done);
        }
        self.compare(name);
        answer
    }

    /// Records the end of this owner's lease, unless the record is as before: a repeated call returns
    /// the same result.
    fn write_of_end(
        &self,
        name: &LockName,
        owner: &str,
        before: Option<&LockRecord>,
        is_withdrawn: bool,
        is_done: bool,
    ) {
        let after = self.record(name);
        if after.as_ref() == before {
            return;
        }
        let free = after.as_ref().and_then(|record| record.locked_until);
        let ended = Stored::Ended {
            is_withdrawn: Some(is_withdrawn),
            is_done,
            free: free.map_or(0, instant_of),
        };
        self.chronicle.stored(name, owner, ended);
        let last = after.as_ref().and_then(|record| record.last_slot);
        let slots = Stored::Slots {
            last: last.map(Slot::as_micros),
            attempts: after.and_then(|record| record.slot_attempts),
        };
        self.chronicle.stored(name, owner, slots);
    }

    fn change(&self, name: &LockName, seen: &Seen, change: &Change) -> Result<Changed, Error> {
        let answer = at_once(self.memory.change(name, seen, change));
        if let (Ok(Changed::Done), LeaseChange::End { .. }) = (&answer, &change.lease) {
            self.chronicle.stored(name, "", Stored::Freed);
        }
        answer
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
            capabilities: shedlock_provider::MemoryProvider::new().capabilities(),
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

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        let name = name.clone();
        let call = move |store: &Store| at_once(store.memory.look(&name));
        Box::pin(self.link.call(call))
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        let (name, seen, change) = (name.clone(), seen.clone(), change.clone());
        let call = move |store: &Store| store.change(&name, &seen, &change);
        Box::pin(self.link.call(call))
    }

    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        let (name, seen) = (name.clone(), seen.clone());
        let call = move |store: &Store| at_once(store.memory.remove(&name, &seen));
        Box::pin(self.link.call(call))
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
