//! Where connections come from, which of them may be used again, and how long a call waits for them.

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

/// The user's own pool, or connections of ours where the provider was made from a URL.
///
/// Ours are a short stack rather than another pool of sqlx's, since that one asks the server after
/// each use whether the connection still lives, which would double the round trips of a lock. Here
/// only a connection whose reply was read to its end goes back; every other one is closed. So an
/// abandoned statement can never be in the way of the next one.
pub(crate) enum Connections<B: Driver> {
    Pool(B::Pool),
    Own(Arc<OwnConnections<B>>),
}

pub(crate) struct OwnConnections<B: Driver> {
    options: B::Options,
    /// Those that are not in use, since when.
    parked: Mutex<Vec<(Moment, B::Connection)>>,
    permits: Arc<Semaphore>,
    timeout: Duration,
    /// Whether a session is ours for as long as its connection, so that it can be set up.
    is_set_up: bool,
    clock: Arc<dyn Clock>,
}

/// A connection that was unused for longer than this is asked whether it still lives before it is
/// used: firewalls and servers cut idle ones.
const FRESH: Duration = Duration::from_secs(30);

/// One that was unused for longer than this is closed: firewalls forget idle connections after a few
/// minutes, often without a word to either side.
const IDLE: Duration = Duration::from_secs(300);

/// How long a connection may take to answer that it lives. One that was cut silently never does.
const PING: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    /// One that has just answered: after another one of the same age broke.
    Proven,
    /// One to the server that the address leads to now, where they are ours: after a session that no
    /// longer serves, perhaps since its server is no longer the primary.
    New,
}

/// A connection in use. One that is not [`finished`](Self::finished) is closed.
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
    /// At most `size` connections of ours, made when they are needed, each within `timeout`.
    pub(crate) fn own(options: B::Options, size: usize, timeout: Duration, told: &Options) -> Self {
        Self::Own(Arc::new(OwnConnections {
            options,
            parked: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size.clamp(1, 1_000))),
            timeout,
            is_set_up: told.prepared,
            clock: Arc::clone(&told.clock),
        }))
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
                // Rarely, and its future is large.
                None => Box::pin(own.acquire(wanted, deadline)).await,
            },
        }
    }
}

/// From the user's pool, within the time of the call: the pool's own time-out may be longer.
async fn lent<B: Driver>(
    pool: &B::Pool,
    wanted: Wanted,
    deadline: &Deadline<'_>,
) -> Result<InUse<B>, Failure> {
    // Each connection that is found broken leaves the pool, so that in the end a new one is made.
    let (size, _) = B::pooled(pool);
    let mut tries = size + 1;
    while tries > 0 && !deadline.is_too_late_to_connect() {
        // An idle connection is there at once, unless the pool waits for one to answer that was cut
        // silently; given up, that one leaves the pool.
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
    /// The connection that was used last, if it may be used at once: what happens almost always.
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
                // Those below have been unused for longer, and lead to the same server.
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
                // It was cut silently, and so were those that have been unused for longer.
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

    /// Whether it was made for this statement; never where the pool made it.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::Own(held) if held.is_new)
    }

    /// Says that the last reply was read to its end: the connection may be used again.
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

/// Says goodbye to the server in the background, if there is a runtime to do it: servers log
/// connections that just vanish.
fn close<B: Driver>(parked: Vec<(Moment, B::Connection)>) {
    if let (false, Ok(runtime)) = (parked.is_empty(), Handle::try_current()) {
        runtime.spawn(async move {
            for (_, connection) in parked {
                B::close(connection).await;
            }
        });
    }
}

/// Shows no options: they hold the password.
impl<B: Driver> fmt::Debug for Connections<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) => write!(f, "the user's pool of {}", B::pooled(pool).0),
            Self::Own(own) => write!(f, "own connections, {} unused", own.lock().len()),
        }
    }
}

/// When one call has returned, whatever the server does.
///
/// It gives up on a connection earlier than on an answer, so that a call which sent nothing can
/// still report that, before whoever made it calls the outcome unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    connected: Moment,
    answered: Moment,
}

impl<'a> Deadline<'a> {
    /// For a call that returns within `limit`, made by someone who waits for `patience`.
    pub(crate) fn new(clock: &'a dyn Clock, limit: Duration, patience: Duration) -> Self {
        let now = clock.now();
        Self {
            clock,
            connected: now + limit.min(patience) / 4 * 3,
            answered: now + limit,
        }
    }

    /// The output, unless the time for a connection is over first: three quarters of the caller's
    /// patience. And no more than `limit` from now.
    ///
    /// The future is pinned by its caller, since each function that it is passed through would double its size.
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
