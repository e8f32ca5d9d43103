//! Waiting for the end of a lease.

use std::task::{Context, Poll};

use super::LeaseState;
use crate::BoxFuture;
use crate::clock::{Deadline, LeaseClock};

/// Waits for the moment at which a task is to be stopped, which can change.
#[derive(Default)]
pub(crate) struct Watcher(Option<(Deadline, BoxFuture<'static, ()>)>);

impl Watcher {
    /// Ready when the lease may have ended. The caller must check it then.
    pub(crate) fn poll(
        &mut self,
        state: &LeaseState,
        clock: &LeaseClock,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let Some(stop_at) = state.watch(context.waker()) else {
            return Poll::Ready(());
        };
        match &mut self.0 {
            Some((set_for, sleep)) if *set_for == stop_at => sleep.as_mut().poll(context),
            timer => {
                let (_, sleep) = timer.insert((stop_at, clock.sleep_until(stop_at)));
                sleep.as_mut().poll(context)
            }
        }
    }
}
