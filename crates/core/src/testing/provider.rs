//! A provider that grants everything.

use std::sync::Arc;
use std::time::Duration;

use crate::BoxFuture;
use crate::admin::{Change, Changed, Seen};
use crate::clock::Clock;
use crate::contract::{
    Attempt, AttemptRequest, Capabilities, ClockSource, Error, ExtendRequest, Extension, Lease,
    ListRequest, LockName, LockProvider, LockRecord, ProviderIdentity, Unlock, UnlockRequest,
};

/// Grants every lock with one fencing token, and stores nothing.
#[derive(Debug)]
pub(crate) struct Granting {
    fencing_token: u64,
    slot_attempt: Option<u32>,
    clock: Arc<dyn Clock>,
    identity: ProviderIdentity,
}

impl Granting {
    pub(crate) fn new(
        fencing_token: u64,
        slot_attempt: Option<u32>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            fencing_token,
            slot_attempt,
            clock,
            identity: ProviderIdentity::unique(),
        }
    }

    /// Returns the lease with an end that counts from now, if the calendar reaches that far.
    fn lasting(&self, lease: Lease, lock_at_most_for: Duration) -> Lease {
        match self.clock.system_time().checked_add(lock_at_most_for) {
            Some(until) => lease.with_locked_until(until),
            None => lease,
        }
    }
}

impl LockProvider for Granting {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        let lease = Lease::granted(request)
            .with_fencing_token(self.fencing_token)
            .with_slot_attempt(request.slot.and(self.slot_attempt))
            .with_acquired_at(self.clock.system_time());
        let lease = self.lasting(lease, request.lock_at_most_for);
        Box::pin(async { Ok(Attempt::Acquired(lease)) })
    }

    fn withdraw<'a>(&'a self, _: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async { Ok(true) })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        let lease = self.lasting(lease.extended(request), request.lock_at_most_for);
        Box::pin(async { Ok(Extension::Extended(lease)) })
    }

    fn unlock<'a>(
        &'a self,
        _: &'a Lease,
        _: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async { Ok(Unlock::Unlocked) })
    }

    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn look<'a>(&'a self, _: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn change<'a>(
        &'a self,
        _: &'a LockName,
        _: &'a Seen,
        _: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async { Ok(Changed::Raced) })
    }

    fn remove<'a>(&'a self, _: &'a LockName, _: &'a Seen) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(async { Ok(Changed::Raced) })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(ClockSource::Store)
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        "test"
    }
}
