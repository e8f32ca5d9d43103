//! Where connections come from, and which of them may be used again.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock, Moment};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Driver, Failure};
use crate::deadline::Deadline;
use crate::options::Options;
use crate::statement::{Reply, Statement, Values};

/// The user's own pool, or connections of ours where the provider was made from a URL.
///
/// Ours are a short stack rather than another pool of sqlx's, since that one asks the server after
/// each use whether the connection still lives, which would double the round trips of a lock. Here
/// only a connection whose reply was read to its end goes back; every other one is closed. So an
/// abandoned statement can never be in the way of the next one.
pub(crate) enum Connections<B: Driver> {
    Pool(B::Pool),
    Own(Arc<Own<B>>),
}

/// Connections of ours.
pub(crate) struct Own<B: Driver> {
    options: B::Options,
    parked: Mutex<Vec<Parked<B>>>,
    permits: Arc<Semaphore>,
    timeout: Duration,
    /// Whether a session is ours for as long as its connection, so that it can be set up.
    is_set_up: bool,
    clock: Arc<dyn Clock>,
}

struct Parked<B: Driver> {
    connection: B::Connection,
    since: Moment,
}

/// A connection that was unused for longer than this is asked whether it still lives before it is
/// used: firewalls and servers cut idle ones.
const FRESH: Duration = Duration::from_secs(30);

/// One that was unused for longer than this is closed: firewalls forget idle connections after a few
/// minutes, often without a word to either side.
const IDLE: Duration = Duration::from_secs(300);

/// How long a connection may take to answer that it lives. One that was cut silently never does.
const PING: Duration = Duration::from_secs(1);

/// Which connection is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any that is not likely to be broken.
    Any,
    /// One that has just answered: after another one of the same age broke.
    Proven,
    /// One to the server that the address leads to now, where they are ours: after a session that no
    /// longer serves, perhaps since its server is no longer the primary.
    New,
}

/// A connection in use.
pub(crate) struct Held<B: Driver> {
    from: From<B>,
    /// The last reply was read to its end.
    clean: bool,
    /// It was made for this statement.
    is_new: bool,
}

enum From<B: Driver> {
    Pool(B::Pooled),
    Own {
        connection: Option<B::Connection>,
        own: Arc<Own<B>>,
        _permit: OwnedSemaphorePermit,
    },
}

impl<B: Driver> Connections<B> {
    /// At most `size` connections of ours, made when they are needed, each within `timeout`.
    pub(crate) fn own(options: B::Options, size: usize, timeout: Duration, told: &Options) -> Self {
        Self::Own(Arc::new(Own {
            options,
            parked: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size.clamp(1, 1_000))),
            timeout,
            is_set_up: told.prepared,
            clock: Arc::clone(&told.clock),
        }))
    }

    /// What the user should be warned of.
    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::Pool(pool) => B::unverified_pool(pool),
            Self::Own(own) => B::unverified(&own.options),
        }
    }

    /// A connection to send one statement on.
    pub(crate) async fn acquire(
        &self,
        wanted: Wanted,
        deadline: &Deadline<'_>,
    ) -> Result<Held<B>, Failure> {
        let (from, is_new) = match self {
            Self::Pool(pool) => {
                let acquire = Box::pin(acquire::<B>(pool, wanted, deadline));
                (From::Pool(acquire.await?), false)
            }
            Self::Own(own) => match own.ready(wanted) {
                Some(from) => (from, false),
                // Rarely, and its future is large.
                None => Box::pin(own.acquire(wanted, deadline)).await?,
            },
        };
        Ok(Held {
            from,
            clean: false,
            is_new,
        })
    }
}

/// From the user's pool, within the time of the call: the pool's own time-out may be longer.
async fn acquire<B: Driver>(
    pool: &B::Pool,
    wanted: Wanted,
    deadline: &Deadline<'_>,
) -> Result<B::Pooled, Failure> {
    // Each connection that is found broken leaves the pool, so that in the end a new one is made.
    let (size, _) = B::pooled(pool);
    let mut tries = size + 1;
    while !deadline.is_too_late_to_connect() {
        // An idle connection is there at once, unless the pool waits for one to answer that was cut
        // silently; given up, that one leaves the pool.
        let (_, has_idle) = B::pooled(pool);
        let patience = if has_idle { PING } else { Duration::MAX };
        let acquired = deadline.connect(patience, pin!(B::acquire(pool))).await;
        let Some(acquired) = acquired else {
            continue;
        };
        let mut pooled = acquired.map_err(B::connecting)?;
        if wanted != Wanted::Proven {
            return Ok(pooled);
        }
        let answer = deadline.connect(PING, pin!(B::ping(&mut pooled))).await;
        if let Some(Ok(())) = answer {
            return Ok(pooled);
        }
        B::discard(&mut pooled);
        tries = tries.saturating_sub(1);
        if tries == 0 {
            break;
        }
    }
    Err(Failure::no_connection())
}

impl<B: Driver> Own<B> {
    /// The connection that was used last, if it may be used at once: what happens almost always.
    fn ready(self: &Arc<Self>, wanted: Wanted) -> Option<From<B>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let parked = self
            .lock()
            .pop_if(|parked| wanted == Wanted::Any && self.idle(parked) <= FRESH)?;
        Some(self.held(parked.connection, permit))
    }

    /// With whether it is new.
    async fn acquire(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline<'_>,
    ) -> Result<(From<B>, bool), Failure> {
        let acquire = async {
            // The semaphore is never closed, so this cannot fail.
            let permit = Arc::clone(&self.permits)
                .acquire_owned()
                .await
                .map_err(|_| Failure::no_connection())?;
            if let Some(connection) = self.used(wanted, deadline).await {
                return Ok((self.held(connection, permit), false));
            }
            Ok((self.held(self.connect().await?, permit), true))
        };
        let acquired = deadline.connect(self.timeout, pin!(acquire)).await;
        acquired.unwrap_or_else(|| Err(Failure::no_connection()))
    }

    /// One that was used before, if there is one that may be used.
    async fn used(&self, wanted: Wanted, deadline: &Deadline<'_>) -> Option<B::Connection> {
        loop {
            let mut parked = self.lock().pop()?;
            let idle = self.idle(&parked);
            if wanted == Wanted::New || idle > IDLE {
                // Those below have been unused for longer, and lead to the same server.
                let mut others = std::mem::take(&mut *self.lock());
                others.push(parked);
                close(others);
                return None;
            }
            if wanted == Wanted::Any && idle <= FRESH {
                return Some(parked.connection);
            }
            let answer = deadline
                .connect(PING, pin!(B::ping(&mut parked.connection)))
                .await;
            match answer {
                Some(Ok(())) => return Some(parked.connection),
                Some(Err(_)) => {}
                // It was cut silently, and so were those that have been unused for longer.
                None => self.lock().clear(),
            }
        }
    }

    fn idle(&self, parked: &Parked<B>) -> Duration {
        self.clock.now().saturating_since(parked.since)
    }

    fn held(self: &Arc<Self>, connection: B::Connection, permit: OwnedSemaphorePermit) -> From<B> {
        From::Own {
            connection: Some(connection),
            own: Arc::clone(self),
            _permit: permit,
        }
    }

    async fn connect(&self) -> Result<B::Connection, Failure> {
        let connected = B::connect(&self.options).await;
        let mut connection = connected.map_err(B::connecting)?;
        if let Some(text) = B::dialect().session_init().filter(|_| self.is_set_up) {
            let (init, values) = (Statement::plain(text), Values::default());
            let answer: Result<Reply, _> = B::run(&mut connection, &init, &values, false).await;
            answer.map_err(B::connecting)?;
        }
        Ok(connection)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Parked<B>>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Driver> Held<B> {
    /// Whether it was made for this statement; never where the pool made it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Says that the last reply was read to its end: the connection may be used again.
    pub(crate) fn finished(mut self) {
        self.clean = true;
    }
}

impl<B: Driver> Deref for Held<B> {
    type Target = B::Connection;

    fn deref(&self) -> &B::Connection {
        match &self.from {
            From::Pool(connection) => connection,
            From::Own { connection, .. } => connection.as_ref().expect(TAKEN),
        }
    }
}

impl<B: Driver> DerefMut for Held<B> {
    fn deref_mut(&mut self) -> &mut B::Connection {
        match &mut self.from {
            From::Pool(connection) => connection,
            From::Own { connection, .. } => connection.as_mut().expect(TAKEN),
        }
    }
}

const TAKEN: &str = "the connection is taken out on drop alone";

impl<B: Driver> Drop for Held<B> {
    fn drop(&mut self) {
        match &mut self.from {
            From::Pool(pooled) if !self.clean => B::discard(pooled),
            From::Pool(_) => {}
            From::Own {
                connection, own, ..
            } => {
                if let Some(connection) = connection.take().filter(|_| self.clean) {
                    let parked = Parked {
                        connection,
                        since: own.clock.now(),
                    };
                    own.parked
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(parked);
                }
            }
        }
    }
}

impl<B: Driver> Drop for Own<B> {
    fn drop(&mut self) {
        let parked = self
            .parked
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        close(std::mem::take(parked));
    }
}

/// Says goodbye to the server in the background, if there is a runtime to do it: servers log
/// connections that just vanish.
fn close<B: Driver>(parked: Vec<Parked<B>>) {
    if let (false, Ok(runtime)) = (parked.is_empty(), Handle::try_current()) {
        runtime.spawn(async move {
            for Parked { connection, .. } in parked {
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
            Self::Own(own) => {
                let parked = own.parked.lock().unwrap_or_else(PoisonError::into_inner);
                write!(f, "own connections, {} unused", parked.len())
            }
        }
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests;
