//! Connections that break while a holder gives its lock back.

use std::sync::{Mutex, PoisonError};

use shedlock_conformance::Provider;
use shedlock_core::{
    BoxFuture, Error, ErrorKind, Lease, LockProvider, Unlock, UnlockRequest, delegate,
};
use shedlock_proof::SeededRng;

/// Loses the reply to one unlock in sixteen, and every second time the unlock too. What the network does to connections is
/// too rare at just this moment.
#[derive(Debug)]
pub(super) struct CutEnds {
    inner: Provider,
    rng: Mutex<SeededRng>,
}

impl CutEnds {
    pub(super) fn new(inner: Provider, seed: u64) -> Self {
        let rng = Mutex::new(SeededRng::new(!seed));
        Self { inner, rng }
    }

    fn one_in(&self, times: u64) -> bool {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        rng.one_in(times)
    }
}

impl LockProvider for CutEnds {
    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            if !self.one_in(16) {
                return self.inner.unlock(lease, request).await;
            }
            if self.one_in(2) {
                let _ = self.inner.unlock(lease, request).await?;
            }
            Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "the connection was cut",
            ))
        })
    }

    delegate!(inner except unlock);
}
