//! A task that cannot outlive its lease.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use super::{Held, Watcher};
use crate::contract::{LostPolicy, LostReason};
use crate::runtime::current::CurrentLock;

/// How a guarded task ended.
pub(crate) enum Ended<T> {
    Finished(T),
    Panicked(Box<dyn Any + Send>),
    /// The task was dropped, not finished.
    Cancelled(LostReason),
}

/// Runs the task while the lease lasts.
///
/// The clock is read before every poll, so a process that slept past the deadline never polls the
/// task again. A timer ends a task that nothing else wakes.
pub(crate) async fn guard<F: Future>(held: &Arc<Held>, task: F) -> Ended<F::Output> {
    let current = CurrentLock::of(held.clone());
    let span = held.span();
    let cancels = held.context().lost_policy == LostPolicy::Cancel;
    let mut task = pin!(Some(task));
    let mut watcher = Watcher::default();
    poll_fn(|context| {
        loop {
            if let Some(reason) = held.lost().filter(|_| cancels) {
                // Dropped inside the scope: its destructors may access the current lock.
                let dropped = catch_unwind(AssertUnwindSafe(|| {
                    span.in_scope(|| current.enter(|| task.as_mut().set(None)))
                }));
                return Poll::Ready(match dropped {
                    Ok(()) => Ended::Cancelled(reason),
                    Err(panic) => Ended::Panicked(panic),
                });
            }
            let Some(running) = task.as_mut().as_pin_mut() else {
                unreachable!("polled after its end")
            };
            held.state().start();
            let polled = catch_unwind(AssertUnwindSafe(|| {
                span.in_scope(|| current.enter(|| running.poll(context)))
            }));
            match polled {
                Ok(Poll::Ready(value)) => return Poll::Ready(Ended::Finished(value)),
                Err(panic) => return Poll::Ready(Ended::Panicked(panic)),
                Ok(Poll::Pending) => {}
            }
            if held.lost().is_some() {
                if cancels {
                    continue;
                }
                return Poll::Pending;
            }
            ready!(watcher.poll(held.state(), &held.context().lease_clock, context));
        }
    })
    .await
}

/// Marks the lease lost when its deadline passes, for tasks that are not polled.
pub(crate) async fn watch_deadline(held: &Held) {
    let mut watcher = Watcher::default();
    while held.lost().is_none() && !held.state().is_released() {
        poll_fn(|context| watcher.poll(held.state(), &held.context().lease_clock, context)).await;
    }
}
