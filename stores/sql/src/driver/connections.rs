//! Where connections come from, and which of them may be used again.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use shedlock_core::{Clock, Moment};
use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions, Connection as _, Database, Pool};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Backend, Failure};
use crate::options::Options;

/// The user's own pool, or connections of ours where the provider was made from a URL.
///
/// Ours are a short stack rather than another pool of sqlx's, since that one asks the server after
/// each use whether the connection still lives, which would double the round trips of a lock. Here
/// only a connection whose reply was read to its end goes back; every other one is closed. So an
/// abandoned statement can never be in the way of the next one.
pub(crate) enum Connections<B: Backend> {
    Pool(Pool<B>),
    Own(Arc<Own<B>>),
}

/// Connections of ours.
pub(crate) struct Own<B: Database> {
    options: <B::Connection as sqlx::Connection>::Options,
    parked: Mutex<Vec<Parked<B>>>,
    permits: Arc<Semaphore>,
    timeout: Duration,
    /// Whether a session is ours for as long as its connection, so that it can be set up.
    greets: bool,
    clock: Arc<dyn Clock>,
}

struct Parked<B: Database> {
    connection: B::Connection,
    since: Moment,
}

/// A connection that was unused for longer than this is asked whether it still lives before it is
/// used: firewalls and servers cut idle ones.
const FRESH: Duration = Duration::from_secs(30);

/// A connection in use.
pub(crate) struct Held<B: Database> {
    from: From<B>,
    /// The last reply was read to its end.
    clean: bool,
}

enum From<B: Database> {
    Pool(PoolConnection<B>),
    Own {
        connection: Option<B::Connection>,
        own: Arc<Own<B>>,
        _permit: OwnedSemaphorePermit,
    },
}

impl<B: Backend> Connections<B> {
    /// At most `size` connections of ours, made when they are needed, each within `timeout`.
    pub(crate) fn own(
        options: <B::Connection as sqlx::Connection>::Options,
        size: usize,
        timeout: Duration,
        told: &Options,
    ) -> Self {
        Self::Own(Arc::new(Own {
            options,
            parked: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size.clamp(1, 1_000))),
            timeout,
            greets: told.prepared,
            clock: Arc::clone(&told.clock),
        }))
    }

    /// A connection to send one statement on. With `proven` it has just answered: for the second
    /// try after one broke, when others of the same age may be broken too.
    pub(crate) async fn acquire(&self, proven: bool) -> Result<Held<B>, Failure> {
        let from = match self {
            Self::Pool(pool) => From::Pool(if proven {
                acquire_proven(pool).await?
            } else {
                pool.acquire().await.map_err(Failure::connecting::<B>)?
            }),
            Self::Own(own) => match own.ready(proven) {
                Some(from) => from,
                None => own.acquire_in_time(proven).await?,
            },
        };
        Ok(Held { from, clean: false })
    }
}

async fn acquire_proven<B: Backend>(pool: &Pool<B>) -> Result<PoolConnection<B>, Failure> {
    // Each connection that is found broken leaves the pool, so that in the end a new one is made.
    let mut tries = pool.size() + 1;
    loop {
        let mut connection = pool.acquire().await.map_err(Failure::connecting::<B>)?;
        match connection.ping().await {
            Ok(()) => return Ok(connection),
            Err(error) => {
                connection.close_on_drop();
                tries = tries.saturating_sub(1);
                if tries == 0 {
                    return Err(Failure::connecting::<B>(error));
                }
            }
        }
    }
}

impl<B: Backend> Own<B> {
    /// The connection that was used last, if it may be used at once: what happens almost always.
    fn ready(self: &Arc<Self>, proven: bool) -> Option<From<B>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let parked = self
            .lock()
            .pop_if(|parked| !proven && self.clock.now().saturating_since(parked.since) <= FRESH)?;
        Some(From::Own {
            connection: Some(parked.connection),
            own: Arc::clone(self),
            _permit: permit,
        })
    }

    async fn acquire_in_time(self: &Arc<Self>, proven: bool) -> Result<From<B>, Failure> {
        let limit = self.clock.sleep_until(self.clock.now() + self.timeout);
        futures_util::select! {
            from = Arc::clone(self).acquire(proven).fuse() => from,
            () = limit.fuse() => Err(Failure::connecting::<B>(sqlx::Error::PoolTimedOut)),
        }
    }

    async fn acquire(self: Arc<Self>, proven: bool) -> Result<From<B>, Failure> {
        // The semaphore is never closed, so this cannot fail.
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| Failure::connecting::<B>(sqlx::Error::PoolClosed))?;
        let connection = loop {
            let parked = self.lock().pop();
            match parked {
                Some(mut parked) => {
                    let idle = self.clock.now().saturating_since(parked.since);
                    let ask = proven || idle > FRESH;
                    if !ask || parked.connection.ping().await.is_ok() {
                        break parked.connection;
                    }
                }
                None => break self.connect().await?,
            }
        };
        Ok(From::Own {
            connection: Some(connection),
            own: self,
            _permit: permit,
        })
    }

    async fn connect(&self) -> Result<B::Connection, Failure> {
        let mut connection = self
            .options
            .connect()
            .await
            .map_err(Failure::connecting::<B>)?;
        if let Some(greeting) = B::greeting().filter(|_| self.greets) {
            B::greet(&mut connection, greeting)
                .await
                .map_err(Failure::connecting::<B>)?;
        }
        Ok(connection)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Parked<B>>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Database> Held<B> {
    /// Says that the last reply was read to its end: the connection may be used again.
    pub(crate) fn finished(mut self) {
        self.clean = true;
    }
}

impl<B: Database> Deref for Held<B> {
    type Target = B::Connection;

    fn deref(&self) -> &B::Connection {
        match &self.from {
            From::Pool(connection) => connection,
            From::Own { connection, .. } => connection.as_ref().expect(TAKEN),
        }
    }
}

impl<B: Database> DerefMut for Held<B> {
    fn deref_mut(&mut self) -> &mut B::Connection {
        match &mut self.from {
            From::Pool(connection) => connection,
            From::Own { connection, .. } => connection.as_mut().expect(TAKEN),
        }
    }
}

const TAKEN: &str = "the connection is taken out on drop alone";

impl<B: Database> Drop for Held<B> {
    fn drop(&mut self) {
        match &mut self.from {
            From::Pool(connection) if !self.clean => connection.close_on_drop(),
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

/// Says goodbye to the server, behind and if there is still somebody to do it: servers log
/// connections that just vanish.
impl<B: Database> Drop for Own<B> {
    fn drop(&mut self) {
        let parked = self
            .parked
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let parked = std::mem::take(parked);
        if let (false, Ok(runtime)) = (parked.is_empty(), Handle::try_current()) {
            runtime.spawn(async move {
                for Parked { connection, .. } in parked {
                    // Who cannot say goodbye is gone all the same.
                    let _ = connection.close().await;
                }
            });
        }
    }
}

/// Shows no options: they hold the password.
impl<B: Backend> fmt::Debug for Connections<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(pool) => write!(f, "the user's pool of {}", pool.size()),
            Self::Own(own) => {
                let parked = own.parked.lock().unwrap_or_else(PoisonError::into_inner);
                write!(f, "own connections, {} unused", parked.len())
            }
        }
    }
}
