//! diesel-async's pools, which are sources of connections as they are.

#[cfg(feature = "bb8")]
use diesel_async::pooled_connection::bb8;
#[cfg(feature = "deadpool")]
use diesel_async::pooled_connection::deadpool;
#[cfg(feature = "mobc")]
use diesel_async::pooled_connection::mobc;
use shedlock_sql::driver::BoxError;
#[cfg(feature = "deadpool")]
use shedlock_sql::driver::Fill;

use crate::ConnectionSource;

macro_rules! pool {
    ($connection:ty, $pool:ty, $lent:ty, $lend:ident, $($more:tt)*) => {
        impl ConnectionSource for $pool {
            type Connection = $connection;
            type Lent = $lent;

            async fn lend(&self) -> Result<Self::Lent, BoxError> {
                Ok(self.$lend().await?)
            }

            $($more)*
        }
    };
}

macro_rules! pools {
    ($connection:ty) => {
        #[cfg(feature = "bb8")]
        pool! { $connection, bb8::Pool<$connection>, bb8::PooledConnection<'static, $connection>, get_owned, }

        #[cfg(feature = "deadpool")]
        pool! { $connection, deadpool::Pool<$connection>, deadpool::Object<$connection>, get,
            fn is_closed(&self) -> bool {
                Self::is_closed(self)
            }

            fn fill(&self) -> Option<Fill> {
                let status = self.status();
                let [open, idle, most] = [status.size, status.available, status.max_size]
                    .map(|number| u32::try_from(number).unwrap_or(u32::MAX));
                Some(Fill { open, idle, most })
            }

            fn discard(lent: Self::Lent) {
                drop(Self::Lent::take(lent));
            }
        }

        #[cfg(feature = "mobc")]
        pool! { $connection, mobc::Pool<$connection>, mobc::PooledConnection<$connection>, get,
            fn discard(lent: Self::Lent) {
                drop(lent.into_inner());
            }
        }
    };
}

#[cfg(feature = "postgres")]
pools!(diesel_async::AsyncPgConnection);
#[cfg(feature = "mysql")]
pools!(diesel_async::AsyncMysqlConnection);
