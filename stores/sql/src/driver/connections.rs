//! The connections of a provider: where they come from, when they may be reused, and how long a call waits for one.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use shedlock_core::{Clock, Moment};
use shedlock_store::{FRESH, TEST};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::deadline::Deadline;
use super::logins::Logins;
use super::sharing::{Opened, Sharing};
use super::{Driver, How};
use crate::dialect::Proof;
use crate::failure::{Class, Failure};
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

/// The user's pool. Which of its connections have been idle, and for how long, is not visible.
pub(crate) struct PoolConnections<B: Driver> {
    pool: B::Pool,
    replies: Mutex<Replies>,
    /// How many calls for locks wait for a connection.
    waiting: AtomicUsize,
    logins: Arc<Logins>,
    clock: Arc<dyn Clock>,
    proof: Proof,
}

/// A call for a lock that waits for a connection.
struct Waiting<'a>(&'a AtomicUsize);

/// When replies last came through a pool, and when one was lost.
#[derive(Default)]
struct Replies {
    last: Option<Moment>,
    lost: Option<Moment>,
}

pub(crate) struct OwnConnections<B: Driver> {
    options: Arc<B::Options>,
    /// Idle connections, each with the time of its last use.
    parked: Mutex<Vec<(Moment, Opened<B>)>>,
    /// When a reply was last lost. Connections that were parked before then may be broken as well.
    lost: Mutex<Option<Moment>>,
    permits: Arc<Semaphore>,
    timeout: Duration,
    sharing: Arc<Sharing>,
    logins: Arc<Logins>,
    clock: Arc<dyn Clock>,
}

/// A connection that was idle for longer than this is closed: firewalls drop idle connections after a few minutes,
/// often without notifying either side.
const IDLE: Duration = Duration::from_secs(300);

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
    proof: Option<&'a Proof>,
}

pub(crate) struct Held<B: Driver> {
    opened: Opened<B>,
    own: Arc<OwnConnections<B>>,
    _permit: OwnedSemaphorePermit,
    is_new: bool,
}

pub(crate) struct Lent<B: Driver> {
    pooled: B::Pooled,
    of: Arc<PoolConnections<B>>,
    /// The last reply was read to its end.
    is_fit: bool,
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
            proof: B::DIALECT.proof(told),
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
        deadline: &Deadline<'_>,
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

impl<'a> Waiting<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
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
    async fn acquire_spare(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline<'_>,
    ) -> Result<InUse<B>, Failure> {
        while self.is_waited_for() || B::spare(&self.pool).is_some_and(|spare| spare < 2) {
            if deadline.is_too_late_to_connect() {
                return Err(Failure::none_to_spare());
            }
            self.pause().await;
        }
        self.acquire(wanted, deadline).await
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    async fn pause(&self) {
        self.clock.sleep_until(self.clock.now() + Self::LOOK).await;
    }

    /// Gets a connection, within the call's time limit. The pool's own timeout may be longer.
    async fn acquire(
        self: &Arc<Self>,
        wanted: Wanted,
        deadline: &Deadline<'_>,
    ) -> Result<InUse<B>, Failure> {
        let is_proven = wanted == Wanted::Proven || self.may_be_broken();
        // Each broken connection leaves the pool, so the pool eventually opens a new one.
        let (size, _) = B::pooled(&self.pool);
        let mut tries = size + 1;
        while tries > 0 && !deadline.is_too_late_to_connect() {
            // An idle connection is available at once, unless the pool waits for a reply on one that was dropped
            // silently. When we stop waiting, that one leaves the pool.
            let (_, has_idle) = B::pooled(&self.pool);
            let patience = if has_idle { TEST } else { Duration::MAX };
            // Without an idle connection, the pool logs in, unless it is full. It also does if the idle one is broken.
            let acquire = async {
                let acquire = B::acquire(&self.pool);
                if B::taken(&self.pool).is_some() {
                    return acquire.await;
                }
                let last_reply = self.replies().last;
                match has_idle {
                    true => self.logins.pace_idle(last_reply, acquire).await,
                    false => self.logins.pace(acquire).await,
                }
            };
            let Some(acquired) = deadline.connect(patience, pin!(acquire)).await else {
                continue;
            };
            let acquired = acquired.map_err(|failure| match failure.class {
                Class::NotSent => self.no_connection(failure),
                _ => failure,
            });
            let mut lent = Lent {
                pooled: acquired?,
                of: Arc::clone(self),
                is_fit: false,
            };
            if !is_proven {
                return Ok(InUse::Lent(lent));
            }
            let answer = deadline
                .connect(TEST, pin!(B::ping(&mut lent.pooled)))
                .await;
            if answer == Some(true) {
                return Ok(InUse::Lent(lent));
            }
            tries -= 1;
        }
        Err(self.no_connection(Failure::no_connection()))
    }

    /// Says so if the pool is why there is no connection.
    fn no_connection(&self, failure: Failure) -> Failure {
        B::taken(&self.pool).map_or(failure, Failure::exhausted)
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

    fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Driver> OwnConnections<B> {
    /// The most recently used connection, if it may be used at once. This is by far the most frequent case.
    fn ready(self: &Arc<Self>, wanted: Wanted) -> Option<InUse<B>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let is_ready =
            |(since, _): &mut (Moment, _)| wanted == Wanted::Any && self.is_fresh(*since);
        let (_, opened) = self.lock().pop_if(is_ready)?;
        Some(self.held(opened, permit, false))
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

    async fn used(&self, wanted: Wanted, deadline: &Deadline<'_>) -> Option<Opened<B>> {
        loop {
            let (since, mut opened) = self.lock().pop()?;
            let idle = self.idle(since);
            if wanted == Wanted::New || idle > IDLE {
                // The ones below have been idle for longer, and lead to the same server.
                let mut others = std::mem::take(&mut *self.lock());
                others.push((since, opened));
                close::<B>(others);
                return None;
            }
            if wanted == Wanted::Any && self.is_fresh(since) {
                return Some(opened);
            }
            let ping = B::ping(&mut opened.connection);
            let answer = deadline.connect(TEST, pin!(ping)).await;
            match answer {
                Some(true) => return Some(opened),
                Some(false) => {}
                // It was dropped silently, and so were the ones that have been idle for longer.
                None => self.lock().clear(),
            }
        }
    }

    /// Whether a connection that was parked then may be used without a ping.
    fn is_fresh(&self, since: Moment) -> bool {
        self.idle(since) <= FRESH && self.lost().is_none_or(|lost| lost < since)
    }

    fn lost(&self) -> MutexGuard<'_, Option<Moment>> {
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

    fn lock(&self) -> MutexGuard<'_, Vec<(Moment, Opened<B>)>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Driver> InUse<B> {
    pub(crate) fn session(&mut self) -> Session<'_, B> {
        match self {
            Self::Lent(lent) => Session {
                connection: &mut lent.pooled,
                keeps_statements: false,
                proof: Some(&lent.of.proof),
            },
            Self::Own(held) => Session {
                keeps_statements: held.opened.is_ours && !held.own.sharing.is_shared(),
                connection: &mut held.opened.connection,
                proof: None,
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
        match self.proof {
            Some(proof) => B::run(self.connection, statement, values, How::Alone(proof)).await,
            None => self.run(statement, values).await,
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
fn close<B: Driver>(parked: Vec<(Moment, Opened<B>)>) {
    if let (false, Ok(runtime)) = (parked.is_empty(), Handle::try_current()) {
        runtime.spawn(async move {
            for (_, opened) in parked {
                B::close(opened.connection).await;
            }
        });
    }
}

/// Omits the options, which contain the password.
impl<B: Driver> fmt::Debug for Connections<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool(of) | Self::Spare(of) => {
                write!(f, "the user's pool of {}", B::pooled(&of.pool).0)
            }
            Self::Own(own) => write!(f, "own connections, {} unused", own.lock().len()),
        }
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests;
