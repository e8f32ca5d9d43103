//! The connections that the thread of the duties opens.

use std::fmt;
use std::ptr::addr_eq;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::clock::{Clock as _, Moment, SystemClock};
use crate::contract::{Error, ErrorKind, LockProvider};

/// A connection that was not used for this long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// One for each provider whose leases have needed one. They are opened, used and closed on the
/// thread.
#[derive(Debug, Default)]
pub(super) struct Seconds(Mutex<Vec<Arc<Second>>>);

/// What is driven from the thread for one provider.
pub(super) struct Second {
    of: Weak<dyn LockProvider>,
    /// The provider can be driven from the thread.
    is_possible: bool,
    open: tokio::sync::Mutex<Option<Arc<dyn LockProvider>>>,
    last_used: Mutex<Moment>,
}

impl Seconds {
    /// Returns the one of this provider; `None` if it can have none.
    pub(super) fn of(&self, provider: &Arc<dyn LockProvider>) -> Option<Arc<Second>> {
        let mut all = self.lock();
        let known = all
            .iter()
            .find(|second| addr_eq(second.of.as_ptr(), Arc::as_ptr(provider)));
        let second = known.cloned().unwrap_or_else(|| {
            let second = Arc::new(Second {
                of: Arc::downgrade(provider),
                is_possible: provider.for_duties().is_some(),
                open: tokio::sync::Mutex::default(),
                last_used: Mutex::new(SystemClock.now()),
            });
            all.push(second.clone());
            second
        });
        second.is_possible.then_some(second)
    }

    /// Closes those that have been idle for long, or whose provider is gone. Returns true if none
    /// is open.
    pub(super) fn close_unused(&self, now: Moment) -> bool {
        let mut none_is_open = true;
        self.lock().retain_mut(|second| {
            let is_needed = second.of.strong_count() > 0;
            // One that is shared is in use.
            let Some(second) = Arc::get_mut(second) else {
                none_is_open = false;
                return true;
            };
            let idle = now.saturating_since(*second.last_used());
            let open = second.open.get_mut();
            if idle > IDLE {
                *open = None;
            }
            none_is_open &= open.is_none() || !is_needed;
            is_needed
        });
        none_is_open
    }

    /// Closes all. Returns true if one was open.
    pub(super) fn close(&self) -> bool {
        let all = std::mem::take(&mut *self.lock());
        let is_open =
            |second: &Arc<Second>| second.open.try_lock().is_ok_and(|open| open.is_some());
        all.iter().any(is_open)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Second>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Second {
    /// Returns the provider over the connection, which is opened if it is not open.
    pub(super) async fn open(&self) -> Result<Arc<dyn LockProvider>, Error> {
        let mut open = self.open.lock().await;
        *self.last_used() = SystemClock.now();
        if let Some(provider) = &*open {
            return Ok(provider.clone());
        }
        let gone = || Error::new(ErrorKind::WrongContext, "the provider is gone");
        let of = self.of.upgrade().ok_or_else(gone)?;
        let opened = of.for_duties().ok_or_else(gone)?.await?;
        tracing::debug!(
            store = of.store(),
            "opened a second connection for leases: the first one has not replied in time"
        );
        *open = Some(opened.clone());
        Ok(opened)
    }

    fn last_used(&self) -> MutexGuard<'_, Moment> {
        self.last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Second").finish_non_exhaustive()
    }
}
