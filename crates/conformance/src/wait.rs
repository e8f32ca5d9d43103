//! The only place where cases wait: real time, which no clock of a case moves.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, select};
use shedlock_core::{Clock, LockName, Moment, SystemClock};

use crate::steps::{Taken, try_take};
use crate::{Provider, Stop, TestContext};

/// How long a case waits for something that must happen, before it gives up: far above what any
/// loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

const BLINK: Duration = Duration::from_millis(1);

/// Now, on the clock that goes on during suspend. All processes of one machine share it.
pub fn now() -> Moment {
    SystemClock.now()
}

/// Lets real time go by.
pub async fn sleep(duration: Duration) {
    SystemClock.sleep_until(now() + duration).await;
}

/// The future's output, or `None` once this much real time has gone by.
pub async fn bounded<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let future = std::pin::pin!(future);
    match select(future, SystemClock.sleep_until(now() + limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

impl TestContext {
    /// Lets this much of the store's time go by: really, or by moving the store's own clock where
    /// the harness can.
    pub async fn pass(&self, duration: Duration) {
        let moved = self.namespace().advance(duration).is_some();
        // Where the store's time was moved, a real moment lets the other tasks of the case go on.
        sleep(if moved { BLINK } else { duration }).await;
    }

    /// Asks for the lock again and again, each time as somebody else, until it is free.
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
                    "lock {name} is still taken after {PATIENCE:?} of asking: \
                     a lock that should be free by now never became free"
                )));
            }
            self.pass(step).await;
            passed += step;
        }
    }
}
