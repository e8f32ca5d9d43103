//! Our own connections, if the provider was created from a URL.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock, Moment, within};
use shedlock_provider::{FRESH, TEST};
use shedlock_support::spawn;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{InUse, Wanted};
use crate::driver::Driver;
use crate::driver::deadline::Deadline;
use crate::driver::logins::Logins;
use crate::driver::sharing::{Opened, Sharing};
use crate::failure::Failure;

pub(crate) struct OwnConnections<B: Driver> {
    pub(super) options: Arc<B::Options>,
    /// Idle connections, each with the time of its last use.
    pub(super) parked: Mutex<Vec<(Moment, Opened<B>)>>,
    /// When a reply was last lost. Connections that were parked before then may be broken as well.
    pub(super) lost: Mutex<Option<Moment>>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) timeout: Duration,
    pub(super) sharing: Arc<Sharing>,
    pub(super) logins: Arc<Logins>,
    pub(super) clock: Arc<dyn Clock>,
}

/// A connection that was idle for longer than this is closed: firewalls drop idle connections after a few minutes,
/// often without notifying either side.
const IDLE: Duration = Duration::from_secs(300);

pub(crate) struct Held<B: Driver> {
    pub(super) opened: Opened<B>,
    pub(super) own: Arc<OwnConnections<B>>,
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) is_new: bool,
}

impl<B: Driver> OwnConnections<B> {
    /// The most recently used connection, if it may be used at once. This is by far the most frequent case.
    pub(super) fn ready(self: &Arc<Self>, wanted: Wanted) -> Option<InUse<B>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let is_ready =
            |(since, _): &mut (Moment, _)| wanted == Wanted::Any && self.is_fresh(*since);
        let mut parked = self.lock();
        if !parked.last_mut().is_some_and(is_ready) {
            return None;
        }
        let (_, opened) = parked.pop()?;
        drop(parked);
        Some(self.held(opened, permit, false))
    }

    pub(super) async fn acquire(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline,
    ) -> Result<InUse<B>, Failure> {
        let acquire = async {
            // The semaphore is never closed, so this cannot fail.
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let permit = permit.map_err(|_| Failure::no_connection())?;
            match self.used(wanted).await? {
                Some(opened) => Ok(self.held(opened, permit, false)),
                None => {
                    let open = self.sharing.open::<B>(&self.options, &*self.clock);
                    let opened = self.logins.pace(open).await?;
                    Ok(self.held(opened, permit, true))
                }
            }
        };
        let acquired = deadline.connect(self.timeout, pin!(acquire)).await;
        acquired.unwrap_or_else(|| Err(Failure::no_connection()))
    }

    /// The most recently used connection, unless a new one is to be opened. It is tested if it may be broken.
    async fn used(&self, wanted: Wanted) -> Result<Option<Opened<B>>, Failure> {
        let last = self.lock().pop();
        let Some((since, mut opened)) = last else {
            return Ok(None);
        };
        let idle = self.idle(since);
        if wanted == Wanted::New || idle > IDLE {
            // The ones below have been idle for longer, and lead to the same server.
            let mut others = std::mem::take(&mut *self.lock());
            others.push((since, opened));
            close::<B>(others);
            return Ok(None);
        }
        if wanted == Wanted::Any && self.is_fresh(since) {
            return Ok(Some(opened));
        }
        let answer = within(&*self.clock, TEST, B::ping(&mut opened.connection)).await;
        match answer {
            Some(true) => Ok(Some(opened)),
            Some(false) => {
                let others = self.lock().len();
                Err(Failure::broken(u32::try_from(others).unwrap_or(u32::MAX)))
            }
            // It was dropped silently, and so were the ones that have been idle for longer.
            None => {
                self.lock().clear();
                Ok(None)
            }
        }
    }

    /// Whether a connection that was parked then may be used without a ping.
    fn is_fresh(&self, since: Moment) -> bool {
        self.idle(since) <= FRESH && self.lost().is_none_or(|lost| lost < since)
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, Option<Moment>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self, since: Moment) -> Duration {
        self.clock.now().saturating_since(since)
    }

    fn held(
        self: &Arc<Self>,
        opened: Opened<B>,
        _permit: OwnedSemaphorePermit,
        is_new: bool,
    ) -> InUse<B> {
        InUse::Own(Held {
            opened,
            own: Arc::clone(self),
            _permit,
            is_new,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<(Moment, Opened<B>)>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Driver> Drop for OwnConnections<B> {
    fn drop(&mut self) {
        close::<B>(std::mem::take(&mut *self.lock()));
    }
}

/// Closes the sessions cleanly in the background, if there is a runtime: servers log connections that just disappear.
fn close<B: Driver>(parked: Vec<(Moment, Opened<B>)>) {
    if let (false, Ok(runtime)) = (parked.is_empty(), Handle::try_current()) {
        spawn(&runtime, async move {
            for (_, opened) in parked {
                B::close(opened.connection).await;
            }
        });
    }
}
