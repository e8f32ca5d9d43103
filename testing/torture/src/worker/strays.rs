//! Copies of an attempt without a reply.

use std::sync::Arc;
use std::time::Duration;

use shedlock_conformance::Provider;
use shedlock_conformance::wait::{bounded, now, sleep};
use shedlock_core::{AttemptRequest, Moment};

/// How much later than its timeout a copy may be granted, as in the runtime.
const SLACK: Duration = Duration::from_millis(100);

/// The pause between two withdrawals that fail.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a withdrawal is retried.
const TRIED: Duration = Duration::from_secs(30);

/// The copies of one attempt that may arrive late.
#[must_use]
pub(super) struct Strays {
    provider: Provider,
    request: AttemptRequest,
    /// Until when a copy may arrive; `None` if all got a reply.
    until: Option<Moment>,
}

impl Strays {
    /// All copies have got a reply so far.
    pub(super) fn none(provider: &Provider, request: &AttemptRequest) -> Self {
        Self {
            provider: Arc::clone(provider),
            request: request.clone(),
            until: None,
        }
    }

    /// Records a copy that got no reply.
    pub(super) fn one_more(&mut self) {
        self.until = Some(now() + self.request.timeout() + SLACK);
    }

    /// Copies of an attempt that was granted: withdrawing what they win must not give back its
    /// slot.
    pub(super) fn that_ran(mut self) -> Self {
        self.request = self.request.without_slot();
        self
    }

    /// Withdraws what the copies may win, immediately and once more when none can arrive, in the
    /// background.
    pub(super) fn give_up(self) {
        if self.until.is_some() {
            tokio::spawn(async move {
                self.until_withdrawn().await;
                self.once_none_may_come().await;
            });
        }
    }

    /// Withdraws what the copies may win when none can arrive, in the background.
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
