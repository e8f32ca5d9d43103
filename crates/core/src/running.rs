//! Notifies the listener when tasks begin and end.

use crate::runtime::Context;
use crate::{Event, LockName};

/// Notifies the listener of the start and the end of a task. The task ends when this is dropped,
/// which includes panics and cancellation.
pub(crate) struct Running<'a> {
    context: &'a Context,
    name: &'a LockName,
    /// `None` without a listener.
    started: Option<crate::Moment>,
}

impl<'a> Running<'a> {
    pub(crate) fn start(context: &'a Context, name: &'a LockName) -> Self {
        context.emit(|| Event::TaskStarted { name });
        Self {
            context,
            name,
            started: context.listener.is_some().then(|| context.clock.now()),
        }
    }

    pub(crate) fn finished(self) {
        drop(self);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Some(started) = self.started else { return };
        self.context.emit(|| Event::TaskFinished {
            name: self.name,
            ran_for: self.context.clock.now().saturating_since(started),
        });
    }
}
