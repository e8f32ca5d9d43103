//! diesel-async's pools, which are sources of connections as they are.

#[cfg(feature = "bb8")]
macro_rules! bb8 {
    ($connection:ty) => {
        impl $crate::ConnectionSource for diesel_async::pooled_connection::bb8::Pool<$connection> {
            type Connection = $connection;
            type Lent =
                diesel_async::pooled_connection::bb8::PooledConnection<'static, $connection>;

            async fn lend(&self) -> Result<Self::Lent, shedlock_sql::driver::BoxError> {
                Ok(self.get_owned().await?)
            }
        }
    };
}

#[cfg(feature = "deadpool")]
macro_rules! deadpool {
    ($connection:ty) => {
        impl $crate::ConnectionSource
            for diesel_async::pooled_connection::deadpool::Pool<$connection>
        {
            type Connection = $connection;
            type Lent = diesel_async::pooled_connection::deadpool::Object<$connection>;

            async fn lend(&self) -> Result<Self::Lent, shedlock_sql::driver::BoxError> {
                Ok(self.get().await?)
            }

            fn is_closed(&self) -> bool {
                Self::is_closed(self)
            }

            fn discard(lent: Self::Lent) {
                drop(Self::Lent::take(lent));
            }
        }
    };
}

#[cfg(feature = "mobc")]
macro_rules! mobc {
    ($connection:ty) => {
        impl $crate::ConnectionSource for diesel_async::pooled_connection::mobc::Pool<$connection> {
            type Connection = $connection;
            type Lent = diesel_async::pooled_connection::mobc::PooledConnection<$connection>;

            async fn lend(&self) -> Result<Self::Lent, shedlock_sql::driver::BoxError> {
                Ok(self.get().await?)
            }

            fn discard(lent: Self::Lent) {
                drop(lent.into_inner());
            }
        }
    };
}

macro_rules! pools {
    ($($pool:ident $feature:literal),*) => { $(
        #[cfg(all(feature = $feature, feature = "postgres"))]
        $pool!(diesel_async::AsyncPgConnection);
        #[cfg(all(feature = $feature, feature = "mysql"))]
        $pool!(diesel_async::AsyncMysqlConnection);
    )* };
}

pools!(bb8 "bb8", deadpool "deadpool", mobc "mobc");
