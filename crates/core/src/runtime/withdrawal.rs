//! Attempts that no one waits for any more, taken back in the background.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Context;
use super::bounded::bounded;
use crate::AttemptRequest;
use crate::clock::Moment;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How much later than its timeout a copy may be granted: stores cut their times to milliseconds,
/// and a clock is slewed while the timeout runs.
const SLACK: Duration = Duration::from_millis(100);

/// Ends whatever the copies of one attempt have won, or may yet win.
#[derive(Debug)]
pub(crate) struct Withdrawal {
    request: AttemptRequest,
    /// Whether one of them may have won already.
    at_once: bool,
    /// Until when a copy may arrive.
    stray_until: Option<Moment>,
}

impl Withdrawal {
    /// When every copy that was sent by now is refused by the store; also by a server whose clock is
    /// slow.
    ///
    /// Counted from the end of the call, not from its beginning: the provider works out the not-after
    /// when it sends, and the process may have been stopped between the two.
    pub(super) fn bound(context: &Context, request: &AttemptRequest) -> Moment {
        let server_skew = context.provider.capabilities().server_skew;
        context.clock.now() + request.timeout() + SLACK + server_skew
    }

    /// Of an attempt that may have won.
    pub(super) fn new(request: AttemptRequest, stray_until: Option<Moment>) -> Self {
        Self {
            request,
            at_once: true,
            stray_until,
        }
    }

    /// Of an attempt that was answered, and of which copies may still arrive.
    pub(super) fn of_strays(request: AttemptRequest, until: Moment) -> Self {
        Self {
            request,
            at_once: false,
            stray_until: Some(until),
        }
    }

    /// Whether copies could still arrive then.
    pub(super) fn is_needed(&self, at: Moment) -> bool {
        self.stray_until.is_some_and(|until| at < until)
    }

    /// Begins it on the current runtime.
    pub(super) fn start(self, context: &Arc<Context>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!(
                lock = self.request.name().as_str(),
                "an attempt was dropped outside a tokio runtime and cannot be withdrawn: if it \
                 won, the lock is free after lock_at_most_for"
            );
            return;
        };
        let context = context.clone();
        let under_way = context.withdrawals.begin();
        runtime.spawn(async move {
            self.run(&context).await;
            drop(under_way);
        });
    }

    async fn run(self, context: &Context) {
        let clock = &*context.clock;
        let last = self.stray_until.unwrap_or_else(|| clock.now());
        // A lease that was won by then has ended by itself.
        let give_up = last + self.request.lock_at_most_for();
        if self.at_once {
            self.until_answered(context, give_up).await;
        }
        if let Some(until) = self.stray_until {
            clock.sleep_until(until).await;
            self.until_answered(context, give_up).await;
        }
    }

    /// Asks until the store answers, for as long as there can be anything to withdraw.
    async fn until_answered(&self, context: &Context, give_up: Moment) {
        let clock = &*context.clock;
        let (lock, owner) = (self.request.name().as_str(), self.request.owner().as_str());
        let mut pause = FIRST_PAUSE;
        loop {
            let call = context.provider.withdraw(&self.request);
            match bounded(clock, context.store_timeout, call).await {
                Ok(true) => {
                    tracing::info!(lock, owner, "withdrew an attempt whose answer was lost");
                    return;
                }
                Ok(false) => return,
                Err(error) if clock.now() + pause < give_up => {
                    tracing::warn!(lock, owner, error = %error, "cannot withdraw an attempt yet");
                }
                Err(error) => {
                    tracing::error!(lock, owner, error = %error,
                        "could not withdraw an attempt: if it won, the lock is free after \
                         lock_at_most_for");
                    return;
                }
            }
            clock.sleep_until(clock.now() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// How many withdrawals are under way.
#[derive(Debug)]
pub(crate) struct Withdrawals(watch::Sender<usize>);

impl Withdrawals {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    fn begin(&self) -> UnderWay {
        self.0.send_modify(|count| *count += 1);
        UnderWay(self.0.clone())
    }

    /// Ends when none is under way.
    pub(crate) async fn done(&self) {
        // The sender is ours, so there is one.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

struct UnderWay(watch::Sender<usize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
