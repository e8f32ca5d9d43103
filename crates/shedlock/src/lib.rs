//! placeholder

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod connect;

pub use connect::connect;
pub use shedlock_core::*;
#[cfg(feature = "macros")]
pub use shedlock_macros::scheduler_lock;
#[cfg(feature = "mysql")]
pub use shedlock_sql::MySqlProvider;
#[cfg(feature = "postgres")]
pub use shedlock_sql::PostgresProvider;
#[cfg(feature = "sqlite")]
pub use shedlock_sql::SqliteProvider;
