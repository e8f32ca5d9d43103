//! Pools that are sources of clients as they are.

#[cfg(feature = "bb8")]
mod bb8 {
    use std::fmt::Debug;

    use bb8_postgres::PostgresConnectionManager;
    use bb8_postgres::bb8::{Pool, PooledConnection};
    use shedlock_sql::driver::BoxError;
    use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
    use tokio_postgres::{Client, Socket};

    use crate::ClientSource;

    impl<Tls> ClientSource for Pool<PostgresConnectionManager<Tls>>
    where
        Tls: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        Tls::Stream: Send + Sync,
        Tls::TlsConnect: Send,
        <Tls::TlsConnect as TlsConnect<Socket>>::Future: Send,
        PostgresConnectionManager<Tls>: Debug,
    {
        type Lent = PooledConnection<'static, PostgresConnectionManager<Tls>>;

        async fn lend(&self) -> Result<Self::Lent, BoxError> {
            Ok(self.get_owned().await?)
        }

        fn client(lent: &Self::Lent) -> &Client {
            lent
        }

        /// The pool drops a client that is closed. There is no other way out of it. The crate `postgres` closes its
        /// clients by the same method.
        fn discard(mut lent: Self::Lent) {
            lent.__private_api_close();
        }
    }
}

#[cfg(feature = "deadpool")]
mod deadpool {
    use deadpool_postgres::{Object, Pool};
    use shedlock_sql::driver::{BoxError, Fill};
    use tokio_postgres::Client;

    use crate::ClientSource;

    impl ClientSource for Pool {
        type Lent = Object;

        async fn lend(&self) -> Result<Self::Lent, BoxError> {
            Ok(self.get().await?)
        }

        fn client(lent: &Self::Lent) -> &Client {
            lent
        }

        fn is_closed(&self) -> bool {
            Pool::is_closed(self)
        }

        fn fill(&self) -> Option<Fill> {
            let status = self.status();
            let [open, idle, most] = [status.size, status.available, status.max_size]
                .map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            Some(Fill { open, idle, most })
        }

        fn discard(lent: Self::Lent) {
            drop(Object::take(lent));
        }
    }
}
