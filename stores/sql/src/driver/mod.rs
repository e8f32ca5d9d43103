//! What a provider needs from a client library, and the connections that it opens.

mod connections;
mod deadline;
mod logins;
mod sharing;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod sqlx;

#[cfg(feature = "tokio-postgres")]
pub(crate) mod tokio_postgres;

use std::error::Error as StdError;
use std::ops::DerefMut;

use crate::dialect::{Dialect, Proof};
use crate::failure::{Class, Failure};
use crate::statement::{Reply, Statement, Values};
pub(crate) use connections::{Connections, InUse, Session, Wanted};
pub(crate) use deadline::Deadline;
pub(crate) use logins::Logins;

/// What the server said, if the failure is its reply: only its message, without the client's words, its source line or
/// its hints.
pub(crate) fn said(failure: &(dyn StdError + 'static)) -> Option<String> {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    if let Some(said) = sqlx::said(failure) {
        return Some(said);
    }
    #[cfg(feature = "tokio-postgres")]
    if let Some(said) = tokio_postgres::said(failure) {
        return Some(said);
    }
    let _ = failure;
    None
}

/// Checks the reply to the statement of a [`Proof`] that follows another one.
#[cfg(any(
    feature = "postgres",
    feature = "mysql",
    feature = "sqlite",
    feature = "tokio-postgres"
))]
pub(crate) fn is_proved(said: Option<&str>) -> Result<(), Failure> {
    match said {
        Some("") => Ok(()),
        Some(why) => Err(Failure::new(Class::Inside, why)),
        None => Err(Failure::new(Class::ReplyLost, "the reply has no proof")),
    }
}

/// A database through one client library: the public part.
pub trait Database: Sized + Send + Sync + 'static {
    /// The source of the user's sessions.
    type Pool: Clone + Send + Sync + 'static;
}

/// How a statement is sent.
#[derive(Clone, Copy)]
pub(crate) enum How<'a> {
    /// The server prepares it, once per session.
    Prepared,
    /// It leaves nothing in the session.
    Plain,
    /// In one request with a proof that it is in no transaction but its own, and with its values written into it.
    Alone(&'a Proof),
}

/// A database through one client library: how to get sessions, and how to run statements on them.
///
/// The statements themselves belong to the [`Dialect`] and do not depend on the driver.
pub(crate) trait Driver: Database {
    const STORE: &'static str;

    type Connection: Send + 'static;

    type Options: Send + Sync + 'static;

    /// A session of the user's pool; it goes back when it is dropped.
    type Pooled: DerefMut<Target = Self::Connection> + Send + 'static;

    const DIALECT: &'static Dialect;

    /// Where connections with these options lead, if the driver reports it.
    fn address(_options: &Self::Options) -> Option<String> {
        None
    }

    /// A warning if connections with these options leave this machine without verifying the server.
    fn unverified(_options: &Self::Options) -> Option<String> {
        None
    }

    /// The same warning for the user's pool.
    fn unverified_pool(_pool: &Self::Pool) -> Option<String> {
        None
    }

    /// Options for a connection whose session can be recognized as its own, and the statement that sets up the session
    /// and returns a text that is null unless the session has this mark. `None` if the database's sessions are never
    /// shared.
    fn marked(_options: &Self::Options, _mark: &str) -> Option<(Self::Options, String)> {
        None
    }

    fn connect(
        options: &Self::Options,
    ) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Whether the server responds.
    fn ping(connection: &mut Self::Connection) -> impl Future<Output = bool> + Send;

    /// Ends a session cleanly: servers log those that just disappear.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;

    fn acquire(pool: &Self::Pool) -> impl Future<Output = Result<Self::Pooled, Failure>> + Send;

    /// Ends a session of the user's pool, now or when it is dropped, because it may be broken. It is not used again.
    fn discard(pooled: &mut Self::Pooled);

    /// The options with which the pool would open a session now; `None` if the pool does not report them.
    fn options_of(_pool: &Self::Pool) -> Option<Self::Options> {
        None
    }

    /// How many sessions the pool has, and whether one of them is idle. A session that is found
    /// broken leaves the pool.
    fn pooled(pool: &Self::Pool) -> (u32, bool);

    /// How many sessions the pool has, if it may have no more and all of them are in use.
    fn taken(_pool: &Self::Pool) -> Option<u32> {
        None
    }

    /// How many sessions the pool could lend now, without waiting for one to come back. `None` if that is not visible,
    /// or if a session that waits keeps nothing from others.
    fn spare(_pool: &Self::Pool) -> Option<u32> {
        None
    }

    /// Runs a statement to the end of its reply.
    fn run<'a>(
        connection: &'a mut Self::Connection,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + 'a;
}
