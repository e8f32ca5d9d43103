//! Copies of an attempt that were not answered.

use std::sync::Arc;
use std::time::Duration;

use shedlock_conformance::Provider;
use shedlock_conformance::wait::{bounded, now, sleep};
use shedlock_core::{AttemptRequest, Moment};

/// How much later than its timeout a copy may be granted, as the runtime reckons.
const SLACK: Duration = Duration::from_millis(100);

/// Between two withdrawals that fail.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a withdrawal is tried.
const TRIED: Duration = Duration::from_secs(30);

/// The copies of one attempt that may come late.
#[must_use]
pub(super) struct Strays {
    provider: Provider,
    request: AttemptRequest,
    /// Until when one may come; none where all were answered.
    until: Option<Moment>,
}

impl Strays {
    /// All copies have been answered so far.
    pub(super) fn none(provider: &Provider, request: &AttemptRequest) -> Self {
        Self {
            provider: Arc::clone(provider),
            request: request.clone(),
            until: None,
        }
    }

    /// One had no answer until now.
    pub(super) fn one_more(&mut self) {
        self.until = Some(now() + self.request.timeout() + SLACK);
    }

    /// Of an attempt that was granted: what they may win is not to give its slot back.
    pub(super) fn that_ran(mut self) -> Self {
        self.request = self.request.without_slot();
        self
    }

    /// What they may win is withdrawn at once and once more when none may come, in the background.
    pub(super) fn give_up(self) {
        if self.until.is_some() {
            tokio::spawn(async move {
                self.until_withdrawn().await;
                self.once_none_may_come().await;
            });
        }
    }

    /// What they may win is withdrawn when none may come, in the background.
    pub(super) fn withdraw(self) {
        if self.until.is_some() {
            tokio::spawn(self.once_none_may_come());
        }
    }

    async fn once_none_may_come(self) {
        if let Some(until) = self.until {
            sleep(until.saturating_since(now())).await;
            self.until_withdrawn().await;
        }
    }

    async fn until_withdrawn(&self) {
        let began = now();
        while now().saturating_since(began) < TRIED {
            let call = self.provider.withdraw(&self.request);
            if let Some(Ok(_)) = bounded(self.request.timeout(), call).await {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}
