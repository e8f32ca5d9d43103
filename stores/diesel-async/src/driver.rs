//! diesel-async, for each of its databases.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

use diesel_async::AsyncConnection;
use shedlock_sql::driver::{
    Class, Dialect, Driver, Failure, Fill, How, Reply, Server, Statement, Values,
};

use crate::failure::{Report, connecting};
use crate::source::{Connections, Lent};

/// A database over diesel-async connections of the type `C`.
pub struct DieselAsync<C>(PhantomData<fn() -> C>, Infallible);

impl<C> fmt::Debug for DieselAsync<C> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {}
    }
}

/// A database that diesel-async has connections to.
pub trait Database: AsyncConnection + 'static {
    /// The name of the store, in errors.
    const STORE: &'static str;

    /// The statements that the database understands.
    const DIALECT: &'static Dialect;

    /// What the server's error means, if its message is one of those that matter.
    fn classify(report: &Report<'_>) -> Option<Class>;

    /// What it means while a connection is opened, if that differs from its meaning for a statement.
    fn at_login(report: &Report<'_>) -> Option<Class>;

    /// Runs a statement to the end of its reply.
    ///
    /// # Errors
    /// The class tells whether the statement may have taken effect.
    fn answer<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + 'a;
}

/// A session of the application's. `None` once it was discarded.
pub struct Session<C>(Option<Box<dyn Lent<C>>>);

const TAKEN: &str = "a session that has ended is not used";

impl<C> Session<C> {
    fn connection(&mut self) -> &mut C {
        self.0.as_mut().expect(TAKEN).connection()
    }
}

impl<C: Database> Server for DieselAsync<C> {}

impl<C: Database> Driver for DieselAsync<C> {
    const STORE: &'static str = C::STORE;

    const DIALECT: &'static Dialect = C::DIALECT;

    /// diesel-async returns no rows of a request that consists of several statements.
    const IS_ONE_REQUEST: bool = false;

    type Pool = Connections<C>;
    type Connection = Session<C>;
    type Options = Infallible;
    type Pooled = Box<Session<C>>;

    async fn connect(options: &Infallible) -> Result<Session<C>, Failure> {
        match *options {}
    }

    async fn ping(session: &mut Session<C>) -> bool {
        session.connection().batch_execute("SELECT 1").await.is_ok()
    }

    async fn close(_: Session<C>) {}

    async fn acquire(connections: &Connections<C>) -> Result<Box<Session<C>>, Failure> {
        match connections.lend().await {
            Ok(lent) => Ok(Box::new(Session(Some(lent)))),
            Err(error) if connections.is_closed() => Err(Failure::new(Class::Closed, error)),
            Err(error) => Err(connecting::<C>(error)),
        }
    }

    fn discard(session: &mut Box<Session<C>>) {
        if let Some(lent) = session.0.take() {
            lent.discard();
        }
    }

    fn fill(connections: &Connections<C>) -> Option<Fill> {
        connections.fill()
    }

    async fn run<'a>(
        session: &'a mut Session<C>,
        statement: &'a Statement,
        values: &'a Values<'a>,
        how: How<'a>,
    ) -> Result<Reply, Failure> {
        session.connection().answer(statement, values, how).await
    }
}
