//! Threads for blocking work, reserved before there is any.

use std::any::Any;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

use crate::clock::Clock;
use crate::contract::within;

type Ran<T> = Result<T, Box<dyn Any + Send>>;
type Work<T> = Box<dyn FnOnce() -> Ran<T> + Send>;

/// A thread of the runtime's pool for blocking work. If it is dropped, it returns to the pool.
pub(crate) struct Thread<T> {
    work: oneshot::Sender<Work<T>>,
    ran: JoinHandle<Ran<T>>,
}

impl<T: Send + 'static> Thread<T> {
    /// Waits until the pool has a free thread, if `wanted`. Otherwise does nothing.
    pub(crate) async fn reserve_if(wanted: bool, runtime: &Handle) -> Option<Self> {
        if !wanted {
            return None;
        }
        let (ready, is_ready) = oneshot::channel();
        let (work, given) = oneshot::channel::<Work<T>>();
        let ran = runtime.spawn_blocking(move || {
            let _ = ready.send(());
            match given.blocking_recv() {
                Ok(work) => work(),
                Err(dropped) => Err(Box::new(dropped) as _),
            }
        });
        // If the runtime shuts down there is no thread, which shows when `run` uses it.
        let _ = is_ready.await;
        Some(Self { work, ran })
    }

    async fn run(self, work: Work<T>) -> Ran<T> {
        // If the thread is gone, the join handle returns the reason.
        let _ = self.work.send(work);
        joined(self.ran.await)
    }
}

/// Awaits the attempt at the lock of a closure whose thread is reserved. If that takes long, the thread returns to the pool:
/// the store's client may need it, to resolve a host name.
pub(crate) async fn lent<T, A>(
    reserved: Option<Thread<T>>,
    clock: &dyn Clock,
    attempt: impl Future<Output = A>,
) -> (A, Option<Thread<T>>) {
    const LONG: Duration = Duration::from_secs(1);
    let mut attempt = pin!(attempt);
    match within(clock, LONG, attempt.as_mut()).await {
        Some(made) => (made, reserved),
        None => {
            drop(reserved);
            (attempt.await, None)
        }
    }
}

/// Runs the closure on the reserved thread, or otherwise on one of the pool.
pub(crate) async fn run_on<T: Send + 'static>(
    reserved: Option<Thread<T>>,
    runtime: &Handle,
    work: impl FnOnce() -> Ran<T> + Send + 'static,
) -> Ran<T> {
    match reserved {
        Some(thread) => thread.run(Box::new(work)).await,
        None => joined(runtime.spawn_blocking(work).await),
    }
}

pub(crate) fn joined<T>(ran: Result<Ran<T>, JoinError>) -> Ran<T> {
    ran.unwrap_or_else(|error| Err(Box::new(error)))
}
