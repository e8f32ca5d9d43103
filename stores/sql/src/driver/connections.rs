//! The connections of a provider: where they come from, when they may be reused, and how long a call waits for one.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock, Moment, within};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Driver;
use crate::failure::Failure;
use crate::options::Options;
use crate::statement::{Statement, Values};

/// The user's own pool, or our own connections if the provider was created from a URL.
///
/// Our own connections are a short stack, not another sqlx pool. sqlx's pool pings the server after each use, which
/// would double the round trips of a lock. Here a connection goes back only if its reply was read to the end; any other
/// is closed. So an abandoned statement can never block the next one.
pub(crate) enum Connections<B: Driver> {
    Pool(B::Pool),
    Own(Arc<OwnConnections<B>>),
}

pub(crate) struct OwnConnections<B: Driver> {
    options: Arc<B::Options>,
    /// Idle connections, each with the time of its last use.
    parked: Mutex<Vec<(Moment, B::Connection)>>,
    permits: Arc<Semaphore>,
    timeout: Duration,
    /// Whether a session belongs to us for the lifetime of its connection, so that it can be initialized.
    is_set_up: bool,
    clock: Arc<dyn Clock>,
}

/// A connection that was idle for longer than this is pinged before it is used: firewalls and servers close idle ones.
const FRESH: Duration = Duration::from_secs(30);

/// A connection that was idle for longer than this is closed: firewalls drop idle connections after a few minutes,
/// often without notifying either side.
const IDLE: Duration = Duration::from_secs(300);

/// How long a connection may take to reply to a ping. One that was dropped silently never replies.
const PING: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    /// One that has just replied to a ping. Used after another connection of the same age broke.
    Proven,
    /// A new connection to the server that the address currently leads to; from a user's pool, any connection. Used
    /// after a session became unusable, possibly because its server is no longer the primary.
    New,
}

/// A connection in use. It is closed unless [`finished`](Self::finished) is called.
pub(crate) enum InUse<B: Driver> {
    Lent(Lent<B>),
    Own(Held<B>),
}

pub(crate) struct Held<B: Driver> {
    connection: B::Connection,
    own: Arc<OwnConnections<B>>,
    _permit: OwnedSemaphorePermit,
    is_new: bool,
}

pub(crate) struct Lent<B: Driver> {
    pooled: B::Pooled,
    /// The last reply was read to its end.
    is_fit: bool,
}

impl<B: Driver> Connections<B> {
    /// At most `size` connections of our own, opened when they are needed, each within `timeout`.
    pub(crate) fn own(options: B::Options, size: usize, timeout: Duration, told: &Options) -> Self {
        Self::Own(Arc::new(OwnConnections {
            options: Arc::new(options),
            parked: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size.clamp(1, 1_000))),
            timeout,
            is_set_up: told.prepared,
            clock: Arc::clone(&told.clock),
        }))
    }

    /// The same source of sessions for a second purpose. A statement of one never waits for one of the other, unless
    /// both share the user's pool.
    pub(crate) fn second(&self) -> Self {
        match self {
            Self::Pool(pool) => Self::Pool(pool.clone()),
            Self::Own(own) => Self::Own(Arc::new(OwnConnections {
                options: Arc::clone(&own.options),
                parked: Mutex::new(Vec::new()),
                permits: Arc::new(Semaphore::new(1)),
                timeout: own.timeout,
                is_set_up: own.is_set_up,
                clock: Arc::clone(&own.clock),
            })),
        }
    }

    /// Where our own connections lead, if the driver reports it.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Pool(_) => None,
            Self::Own(own) => B::address(&own.options),
        }
    }

    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::Pool(pool) => B::unverified_pool(pool),
            Self::Own(own) => B::unverified(&own.options),
        }
    }

    pub(crate) async fn acquire(
        &self,
        wanted: Wanted,
        deadline: &Deadline<'_>,
    ) -> Result<InUse<B>, Failure> {
        match self {
            Self::Pool(pool) => Box::pin(lent(pool, wanted, deadline)).await,
            Self::Own(own) => match own.ready(wanted) {
                Some(held) => Ok(held),
                // This is rare, and its future is large.
                None => Box::pin(own.acquire(wanted, deadline)).await,
            },
        }
    }
}

/// Gets a connection from the user's pool, within the call's time limit. The pool's own timeout may be longer.
async fn lent<B: Driver>(
    pool: &B::Pool,
    wanted: Wanted,
    deadline: &Deadline<'_>,
) -> Result<InUse<B>, Failure> {
    // Each broken connection leaves the pool, so the pool eventually opens a new one.
    let (size, _) = B::pooled(pool);
    let mut tries = size + 1;
    while tries > 0 && !deadline.is_too_late_to_connect() {
        // An idle connection is available at once, unless the pool waits for a reply on one that was dropped silently.
        // When we stop waiting, that one leaves the pool.
        let (_, has_idle) = B::pooled(pool);
        let patience = if has_idle { PING } else { Duration::MAX };
        let Some(acquired) = deadline.connect(patience, pin!(B::acquire(pool))).await else {
            continue;
        };
        let mut lent = Lent {
            pooled: acquired?,
            is_fit: false,
        };
        if wanted != Wanted::Proven {
            return Ok(InUse::Lent(lent));
        }
        let answer = deadline
            .connect(PING, pin!(B::ping(&mut lent.pooled)))
            .await;
        if answer == Some(true) {
            return Ok(InUse::Lent(lent));
        }
        tries -= 1;
    }
    Err(Failure::no_connection())
}

impl<B: Driver> OwnConnections<B> {
    /// The most recently used connection, if it may be used at once. This is by far the most frequent case.
    fn ready(self: &Arc<Self>, wanted: Wanted) -> Option<InUse<B>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let is_ready =
            |(since, _): &mut (Moment, _)| wanted == Wanted::Any && self.idle(*since) <= FRESH;
        let (_, connection) = self.lock().pop_if(is_ready)?;
        Some(self.held(connection, permit, false))
    }

    async fn acquire(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline<'_>,
    ) -> Result<InUse<B>, Failure> {
        let acquire = async {
            // The semaphore is never closed, so this cannot fail.
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let permit = permit.map_err(|_| Failure::no_connection())?;
            match self.used(wanted, deadline).await {
                Some(connection) => Ok(self.held(connection, permit, false)),
                None => Ok(self.held(self.connect().await?, permit, true)),
            }
        };
        let acquired = deadline.connect(self.timeout, pin!(acquire)).await;
        acquired.unwrap_or_else(|| Err(Failure::no_connection()))
    }

    async fn used(&self, wanted: Wanted, deadline: &Deadline<'_>) -> Option<B::Connection> {
        loop {
            let (since, mut connection) = self.lock().pop()?;
            let idle = self.idle(since);
            if wanted == Wanted::New || idle > IDLE {
                // The ones below have been idle for longer, and lead to the same server.
                let mut others = std::mem::take(&mut *self.lock());
                others.push((since, connection));
                close::<B>(others);
                return None;
            }
            if wanted == Wanted::Any && idle <= FRESH {
                return Some(connection);
            }
            let answer = deadline.connect(PING, pin!(B::ping(&mut connection))).await;
            match answer {
                Some(true) => return Some(connection),
                Some(false) => {}
                // It was dropped silently, and so were the ones that have been idle for longer.
                None => self.lock().clear(),
            }
        }
    }

    fn idle(&self, since: Moment) -> Duration {
        self.clock.now().saturating_since(since)
    }

    fn held(
        self: &Arc<Self>,
        connection: B::Connection,
        _permit: OwnedSemaphorePermit,
        is_new: bool,
    ) -> InUse<B> {
        InUse::Own(Held {
            connection,
            own: Arc::clone(self),
            _permit,
            is_new,
        })
    }

    async fn connect(&self) -> Result<B::Connection, Failure> {
        let mut connection = B::connect(&self.options).await?;
        if let Some(text) = B::DIALECT.session_init.filter(|_| self.is_set_up) {
            let (init, values) = (Statement::plain(text), Values::default());
            let answer = B::run(&mut connection, &init, &values).await;
            answer.map_err(Failure::while_connecting)?;
        }
        Ok(connection)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Moment, B::Connection)>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Driver> InUse<B> {
    pub(crate) fn session(&mut self) -> &mut B::Connection {
        match self {
            Self::Lent(lent) => &mut lent.pooled,
            Self::Own(held) => &mut held.connection,
        }
    }

    /// Whether it was opened for this statement; always false for a pool's connection.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::Own(held) if held.is_new)
    }

    /// Marks the last reply as read to its end: the connection may be used again.
    pub(crate) fn finished(self) {
        match self {
            Self::Lent(mut lent) => lent.is_fit = true,
            Self::Own(held) => {
                let now = held.own.clock.now();
                held.own.lock().push((now, held.connection));
            }
        }
    }
}

impl<B: Driver> Drop for Lent<B> {
    fn drop(&mut self) {
        if !self.is_fit {
            B::discard(&mut self.pooled);
        }
    }
}

impl<B: Driver> Drop for OwnConnections<B> {
    fn drop(&mut self) {
        close::<B>(std::mem::take(&mut *self.lock()));
    }
}

/// Closes the sessions cleanly in the background, if there is a runtime: servers log connections that just disappear.
fn close<B: Driver>(parked: Vec<(Moment, B::Connection)>) {
    if let (false, Ok(runtime)) = (parked.is_empty(), Handle::try_current()) {
        runtime.spawn(async move {
            for (_, connection) in parked {
                B::close(connection).await;
            }
        });
    }
}

/// Omits the options, which contain the password.
impl<B: Driver> fmt::Debug for Connections<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) => write!(f, "the user's pool of {}", B::pooled(pool).0),
            Self::Own(own) => write!(f, "own connections, {} unused", own.lock().len()),
        }
    }
}

/// The instants by which one call must have a connection and must have returned, whatever the server does.
///
/// The limit for a connection is earlier. So a call that sent nothing can still report this before its caller treats
/// the outcome as unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    connected: Moment,
    answered: Moment,
}

impl<'a> Deadline<'a> {
    /// For a call that returns within `limit` and whose caller waits for `patience`.
    pub(crate) fn new(clock: &'a dyn Clock, limit: Duration, patience: Duration) -> Self {
        let now = clock.now();
        Self {
            clock,
            connected: now + limit.min(patience) / 4 * 3,
            answered: now + limit,
        }
    }

    /// Returns the output, unless the time for a connection (three quarters of the caller's patience) or `limit` from
    /// now passes first.
    ///
    /// The caller pins the future, because each function that takes it by value would double its size.
    pub(crate) async fn connect<T>(
        &self,
        limit: Duration,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let left = self.connected.saturating_since(self.clock.now());
        within(self.clock, left.min(limit), future).await
    }

    pub(crate) fn is_too_late_to_connect(&self) -> bool {
        self.clock.now() >= self.connected
    }

    pub(crate) async fn answer<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let left = self.answered.saturating_since(self.clock.now());
        within(self.clock, left, future).await
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests;
