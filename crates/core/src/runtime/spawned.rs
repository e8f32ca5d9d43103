//! Tasks that were spawned with the current lock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::Held;
use crate::contract::{Error, ErrorKind, Event, LostPolicy};

/// Counts a spawned task until its future is gone.
struct Counted(Arc<Held>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state().end_spawned();
    }
}

/// Reads the clock before every poll, as for the task itself: if the process slept past the
/// deadline, the task that wakes first stops all spawned tasks. Never polls the future once the
/// lock is being given back.
pub(crate) async fn while_held<F: Future>(held: Arc<Held>, future: F) -> F::Output {
    let cancels = held.context().lost_policy == LostPolicy::Cancel;
    let mut future = pin!(future);
    poll_fn(|context| {
        if held.state().is_released() || (cancels && held.lost().is_some()) {
            held.state().abort_spawned();
            return Poll::Pending;
        }
        future.as_mut().poll(context)
    })
    .await
}

impl Held {
    /// Spawns a task that is aborted before the lock is given back.
    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> Result<JoinHandle<F::Output>, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.check_runs()?;
        let runtime = Handle::try_current().map_err(|error| {
            self.error(ErrorKind::WrongContext, "spawning needs a tokio runtime")
                .with_source(error)
        })?;
        while !self.state().begin_spawned() {
            // The lock ended in the meantime, so this fails.
            self.check_runs()?;
        }
        let counted = Counted(self.clone());
        let task = runtime.spawn(async move {
            // Dropped after the future, even if the task is aborted.
            let _counted = counted;
            future.await
        });
        self.state().add_spawned(task.abort_handle());
        Ok(task)
    }

    /// Aborts the spawned tasks and waits until they are gone, but not past the end of the lease in
    /// the store, which is later than its end here by the margin. A task that never yields cannot
    /// be aborted.
    pub(super) async fn stop_spawned(&self) {
        self.state().abort_spawned();
        if self.state().is_idle() {
            return;
        }
        let margin = self.context().margin(self.lease().lock_at_most_for());
        let over = self
            .context()
            .lease_clock
            .sleep_until(self.state().deadline().later_by(margin));
        tokio::select! {
            biased;
            () = poll_fn(|context| self.state().poll_idle(context)) => {}
            () = over => self.report(|lease| Event::TasksLeft { lease }),
        }
    }
}
