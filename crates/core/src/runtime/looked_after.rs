//! What is done for a lease while its task runs.

use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;

use super::{Duty, Ended, Held, KeepAlive, ReleaseOnDrop};
use crate::contract::{Error, ErrorKind, LockConfig};

/// Ends the keep-alive and the duties of a lease when it is dropped.
#[derive(Debug)]
pub(crate) struct LookedAfter {
    #[expect(dead_code, reason = "dropped first")]
    duty: Option<Duty>,
    #[expect(dead_code, reason = "dropped")]
    keep_alive: Option<KeepAlive>,
}

/// Starts the keep-alive and the run time limit that the configuration sets, and registers the lease
/// with the thread that no task can block.
///
/// # Errors
/// `WrongContext` for a keep-alive outside a tokio runtime.
pub(crate) fn look_after(held: &Arc<Held>, config: &LockConfig) -> Result<LookedAfter, Error> {
    if let Some(max_run_time) = config.get_max_run_time() {
        held.bound_run(max_run_time);
    }
    let lease = (!config.get_keep_alive()).then(|| held.lease().lock_at_most_for());
    let limit = lease.into_iter().chain(config.get_max_run_time()).min();
    let share = held.context().slow_run;
    if let Some(limit) = limit.filter(|_| (0.0..1.0).contains(&share)) {
        held.set_slow_after(limit.mul_f64(share), lease == Some(limit));
    }
    let runtime = config.get_keep_alive().then(|| {
        Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::WrongContext, "keep-alive needs a tokio runtime")
                .with_lock(held.name().as_str())
                .with_source(error)
        })
    });
    let runtime = runtime.transpose()?;
    let duties = held.context().duties.as_ref();
    Ok(LookedAfter {
        duty: duties.and_then(|duties| duties.register(held, runtime.as_ref())),
        keep_alive: runtime.map(|runtime| KeepAlive::start(held, &runtime)),
    })
}

/// The lock of a closure that nothing can stop. It is looked after, and not given back, until both are gone: the closure, and
/// the task that waits for it. A runtime that shuts down drops the task while the closure still runs.
#[derive(Debug)]
pub(crate) struct Upheld {
    end: EndOfClosure,
    #[expect(dead_code, reason = "dropped before the release")]
    looked_after: LookedAfter,
    release: ReleaseOnDrop,
}

impl Upheld {
    pub(crate) fn new(held: &Arc<Held>, config: &LockConfig) -> Result<Self, Error> {
        let release = ReleaseOnDrop::new(held.clone());
        let looked_after = look_after(held, config)?;
        let end = EndOfClosure {
            held: held.clone(),
            is_finished: OnceLock::new(),
        };
        Ok(Self {
            end,
            looked_after,
            release,
        })
    }

    /// Notes how the closure ended, for a lock that no task waits for any more.
    pub(crate) fn note<T>(&self, ended: &Ended<T>) {
        let is_finished = matches!(ended, Ended::Finished(_));
        let _ = self.end.is_finished.set(is_finished);
    }

    /// Leaves it to the caller to give the lock back. `None` if the closure is not gone: it does that.
    pub(crate) fn end(self: Arc<Self>) -> Option<ReleaseOnDrop> {
        let mut upheld = Arc::into_inner(self)?;
        upheld.end.is_finished = OnceLock::new();
        Some(upheld.release)
    }
}

/// Begins the release as after any run when it is dropped, if the closure has ended.
#[derive(Debug)]
struct EndOfClosure {
    held: Arc<Held>,
    is_finished: OnceLock<bool>,
}

impl Drop for EndOfClosure {
    fn drop(&mut self) {
        let Some(is_finished) = self.is_finished.get() else {
            return;
        };
        let is_finished = *is_finished && self.held.lost().is_none();
        let request = self.held.unlock_request(is_finished);
        self.held.state().release(&request);
    }
}
