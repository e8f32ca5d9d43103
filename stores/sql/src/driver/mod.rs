//! What a provider needs from a client library: the interface of the crates that run its statements with one.
//!
//! A driver implements [`Driver`] and, if it reads URLs, [`Remote`] or [`Open`]. The statements, and what a failure means
//! to a lock, are here and the same for all drivers. The kit of `shedlock-conformance` shows whether a driver keeps the
//! laws.

mod connections;
mod deadline;
mod logins;
mod sharing;

use std::ops::DerefMut;

pub use crate::builder::{Reports, Server};
pub use crate::dialect::{Dialect, Proof};
pub use crate::failure::{BoxError, Class, Failure, Refusal};
#[cfg(feature = "file")]
pub use crate::file::{Embedded, File, open_path};
pub use crate::statement::{Reply, Statement, Value, Values};
pub use crate::url::{Address, Open, Remote, refused_option};
pub(crate) use connections::{Connections, InUse, Session, Wanted};
pub(crate) use deadline::Deadline;
pub(crate) use logins::Logins;

/// Checks the reply to the statement of a [`Proof`] that follows another one.
///
/// # Errors
/// A failure of the class [`Inside`](Class::Inside) if the proof returned why the statement does not count.
pub fn check_proof(said: Option<&str>) -> Result<(), Failure> {
    match said {
        Some("") => Ok(()),
        Some(why) => Err(Failure::new(Class::Inside, why)),
        None => Err(Failure::new(Class::ReplyLost, "the reply has no proof")),
    }
}

/// How many sessions a pool has.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// Those that are open, in use or idle.
    pub open: u32,
    /// Those that are idle, and so are lent without a login.
    pub idle: u32,
    /// How many may be open; `u32::MAX` if the pool does not tell.
    pub most: u32,
}

impl Fill {
    /// What is assumed of a pool that does not tell: up to this many broken sessions are tried before it opens a new one,
    /// and each session may be that of a login.
    pub(crate) const ASSUMED: Self = Self {
        open: 16,
        idle: 0,
        most: u32::MAX,
    };

    /// How many sessions there are, if there may be no more and all of them are in use.
    pub(crate) fn taken(self) -> Option<u32> {
        (self.idle == 0 && self.open >= self.most).then_some(self.open)
    }
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug)]
pub enum How<'a> {
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
pub trait Driver: Sized + Send + Sync + 'static {
    /// The name of the store, in errors.
    const STORE: &'static str;

    /// The statements that the database understands.
    const DIALECT: &'static Dialect;

    /// Whether a statement that is sent [alone](How::Alone) and its proof are one request, so that the statement can
    /// check by the server's clock that it is alone. Otherwise the driver runs the proof before it, in a way that keeps
    /// the statement from being executed if the proof fails.
    const IS_ONE_REQUEST: bool = true;

    /// The source of the user's sessions.
    type Pool: Clone + Send + Sync + 'static;

    /// A session.
    type Connection: Send + 'static;

    /// How sessions are opened.
    type Options: Send + Sync + 'static;

    /// A session of the user's pool; it goes back when it is dropped.
    type Pooled: DerefMut<Target = Self::Connection> + Send + 'static;

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

    /// Opens a session.
    ///
    /// # Errors
    /// Nothing was sent that a lock depends on.
    fn connect(
        options: &Self::Options,
    ) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Whether the server responds.
    fn ping(connection: &mut Self::Connection) -> impl Future<Output = bool> + Send;

    /// Ends a session cleanly: servers log those that just disappear.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;

    /// Takes a session from the user's pool.
    ///
    /// # Errors
    /// Nothing was sent.
    fn acquire(pool: &Self::Pool) -> impl Future<Output = Result<Self::Pooled, Failure>> + Send;

    /// Ends a session of the user's pool, now or when it is dropped, because it may be broken. It is not used again.
    fn discard(pooled: &mut Self::Pooled);

    /// The options with which the pool would open a session now; `None` if the pool does not report them.
    fn options_of(_pool: &Self::Pool) -> Option<Self::Options> {
        None
    }

    /// How many sessions the pool has. A session that is found broken leaves the pool. `None` if the pool does not tell.
    fn fill(pool: &Self::Pool) -> Option<Fill>;

    /// How many sessions the pool could lend now, without waiting for one to come back. `None` if that is not visible,
    /// or if a session that waits keeps nothing from others.
    fn spare(_pool: &Self::Pool) -> Option<u32> {
        None
    }

    /// Runs a statement to the end of its reply. A caller that drops the future does not use the session again.
    ///
    /// # Errors
    /// The class tells whether the statement may have taken effect.
    fn run<'a>(
        connection: &'a mut Self::Connection,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + 'a;
}

/// What drivers for PostgreSQL share.
pub mod postgres {
    pub use crate::builder::Postgres;
    pub use crate::dialect::postgres::{MARK, POSTGRES, TLS, at_login, classify, session_init};
    pub use crate::libpq::{system_authorities, take};
}

/// What drivers for MySQL and MariaDB share.
pub mod mysql {
    pub use crate::builder::MySql;
    pub use crate::dialect::mysql::{MYSQL, at_login, classify, token_in};
}

/// What drivers for SQLite share.
pub mod sqlite {
    pub use crate::dialect::sqlite::{SQLITE, at_login, classify};
}
