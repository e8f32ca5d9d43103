//! The only module in which cases wait. It uses real time, which a case's own clock does not move.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, select};
use shedlock_core::{Clock, LockName, Moment, SystemClock};

use crate::steps::{Taken, try_take};
use crate::{Provider, Stop, TestContext};

/// How long a case waits for an event that must happen before it gives up: far longer than any
/// loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

const BLINK: Duration = Duration::from_millis(1);

/// Returns the current moment on a clock that keeps running while the machine is suspended. All
/// processes on one machine share it.
pub fn now() -> Moment {
    SystemClock.now()
}

/// Waits this long in real time.
pub async fn sleep(duration: Duration) {
    SystemClock.sleep_until(now() + duration).await;
}

/// Returns the future's output, or `None` after this much real time.
pub async fn bounded<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let future = std::pin::pin!(future);
    match select(future, SystemClock.sleep_until(now() + limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

impl TestContext {
    /// Lets this much of the store's time pass, by waiting or, if the harness can, by advancing the
    /// store's clock.
    pub async fn pass(&self, duration: Duration) {
        let moved = self.namespace().advance(duration).is_some();
        // If the store's clock was advanced, a short real pause lets the other tasks of the case
        // proceed.
        sleep(if moved { BLINK } else { duration }).await;
    }

    /// Attempts the lock repeatedly, each time as a new owner, until it is free.
    pub(crate) async fn take_when_free(
        &self,
        provider: &Provider,
        name: &LockName,
        at_most: Duration,
    ) -> Result<Taken, Stop> {
        let started = now();
        let mut passed = Duration::ZERO;
        let step = self.timing().step();
        loop {
            if let Ok(taken) = try_take(provider, &self.request_for(name, at_most)).await? {
                return Ok(taken);
            }
            if now().saturating_since(started) > PATIENCE || passed > 2 * PATIENCE {
                return Err(Stop::failed(format!(
                    "lock {name} is still taken after {PATIENCE:?} of attempts, although it \
                     should be free by now"
                )));
            }
            self.pass(step).await;
            passed += step;
        }
    }
}
