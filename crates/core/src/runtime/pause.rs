//! Pausing a lock that may be held.

use std::time::Duration;

use super::Context;
use super::wait::jittered;
use crate::admin;
use crate::contract::{Error, PauseRequest, Paused};

/// How often a held lock is tried. Far more often than a scheduler asks, so that the pause is there
/// soon after the task has ended.
const PAUSE: Duration = Duration::from_millis(100);

/// Pauses the lock. Tries again until `wait` is over while a task holds it or the store fails.
pub(crate) async fn pause(
    context: &Context,
    request: &PauseRequest,
    wait: Duration,
) -> Result<Paused, Error> {
    let clock = &context.clock;
    let until = clock.now() + wait;
    loop {
        let answer = admin::pause(&*context.provider, request).await;
        let may_change = match &answer {
            Ok(Paused::Done { .. }) => false,
            Ok(Paused::Held(_)) => true,
            // A person waits for the reply: one that only a failover would change is returned at once.
            Err(error) => error.is_retryable() && !error.rejects_writes(),
        };
        let now = clock.now();
        if !may_change || now >= until {
            return answer;
        }
        let pause = jittered(PAUSE, clock.random());
        clock.sleep_until((now + pause).min(until)).await;
    }
}
