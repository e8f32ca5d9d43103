//! Tasks that were spawned with a carried lock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Held, LostPolicy};
use crate::{Error, ErrorKind};

/// The tasks that share a lock with the one that took it. None of them outlives the lock.
#[derive(Debug, Default)]
pub(super) struct Spawned {
    handles: Mutex<Vec<AbortHandle>>,
    /// Made with the first of them: most locks have none.
    alive: OnceLock<Arc<Alive>>,
}

#[derive(Debug, Default)]
struct Alive {
    count: AtomicUsize,
    ended: Notify,
}

/// Counts a task as alive until its future is gone.
struct Counted(Arc<Alive>);

impl Counted {
    fn new(alive: &Arc<Alive>) -> Self {
        alive.count.fetch_add(1, Ordering::SeqCst);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_waiters();
    }
}

impl Spawned {
    fn spawn<F>(&self, runtime: &Handle, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let counted = Counted::new(self.alive.get_or_init(Arc::default));
        let task = runtime.spawn(async move {
            // Dropped after the future, also where the task is aborted.
            let _counted = counted;
            future.await
        });
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.retain(|handle| !handle.is_finished());
        handles.push(task.abort_handle());
        task
    }

    fn abort(&self) {
        for handle in self
            .handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            handle.abort();
        }
    }

    fn has_none(&self) -> bool {
        let alive = self.alive.get();
        alive.is_none_or(|alive| alive.count.load(Ordering::SeqCst) == 0)
    }

    async fn ended(&self) {
        let Some(alive) = self.alive.get() else {
            return;
        };
        loop {
            let ended = alive.ended.notified();
            tokio::pin!(ended);
            // Listening from before the count is read, so that no end is missed.
            ended.as_mut().enable();
            if self.has_none() {
                return;
            }
            ended.await;
        }
    }
}

/// Looks at the clock before every poll, as is done for the task itself: of a process that slept
/// past the deadline, whichever task wakes first stops what was spawned. Never polls the future once
/// the lock is being given back.
pub(crate) async fn while_held<F: Future>(held: Arc<Held>, future: F) -> F::Output {
    let cancels = held.context().lost_policy == LostPolicy::Cancel;
    let mut future = pin!(future);
    poll_fn(|context| {
        if held.is_released() || (cancels && held.lost().is_some()) {
            held.spawned.abort();
            // Whoever spawned this may not have noted it down yet: then it is aborted next time.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        future.as_mut().poll(context)
    })
    .await
}

impl Held {
    /// Spawns a task that is aborted before the lock is given back.
    pub(crate) fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.check_runs()?;
        let runtime = Handle::try_current().map_err(|error| {
            self.error(ErrorKind::WrongContext, "spawning needs a tokio runtime")
                .with_source(error)
        })?;
        let task = self.spawned.spawn(&runtime, future);
        // A release that began meanwhile may not have seen the task, and does not wait for it.
        if let Err(error) = self.check_runs() {
            task.abort();
            return Err(error);
        }
        Ok(task)
    }

    /// Aborts what was spawned and waits until it is gone, but not past the end of the lease in the
    /// store, which the margin keeps from its end here: a task that never yields cannot be aborted.
    pub(super) async fn stop_spawned(&self) {
        if self.spawned.has_none() {
            return;
        }
        self.spawned.abort();
        let margin = self.context().margin(self.lease().lock_at_most_for());
        let over = self.context().clock.sleep_until(self.deadline() + margin);
        tokio::select! {
            biased;
            () = self.spawned.ended() => {}
            () = over => tracing::error!(
                lock = self.name().as_str(),
                "a task that was spawned with the lock does not stop, and the lease ends"
            ),
        }
    }
}
