//! What a client library has to do for a provider, and the connections that it makes.

mod connections;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod sqlx;

#[cfg(feature = "tokio-postgres")]
pub(crate) mod tokio_postgres;

use std::ops::DerefMut;

use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::statement::{Reply, Statement, Values};
pub(crate) use connections::{Connections, Deadline, Wanted};

/// A database through one client library: what of it users see.
pub trait Database: Sized + Send + Sync + 'static {
    /// Where the user's sessions come from.
    type Pool: Clone + Send + Sync + 'static;
}

/// A database through one client library: how sessions are had, and how statements run on them.
///
/// The statements themselves are the [`Dialect`]'s and know nothing of it.
pub(crate) trait Driver: Database {
    const STORE: &'static str;

    type Connection: Send + 'static;

    type Options: Send + Sync + 'static;

    /// A session of the user's; it goes back when it is dropped.
    type Pooled: DerefMut<Target = Self::Connection> + Send + 'static;

    const DIALECT: &'static Dialect;

    /// A warning where connections with these options do not check who answers them, and leave this
    /// machine.
    fn unverified(_options: &Self::Options) -> Option<String> {
        None
    }

    /// The same of the user's.
    fn unverified_pool(_pool: &Self::Pool) -> Option<String> {
        None
    }

    fn connect(
        options: &Self::Options,
    ) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Whether the server answers.
    fn ping(connection: &mut Self::Connection) -> impl Future<Output = bool> + Send;

    /// Ends a session politely: servers log those that just vanish.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;

    fn acquire(pool: &Self::Pool) -> impl Future<Output = Result<Self::Pooled, Failure>> + Send;

    /// Has a session of the user's end when it is dropped: it may be broken.
    fn discard(pooled: &mut Self::Pooled);

    /// How many sessions the pool has, and whether one of them is idle. Each that is found broken
    /// leaves the pool.
    fn pooled(pool: &Self::Pool) -> (u32, bool);

    fn run<'a>(
        connection: &'a mut Self::Connection,
        statement: &'a Statement,
        values: &'a Values<'a>,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + 'a;
}
