//! Connections of the user's pool.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock, Moment};
use shedlock_provider::{FRESH, TEST};

use super::{InUse, Wanted};
use crate::dialect::Proofs;
use crate::driver::deadline::Deadline;
use crate::driver::logins::Logins;
use crate::driver::{Driver, Fill};
use crate::failure::{Class, Failure};

/// The user's pool. Which of its connections have been idle, and for how long, is not visible.
pub(crate) struct PoolConnections<B: Driver> {
    pub(super) pool: B::Pool,
    pub(super) replies: Mutex<Replies>,
    /// How many calls for locks wait for a connection.
    pub(super) waiting: AtomicUsize,
    pub(super) logins: Arc<Logins>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) proofs: Proofs,
}

/// A call for a lock that waits for a connection.
pub(super) struct Waiting<'a>(&'a AtomicUsize);

/// When replies last came through a pool, and when one was lost.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) last: Option<Moment>,
    pub(super) lost: Option<Moment>,
}

pub(crate) struct Lent<B: Driver> {
    pub(super) pooled: B::Pooled,
    pub(super) of: Arc<PoolConnections<B>>,
    /// The last reply was read to its end.
    pub(super) is_fit: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B: Driver> PoolConnections<B> {
    /// The pause between two looks at the pool.
    const LOOK: Duration = Duration::from_millis(20);

    /// Gets a connection that is not the last one, and that no lock waits for.
    pub(super) async fn acquire_spare(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline,
    ) -> Result<InUse<B>, Failure> {
        while self.is_waited_for() || B::spare(&self.pool).is_some_and(|spare| spare < 2) {
            if deadline.is_too_late_to_connect() {
                return Err(Failure::none_to_spare());
            }
            self.pause().await;
        }
        self.acquire(wanted, deadline).await
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(super) async fn pause(&self) {
        self.clock.sleep_until(self.clock.now() + Self::LOOK).await;
    }

    /// Gets a connection, within the call's time limit. The pool's own timeout may be longer.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline,
    ) -> Result<InUse<B>, Failure> {
        let is_proven = wanted == Wanted::Proven || self.may_be_broken();
        let fill = self.fill();
        let has_idle = fill.idle > 0;
        // An idle connection is available at once, unless the pool waits for a reply on one that was dropped silently.
        // When we stop waiting, that one leaves the pool.
        let patience = if has_idle { TEST } else { Duration::MAX };
        // Without an idle connection, the pool logs in, unless it is full. It also does if the idle one is broken.
        let acquire = async {
            let acquire = B::acquire(&self.pool);
            if fill.taken().is_some() {
                return acquire.await;
            }
            let last_reply = self.replies().last;
            match has_idle {
                true => self.logins.pace_idle(last_reply, acquire).await,
                false => self.logins.pace(acquire).await,
            }
        };
        let is_broken = || match deadline.is_too_late_to_connect() {
            true => self.no_connection(Failure::no_connection()),
            false => Failure::broken(fill.open),
        };
        let acquired = deadline.connect(patience, pin!(acquire)).await;
        let acquired = acquired.ok_or_else(is_broken)?;
        let acquired = acquired.map_err(|failure| match failure.class {
            Class::NotSent => self.no_connection(failure),
            _ => failure,
        });
        let mut lent = Lent {
            pooled: acquired?,
            of: Arc::clone(self),
            is_fit: false,
        };
        if is_proven {
            let ping = pin!(B::ping(&mut lent.pooled));
            if deadline.connect(TEST, ping).await != Some(true) {
                return Err(is_broken());
            }
        }
        Ok(InUse::Lent(lent))
    }

    /// Says so if the pool is why there is no connection.
    fn no_connection(&self, failure: Failure) -> Failure {
        self.fill().taken().map_or(failure, Failure::exhausted)
    }

    pub(super) fn fill(&self) -> Fill {
        B::fill(&self.pool).unwrap_or(Fill::ASSUMED)
    }

    /// Whether the next connection may have been cut while it was idle: no reply came through the pool lately, or one
    /// was lost.
    fn may_be_broken(&self) -> bool {
        let now = self.clock.now();
        let is_recent = |moment: &Moment| now.saturating_since(*moment) <= FRESH;
        let replies = self.replies();
        replies.lost.as_ref().is_some_and(is_recent)
            || !replies.last.as_ref().is_some_and(is_recent)
    }

    pub(super) fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Driver> Drop for Lent<B> {
    fn drop(&mut self) {
        if !self.is_fit {
            B::discard(&mut self.pooled);
        }
    }
}
