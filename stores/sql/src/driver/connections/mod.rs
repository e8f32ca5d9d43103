//! The connections of a provider: where they come from, when they may be reused, and how long a call waits for one.

mod own;
mod pool;

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::Semaphore;

use self::own::{Held, OwnConnections};
use self::pool::{Lent, PoolConnections, Waiting};
use super::deadline::Deadline;
use super::logins::Logins;
use super::sharing::Sharing;
use super::{Driver, How};
use crate::dialect::Proofs;
use crate::failure::Failure;
use crate::options::Options;
use crate::statement::{Reply, Statement, Values};

/// The user's own pool, or our own connections if the provider was created from a URL.
///
/// Our own connections are a short stack, not another sqlx pool. sqlx's pool pings the server after each use, which
/// would double the round trips of a lock. Here a connection goes back only if its reply was read to the end; any other
/// is closed. So an abandoned statement can never block the next one.
pub(crate) enum Connections<B: Driver> {
    Pool(Arc<PoolConnections<B>>),
    /// The same pool for what must not keep a lock waiting: its last connection is left for locks, and one is given back
    /// as soon as a lock waits.
    Spare(Arc<PoolConnections<B>>),
    Own(Arc<OwnConnections<B>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Any,
    /// One that has just replied to a ping. For statements that are not sent again.
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

/// A session, for single statements.
pub(crate) struct Session<'a, B: Driver> {
    connection: &'a mut B::Connection,
    /// Whether prepared statements may be kept in it.
    keeps_statements: bool,
    /// How a statement proves that it is in no transaction but its own, if the session is not ours.
    proofs: Option<&'a Proofs>,
}

impl<B: Driver> Connections<B> {
    /// The user's pool, by the clock of these options.
    pub(crate) fn pool(pool: B::Pool, told: &Options) -> Self {
        Self::Pool(Arc::new(PoolConnections {
            pool,
            replies: Mutex::default(),
            waiting: AtomicUsize::new(0),
            logins: Arc::new(Logins::new(Arc::clone(&told.clock))),
            clock: Arc::clone(&told.clock),
            proofs: B::DIALECT.proofs(told),
        }))
    }

    /// At most `size` connections of our own, opened when they are needed, each within `timeout`.
    pub(crate) fn own(options: B::Options, size: usize, timeout: Duration, told: &Options) -> Self {
        let logins = Arc::new(Logins::new(Arc::clone(&told.clock)));
        Self::beside(options, size, timeout, told, logins)
    }

    /// The same beside other connections of the same user, with which they share their logins.
    pub(crate) fn beside(
        options: B::Options,
        size: usize,
        timeout: Duration,
        told: &Options,
        logins: Arc<Logins>,
    ) -> Self {
        Self::Own(Arc::new(OwnConnections {
            options: Arc::new(options),
            parked: Mutex::new(Vec::new()),
            lost: Mutex::default(),
            permits: Arc::new(Semaphore::new(size.clamp(1, 1_000))),
            timeout,
            sharing: Sharing::new(told.prepared),
            logins,
            clock: Arc::clone(&told.clock),
        }))
    }

    /// How their logins are paced.
    pub(crate) fn logins(&self) -> Arc<Logins> {
        match self {
            Self::Pool(pool) | Self::Spare(pool) => Arc::clone(&pool.logins),
            Self::Own(own) => Arc::clone(&own.logins),
        }
    }

    /// The same source of sessions for what is less urgent than locks. Of a user's pool it takes what is to spare.
    pub(crate) fn second(&self) -> Self {
        match self {
            Self::Pool(pool) | Self::Spare(pool) => Self::Spare(Arc::clone(pool)),
            Self::Own(own) => Self::Own(Arc::new(OwnConnections {
                options: Arc::clone(&own.options),
                parked: Mutex::new(Vec::new()),
                lost: Mutex::default(),
                permits: Arc::new(Semaphore::new(1)),
                timeout: own.timeout,
                sharing: Arc::clone(&own.sharing),
                logins: Arc::clone(&own.logins),
                clock: Arc::clone(&own.clock),
            })),
        }
    }

    /// Where our own connections lead, if the driver reports it.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Pool(_) | Self::Spare(_) => None,
            Self::Own(own) => B::address(&own.options),
        }
    }

    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::Pool(of) | Self::Spare(of) => B::unverified_pool(&of.pool),
            Self::Own(own) => B::unverified(&own.options),
        }
    }

    /// Notes that a connection broke, or fell silent: others that are idle may have broken with it.
    pub(crate) fn lost_a_reply(&self) {
        match self {
            Self::Pool(pool) | Self::Spare(pool) => pool.replies().lost = Some(pool.clock.now()),
            Self::Own(own) => *own.lost() = Some(own.clock.now()),
        }
    }

    /// What our own connections share. A user's sessions are not told apart.
    pub(crate) fn sharing(&self) -> Option<&Sharing> {
        match self {
            Self::Own(own) => Some(&own.sharing),
            Self::Pool(_) | Self::Spare(_) => None,
        }
    }

    pub(crate) async fn acquire(
        &self,
        wanted: Wanted,
        deadline: &Deadline,
    ) -> Result<InUse<B>, Failure> {
        match self {
            Self::Pool(pool) => {
                let _waiting = Waiting::of(&pool.waiting);
                Box::pin(pool.acquire(wanted, deadline)).await
            }
            Self::Spare(pool) => Box::pin(pool.acquire_spare(wanted, deadline)).await,
            Self::Own(own) => match own.ready(wanted) {
                Some(held) => Ok(held),
                // This is rare, and its future is large.
                None => Box::pin(own.acquire(wanted, deadline)).await,
            },
        }
    }
}

impl<B: Driver> Connections<B> {
    /// The output, unless a lock needs the connection that these have lent first, if they give it back then. The caller
    /// pins the future, because each function that takes it by value would double its size.
    pub(crate) async fn unless_wanted_back<T>(
        &self,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        match select(future, pin!(self.wanted_back())).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    async fn wanted_back(&self) {
        match self {
            Self::Spare(pool) => {
                // A single sight is a call that gets a connection at once.
                let mut seen = 0;
                while seen < 2 {
                    pool.pause().await;
                    seen = if pool.is_waited_for() { seen + 1 } else { 0 };
                }
            }
            Self::Pool(_) | Self::Own(_) => std::future::pending().await,
        }
    }

    /// Whether these are sessions of the user's, whose settings are not ours.
    pub(crate) fn are_lent(&self) -> bool {
        !matches!(self, Self::Own(_))
    }
}

impl<B: Driver> InUse<B> {
    pub(crate) fn session(&mut self) -> Session<'_, B> {
        match self {
            Self::Lent(lent) => Session {
                connection: &mut lent.pooled,
                keeps_statements: false,
                proofs: Some(&lent.of.proofs),
            },
            Self::Own(held) => Session {
                keeps_statements: held.own.sharing.keeps_statements(held.opened.is_ours),
                connection: &mut held.opened.connection,
                proofs: None,
            },
        }
    }

    /// The session has lost a prepared statement. Returns whether the next one of our own can do without.
    pub(crate) fn lost_a_statement(&self) -> bool {
        match self {
            Self::Lent(_) => false,
            Self::Own(held) => held.own.sharing.lost_a_statement(),
        }
    }

    /// What tells its session from all others, if it is our own.
    pub(crate) fn identity(&self) -> Option<Arc<str>> {
        match self {
            Self::Own(held) => held.opened.session.clone(),
            Self::Lent(_) => None,
        }
    }

    /// Whether it was opened for this statement; always false for a pool's connection.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::Own(held) if held.is_new)
    }

    /// Marks the last reply as read to its end: the connection may be used again.
    pub(crate) fn finished(self) {
        match self {
            Self::Lent(mut lent) => {
                lent.is_fit = true;
                lent.of.replies().last = Some(lent.of.clock.now());
            }
            Self::Own(held) => {
                let now = held.own.clock.now();
                held.own.lock().push((now, held.opened));
            }
        }
    }
}

impl<B: Driver> Session<'_, B> {
    /// Runs a statement of a transaction that is our own.
    pub(crate) async fn run(
        &mut self,
        statement: &Statement,
        values: &Values<'_>,
    ) -> Result<Reply, Failure> {
        let how = match statement.prepared && self.keeps_statements {
            true => How::Prepared,
            false => How::Plain,
        };
        B::run(self.connection, statement, values, how).await
    }

    /// Runs a statement that is in no other transaction. Where the session shows that it was in one, nothing was written,
    /// and the class is [`Inside`](Class::Inside).
    pub(crate) async fn run_alone(
        &mut self,
        statement: &Statement,
        values: &Values<'_>,
    ) -> Result<Reply, Failure> {
        match self.proofs {
            Some(proofs) => {
                let how = How::Alone(proofs.of(statement));
                B::run(self.connection, statement, values, how).await
            }
            None => self.run(statement, values).await,
        }
    }
}

/// Omits the options, which contain the password.
impl<B: Driver> fmt::Debug for Connections<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(of) | Self::Spare(of) => {
                write!(f, "the user's pool of {}", of.fill().open)
            }
            Self::Own(own) => write!(f, "own connections, {} unused", own.lock().len()),
        }
    }
}

#[cfg(test)]
mod tests;
