//! Notifies the listeners when tasks begin and end.

use std::any::Any;
use std::sync::Arc;

use crate::clock::Moment;
use crate::contract::task_end::panic_text;
use crate::contract::{Event, TaskEnd};
use crate::runtime::current::CurrentLock;
use crate::runtime::{Context, Ended, Held, SlotWord};

/// Notifies the listeners of the start and the end of a task. If it is dropped before
/// [`ended`](Self::ended), the task was cancelled.
pub(crate) struct Running {
    context: Arc<Context>,
    held: Arc<Held>,
    is_reentrant: bool,
    /// `None` once the end was reported.
    started: Option<Moment>,
}

impl Running {
    /// A task starts under a lock that was taken for it.
    pub(crate) fn start(held: &Arc<Held>) -> Self {
        Self::new(held.context().clone(), held.clone(), false)
    }

    /// A task starts inside a task that holds its lock.
    pub(crate) fn reentrant(context: &Arc<Context>, outer: &CurrentLock) -> Self {
        Self::new(context.clone(), outer.held().clone(), true)
    }

    fn new(context: Arc<Context>, held: Arc<Held>, is_reentrant: bool) -> Self {
        let mut running = Self {
            context,
            held,
            is_reentrant,
            started: None,
        };
        if running.context.has_listeners() {
            let lease = running.held.lease();
            running.context.emit(|| Event::TaskStarted {
                lease: &lease,
                is_reentrant,
            });
        }
        running.started = Some(running.context.clock.now());
        running
    }

    /// The guarded task ended.
    pub(crate) fn ended<T>(self, ended: &Ended<T>) {
        match ended {
            Ended::Finished(_) => self.returned(None),
            Ended::Panicked(panic) => self.panicked(&**panic),
            Ended::Cancelled(reason) => self.report(TaskEnd::Lost { reason: *reason }),
        }
    }

    /// The task panicked.
    pub(crate) fn panicked(self, panic: &(dyn Any + Send)) {
        let message = panic_text(panic);
        self.report(TaskEnd::Panicked { message });
    }

    /// The task returned. A reentrant one reports its failure here, since the lease is not its own.
    pub(crate) fn returned(self, failure: Option<&str>) {
        if self.started.is_none() {
            return;
        }
        if self.is_reentrant {
            let end = failure.map_or(TaskEnd::Succeeded, |error| TaskEnd::Failed { error });
            return self.report(end);
        }
        let held = self.held.clone();
        let (word, failure) = held.state().said();
        let end = match (held.lost(), word) {
            (Some(reason), _) => TaskEnd::Lost { reason },
            (None, SlotWord::Failed) => TaskEnd::Failed {
                error: failure
                    .as_deref()
                    .unwrap_or("the task marked its run as failed"),
            },
            (None, SlotWord::Cut | SlotWord::NotStarted) => TaskEnd::Cancelled,
            (None, SlotWord::Nothing) => TaskEnd::Succeeded,
        };
        self.report(end);
    }

    fn report(mut self, end: TaskEnd<'_>) {
        self.tell(end);
    }

    fn tell(&mut self, end: TaskEnd<'_>) {
        let Some(started) = self.started.take() else {
            return;
        };
        let lease = self.held.lease();
        let ran_for = self.context.clock.now().saturating_since(started);
        self.context.emit(|| Event::TaskFinished {
            lease: &lease,
            is_reentrant: self.is_reentrant,
            ran_for,
            end,
        });
        // A lost run is reported anyway.
        if self.is_reentrant || matches!(end, TaskEnd::Lost { .. }) {
            return;
        }
        let limit = self.held.slow_after();
        if let Some(limit) = limit.filter(|limit| ran_for >= *limit) {
            self.context.report(&Event::SlowRun {
                lease: &lease,
                ran_for,
                slow_from: limit,
            });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let lost = self.started.and_then(|_| self.held.lost());
        self.tell(lost.map_or(TaskEnd::Cancelled, |reason| TaskEnd::Lost { reason }));
    }
}
