//! A client whose skips are counted.

use std::sync::Arc;

use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Error, ErrorKind, LockProvider, SkipReason,
};

use crate::chronicle::Chronicle;
use crate::transition::Transition;

/// Sits between the runtime and the client of either kind of store.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn LockProvider>,
    chronicle: Chronicle,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn LockProvider>, chronicle: &Chronicle) -> Self {
        let chronicle = chronicle.clone();
        Self { inner, chronicle }
    }
}

impl LockProvider for Watched {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let answer = self.inner.attempt(request).await;
            match &answer {
                Ok(Attempt::Skipped(skip)) => self.chronicle.count(skipped(skip.reason)),
                Err(error) => {
                    let owner = &request.owner;
                    self.chronicle
                        .note(|| format!("the attempt of {owner} fails: {error}"));
                    if error.kind() == ErrorKind::SlotAhead {
                        self.chronicle.count(Transition::SlotAhead);
                    }
                }
                _ => {}
            }
            answer
        })
    }

    shedlock_core::delegate!(inner except attempt);
}

fn skipped(reason: SkipReason) -> Transition {
    match reason {
        SkipReason::AtLeast => Transition::SkippedByAtLeast,
        SkipReason::SlotTaken | SkipReason::SlotGivenUp => Transition::SlotRefused,
        SkipReason::SlotPending => Transition::SlotPending,
        SkipReason::BackingOff => Transition::SlotBackingOff,
        SkipReason::Contended => Transition::LostRace,
        _ => Transition::SkippedAsHeld,
    }
}
