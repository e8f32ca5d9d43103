//! Where clients come from.

use std::fmt;
use std::sync::Arc;

use shedlock_core::BoxFuture;
use shedlock_sql::driver::{BoxError, Fill};
use tokio_postgres::Client;

/// A source of tokio-postgres clients: your application's pool, or a client that it shares.
///
/// A client may be inside a transaction. The call then does nothing, [discards](Self::discard) the client and asks for
/// another one, three times at most. While a client that you share is in a transaction of yours, calls fail as
/// `Configuration`; they do not end that transaction unless `discard` does.
///
/// The features `deadpool` and `bb8` implement it for the pools of these crates. For another pool:
///
/// ```
/// use shedlock_tokio_postgres::{ClientSource, TokioPostgresProvider};
/// use tokio_postgres::Client;
/// # mod other {
/// #     #[derive(Clone, Debug)]
/// #     pub(crate) struct Pool;
/// #     pub(crate) struct Object(tokio_postgres::Client);
/// #     impl Pool {
/// #         pub(crate) async fn get(&self) -> Result<Object, std::io::Error> { unimplemented!() }
/// #         pub(crate) fn is_closed(&self) -> bool { false }
/// #     }
/// #     impl Object { pub(crate) fn detach(self) -> tokio_postgres::Client { self.0 } }
/// #     impl std::ops::Deref for Object {
/// #         type Target = tokio_postgres::Client;
/// #         fn deref(&self) -> &tokio_postgres::Client { &self.0 }
/// #     }
/// # }
///
/// #[derive(Debug)]
/// struct Pool(other::Pool);
///
/// impl ClientSource for Pool {
///     type Lent = other::Object;
///
///     async fn lend(&self) -> Result<Self::Lent, Box<dyn std::error::Error + Send + Sync>> {
///         Ok(self.0.get().await?)
///     }
///
///     fn client(lent: &Self::Lent) -> &Client {
///         lent
///     }
///
///     fn is_closed(&self) -> bool {
///         self.0.is_closed()
///     }
///
///     /// Takes the client out of the pool, so that its session ends here.
///     fn discard(lent: Self::Lent) {
///         drop(lent.detach());
///     }
/// }
///
/// # fn example(pool: other::Pool) -> Result<(), shedlock_core::Error> {
/// let provider = TokioPostgresProvider::builder(Pool(pool)).build()?;
/// # drop(provider);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no source of tokio-postgres clients",
    label = "a pool of deadpool-postgres needs the feature `deadpool` of shedlock-tokio-postgres, one of bb8-postgres the feature `bb8`",
    note = "for another pool, implement `ClientSource` for a type of your own that holds the pool, in about 15 lines"
)]
pub trait ClientSource: fmt::Debug + Send + Sync + 'static {
    /// A client for one statement. It goes back when it is dropped.
    type Lent: Send + Sync + 'static;

    /// Lends a client. Statements run outside of any transaction of yours.
    fn lend(&self) -> impl Future<Output = Result<Self::Lent, BoxError>> + Send;

    /// Whether no client will ever be lent again, because the pool is closed. A call that fails then is not retried. By
    /// default, false.
    fn is_closed(&self) -> bool {
        false
    }

    /// How many clients the source has. By default, `None`: it does not tell. Once the server has refused a login, each call
    /// then waits as one that logs in, although one may be idle.
    fn fill(&self) -> Option<Fill> {
        None
    }

    /// Returns the client itself.
    fn client(lent: &Self::Lent) -> &Client;

    /// Ends a session that may be broken, or whose last reply was not read. It must not be lent again.
    fn discard(lent: Self::Lent);
}

/// A [`ClientSource`] of any type.
#[derive(Clone)]
pub struct Clients(Arc<dyn Lends>);

impl Clients {
    pub(crate) fn lend(&self) -> BoxFuture<'_, Result<Box<dyn Lent>, BoxError>> {
        self.0.lend()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn fill(&self) -> Option<Fill> {
        self.0.fill()
    }
}

trait Lends: fmt::Debug + Send + Sync {
    fn lend(&self) -> BoxFuture<'_, Result<Box<dyn Lent>, BoxError>>;

    fn is_closed(&self) -> bool;

    fn fill(&self) -> Option<Fill>;
}

pub(crate) trait Lent: Send + Sync {
    fn client(&self) -> &Client;

    fn discard(self: Box<Self>);
}

struct Of<S: ClientSource>(S::Lent);

impl<S: ClientSource> Lent for Of<S> {
    fn client(&self) -> &Client {
        S::client(&self.0)
    }

    fn discard(self: Box<Self>) {
        S::discard(self.0);
    }
}

impl<S: ClientSource> Lends for S {
    fn lend(&self) -> BoxFuture<'_, Result<Box<dyn Lent>, BoxError>> {
        Box::pin(async move {
            let lent = ClientSource::lend(self).await?;
            Ok(Box::new(Of::<S>(lent)) as Box<dyn Lent>)
        })
    }

    fn is_closed(&self) -> bool {
        ClientSource::is_closed(self)
    }

    fn fill(&self) -> Option<Fill> {
        ClientSource::fill(self)
    }
}

impl<S: ClientSource> From<S> for Clients {
    fn from(source: S) -> Self {
        Self(Arc::new(source))
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
