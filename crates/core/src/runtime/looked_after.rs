//! What is done for a lease while its task runs.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Duty, Held, KeepAlive};
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
