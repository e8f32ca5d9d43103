//! How a run ends: what became of its task and its lease, and the unlock.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::contract::{LostPolicy, error_text};
use crate::runtime::current::CurrentLock;
use crate::runtime::running::Running;
use crate::runtime::{Context, Ended, Held, Outcome, Patience, Release, ReleaseOnDrop};

/// Returns the text of an error.
pub(crate) fn failure_of<T, E: fmt::Display>(result: &Result<T, E>) -> Option<String> {
    result.as_ref().err().map(error_text)
}

/// The outcome, or a panic that resumes where the task was awaited.
pub(crate) enum Concluded<T> {
    Outcome(Outcome<T>),
    Panicked(Box<dyn Any + Send>),
}

impl<T> Concluded<T> {
    pub(crate) fn resume(self) -> Outcome<T> {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Panicked(panic) => resume_unwind(panic),
        }
    }
}

/// Gives the lock back and returns what became of the task.
pub(crate) async fn conclude<T>(held: &Arc<Held>, ended: Ended<T>) -> Concluded<T> {
    // The deadline may have passed during the last poll: there is a value, but it came too late.
    let lost = held.lost();
    let finished = lost.is_none() && matches!(ended, Ended::Finished(_));
    let request = held.unlock_request(finished);
    let release = held.release(&request, Patience::Caller).await;
    // If the lock is not given back by now, that goes on in the background.
    drop(ReleaseOnDrop::new(held.clone()));
    let value = match ended {
        Ended::Panicked(panic) => return Concluded::Panicked(panic),
        Ended::Cancelled(reason) => {
            return Concluded::Outcome(Outcome::Lost {
                value: None,
                reason,
            });
        }
        Ended::Finished(value) => value,
    };
    let lost = lost.or(match release {
        Release::Lost => Some(crate::LostReason::NotHeldInStore),
        Release::MaybeOverlapped => Some(crate::LostReason::MaybeOverlapped),
        _ => None,
    });
    Concluded::Outcome(match lost {
        Some(reason) => Outcome::Lost {
            value: Some(value),
            reason,
        },
        None => Outcome::Executed { value, release },
    })
}

/// Runs a closure on this thread with the lock as its current one, unless the lease is lost before. A panic is caught.
pub(crate) fn run_blocking<T>(
    held: &Arc<Held>,
    task: impl FnOnce() -> T,
    failure: impl FnOnce(&T) -> Option<String>,
) -> Ended<T> {
    let cancels = held.context().lost_policy == LostPolicy::Cancel;
    if let Some(reason) = held.lost().filter(|_| cancels) {
        return Ended::Cancelled(reason);
    }
    held.state().start();
    let running = Running::start(held);
    let current = CurrentLock::of(held.clone());
    let ran = held
        .span()
        .in_scope(|| current.enter(|| catch_unwind(AssertUnwindSafe(task))));
    match ran {
        Ok(value) => {
            held.judge(&value, failure);
            running.returned(None);
            Ended::Finished(value)
        }
        Err(panic) => {
            running.panicked(&*panic);
            Ended::Panicked(panic)
        }
    }
}

/// Runs a closure on this thread inside a task that holds the lock. A panic is caught.
pub(super) fn run_reentrant<T>(
    context: &Arc<Context>,
    outer: &CurrentLock,
    task: impl FnOnce() -> T,
    failure: impl FnOnce(&T) -> Option<String>,
) -> Result<T, Box<dyn Any + Send>> {
    let running = Running::reentrant(context, outer);
    let ran = outer.enter(|| catch_unwind(AssertUnwindSafe(task)));
    match &ran {
        Ok(value) => running.returned(failure(value).as_deref()),
        Err(panic) => running.panicked(&**panic),
    }
    ran
}

/// How a closure ended on a thread that may have ended before it.
pub(crate) fn as_ended<T>(ran: Result<Ended<T>, Box<dyn Any + Send>>) -> Ended<T> {
    ran.unwrap_or_else(Ended::Panicked)
}
