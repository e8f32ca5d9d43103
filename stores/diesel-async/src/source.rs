//! Where connections come from.

use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc;

use diesel_async::{AsyncConnection, TransactionManager as _};
use shedlock_core::BoxFuture;
use shedlock_sql::driver::{BoxError, Fill};

/// A source of diesel-async connections: your application's pool.
///
/// A connection may be inside a transaction. The call then does nothing, [discards](Self::discard) the connection and
/// asks for another one, three times at most.
///
/// The features `deadpool`, `bb8` and `mobc` implement it for the pools of [`diesel_async::pooled_connection`]. For
/// another pool:
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use diesel_async::AsyncPgConnection;
/// use shedlock_diesel_async::{ConnectionSource, PostgresProvider};
/// # mod other {
/// #     use diesel_async::AsyncPgConnection;
/// #     #[derive(Clone)]
/// #     pub(crate) struct Pool;
/// #     pub(crate) struct Object(AsyncPgConnection);
/// #     impl Pool {
/// #         pub(crate) async fn get(&self) -> Result<Object, std::io::Error> { unimplemented!() }
/// #         pub(crate) fn is_closed(&self) -> bool { false }
/// #     }
/// #     impl Object { pub(crate) fn detach(self) -> AsyncPgConnection { self.0 } }
/// #     impl std::ops::Deref for Object {
/// #         type Target = AsyncPgConnection;
/// #         fn deref(&self) -> &AsyncPgConnection { &self.0 }
/// #     }
/// #     impl std::ops::DerefMut for Object {
/// #         fn deref_mut(&mut self) -> &mut AsyncPgConnection { &mut self.0 }
/// #     }
/// # }
///
/// struct Pool(other::Pool);
///
/// impl ConnectionSource for Pool {
///     type Connection = AsyncPgConnection;
///     type Lent = other::Object;
///
///     async fn lend(&self) -> Result<Self::Lent, Box<dyn std::error::Error + Send + Sync>> {
///         Ok(self.0.get().await?)
///     }
///
///     fn is_closed(&self) -> bool {
///         self.0.is_closed()
///     }
///
///     /// Takes the connection out of the pool, so that its session ends here.
///     fn discard(lent: Self::Lent) {
///         drop(lent.detach());
///     }
/// }
///
/// # fn example(pool: other::Pool) -> Result<(), shedlock_core::Error> {
/// let provider = PostgresProvider::builder(Pool(pool)).build()?;
/// # drop(provider);
/// # Ok(()) }
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no source of diesel-async connections",
    label = "a pool of diesel-async needs the feature of shedlock-diesel-async with its name: `deadpool`, `bb8` or `mobc`",
    note = "for another pool, implement `ConnectionSource` for a type of your own that holds the pool, in about 15 lines"
)]
pub trait ConnectionSource: Send + Sync + 'static {
    /// `AsyncPgConnection` or `AsyncMysqlConnection`.
    type Connection: AsyncConnection + 'static;

    /// A connection for one statement. It goes back when it is dropped.
    type Lent: DerefMut<Target = Self::Connection> + Send + 'static;

    /// Lends a connection. Statements run outside of any transaction of yours.
    fn lend(&self) -> impl Future<Output = Result<Self::Lent, BoxError>> + Send;

    /// Whether no connection will ever be lent again, because the pool is closed. A call that fails then is not retried.
    /// By default, false.
    fn is_closed(&self) -> bool {
        false
    }

    /// How many connections the source has. By default, `None`: it does not tell. Once the server has refused a login, each call
    /// then waits as one that logs in, although one may be idle.
    fn fill(&self) -> Option<Fill> {
        None
    }

    /// Ends a session that may be broken, or whose last reply was not read. It must not be lent again.
    ///
    /// By default, the connection goes back with a transaction manager in error, which diesel-async reports as broken.
    fn discard(mut lent: Self::Lent) {
        let connection: &mut Self::Connection = &mut lent;
        Manager::<Self>::transaction_manager_status_mut(connection).set_in_error();
    }
}

type Manager<S> = <<S as ConnectionSource>::Connection as AsyncConnection>::TransactionManager;

/// A [`ConnectionSource`] of any type.
pub struct Connections<C>(Arc<dyn Lends<C>>);

impl<C> Connections<C> {
    pub(crate) fn lend(&self) -> BoxFuture<'_, Result<Box<dyn Lent<C>>, BoxError>> {
        self.0.lend()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn fill(&self) -> Option<Fill> {
        self.0.fill()
    }
}

trait Lends<C>: Send + Sync {
    fn lend(&self) -> BoxFuture<'_, Result<Box<dyn Lent<C>>, BoxError>>;

    fn is_closed(&self) -> bool;

    fn fill(&self) -> Option<Fill>;
}

pub(crate) trait Lent<C>: Send {
    fn connection(&mut self) -> &mut C;

    fn discard(self: Box<Self>);
}

struct Of<S: ConnectionSource>(S::Lent);

impl<S: ConnectionSource> Lent<S::Connection> for Of<S> {
    fn connection(&mut self) -> &mut S::Connection {
        &mut self.0
    }

    fn discard(self: Box<Self>) {
        S::discard(self.0);
    }
}

impl<S: ConnectionSource> Lends<S::Connection> for S {
    fn lend(&self) -> BoxFuture<'_, Result<Box<dyn Lent<S::Connection>>, BoxError>> {
        Box::pin(async move {
            let lent = ConnectionSource::lend(self).await?;
            Ok(Box::new(Of::<S>(lent)) as Box<dyn Lent<S::Connection>>)
        })
    }

    fn is_closed(&self) -> bool {
        ConnectionSource::is_closed(self)
    }

    fn fill(&self) -> Option<Fill> {
        ConnectionSource::fill(self)
    }
}

impl<S: ConnectionSource> From<S> for Connections<S::Connection> {
    fn from(source: S) -> Self {
        Self(Arc::new(source))
    }
}

impl<C> Clone for Connections<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for Connections<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a source of diesel-async connections")
    }
}
