//! Keeps a lease alive as long as its task runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::Held;
use crate::clock::Deadline;
use crate::contract::{Event, ExtendRequest, LastFailure};
use shedlock_support::{Backoff, spawn};

/// Extends a lease in the background until it is dropped or the lease is lost.
///
/// It runs in a separate task of the same runtime. While no worker of that runtime is free, the
/// [duties](super::Duties) extend the lease.
#[derive(Debug)]
pub(super) struct KeepAlive(AbortHandle);

impl KeepAlive {
    pub(super) fn start(held: &Arc<Held>, runtime: &Handle) -> Self {
        let held = held.clone();
        Self(spawn(runtime, async move { keep(&held).await }).abort_handle())
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Extends by `lock_at_most_for` each time a third of its usable part has passed. If the clients'
/// clocks judge, the tolerated skew between them is not part of that.
///
/// If the store fails, the extension is retried until the local deadline, when the runtime stops
/// the task. Each call gets a sixth of the lease, so that a connection that has died silently does
/// not block it until it is too late.
async fn keep(held: &Held) {
    let lock_at_most_for = held.lease().lock_at_most_for();
    let request = ExtendRequest::new(lock_at_most_for);
    let usable = held.context().usable(lock_at_most_for);
    let limit = (usable / 6).min(held.context().store_timeout);
    let first_pause = (usable / 60).min(Duration::from_secs(1));
    let longest_pause = (usable / 12).min(Duration::from_secs(30));
    let (clock, lease_clock) = (&held.context().clock, &held.context().lease_clock);
    let mut backoff = Backoff::new(first_pause, longest_pause);
    let mut last_failure = LastFailure::default();
    loop {
        lease_clock.sleep_until(due(held, usable)).await;
        // The task may have extended the lease further.
        if !due(held, usable).has_passed(lease_clock.read()) {
            continue;
        }
        if held.state().is_released() || held.lost().is_some() {
            return;
        }
        match held.extend_within(&request, limit).await {
            Ok(()) => {
                backoff.reset();
                last_failure = LastFailure::default();
            }
            Err(_) if held.lost().is_some() || held.state().is_released() => return,
            Err(error) => {
                let is_final = error.is_final();
                if last_failure.is_news(&error) || is_final {
                    let lease = &held.lease();
                    held.context().report(&Event::ExtendFailed {
                        lease,
                        error: &error,
                        is_final,
                    });
                }
                if is_final {
                    return;
                }
                if error.is_retryable() {
                    clock.sleep_until(clock.now() + backoff.take()).await;
                } else {
                    // What a person must change is not asked for often.
                    clock.sleep_until(clock.now() + usable / 6).await;
                }
            }
        }
    }
}

/// Returns when a third of the usable part of the lease has passed.
fn due(held: &Held, usable: Duration) -> Deadline {
    held.state().deadline().earlier_by(usable / 3 * 2)
}
