//! A client whose calls are reported to the ledger.

use std::sync::Arc;

use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Error, ErrorKind, ExtendRequest, Extension, Lease,
    LockProvider, SkipReason, Unlock, UnlockRequest,
};

use super::conditional::skipped;
use crate::ledger::Ledger;
use crate::transition::Transition;
use crate::world::{World, instant_of};

/// Sits between the runtime and the client of either kind of store.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn LockProvider>,
    world: World,
    ledger: Ledger,
    node: usize,
    /// Whether calls are counted here, because the store does not count them itself.
    counts: bool,
}

impl Watched {
    pub(crate) fn new(
        inner: Arc<dyn LockProvider>,
        world: &World,
        ledger: &Ledger,
        node: usize,
        counts: bool,
    ) -> Self {
        Self {
            inner,
            world: world.clone(),
            ledger: ledger.clone(),
            node,
            counts,
        }
    }
}

impl LockProvider for Watched {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let sent = self.world.now();
            self.ledger.asks(self.node, request);
            let answer = self.inner.attempt(request).await;
            if let Err(error) = &answer {
                let owner = request.owner();
                self.ledger
                    .note(|| format!("the attempt of {owner} fails: {error}"));
            }
            match &answer {
                Ok(Attempt::Acquired(lease)) => {
                    let until = lease.locked_until().map_or(0, instant_of);
                    self.ledger.wins(request.owner().as_str(), until);
                }
                Ok(Attempt::Skipped(skip)) => {
                    if matches!(skip.reason, SkipReason::Held | SkipReason::AtLeast) {
                        self.ledger.called_held(request.name().as_str(), sent);
                    }
                    if self.counts {
                        self.ledger.count(skipped(skip.reason));
                    }
                }
                Err(error) if error.kind() == ErrorKind::SlotAhead => {
                    self.ledger.count(Transition::SlotAhead);
                }
                Err(error) if !error.is_outcome_unknown() => {
                    self.ledger.was_refused(request.owner().as_str(), sent);
                }
                _ => {}
            }
            answer
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let sent = self.world.now();
            self.ledger.withdraws(request, sent);
            let answer = self.inner.withdraw(request).await;
            if answer.is_ok() {
                self.ledger.withdrawn(request, sent);
            }
            answer
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let sent = self.world.now();
            let answer = self.inner.extend(lease, request).await;
            match &answer {
                Ok(Extension::Extended(extended)) => {
                    let until = extended.locked_until().map_or(0, instant_of);
                    let at_most = request.lock_at_most_for();
                    self.ledger
                        .extends_until(lease.owner().as_str(), sent, at_most, until);
                }
                Ok(Extension::Lost) => self.ledger.count(Transition::ExtensionRefused),
                _ => {}
            }
            answer
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let at_least = request.at_least_of(lease.lock_at_least_for());
            self.ledger.unlocks(lease.owner().as_str(), at_least);
            let answer = self.inner.unlock(lease, request).await;
            if let Ok(Unlock::Lost) = answer {
                self.ledger.count(Transition::UnlockRefused);
            }
            answer
        })
    }

    shedlock_core::delegate!(inner except attempt, withdraw, extend, unlock);
}
