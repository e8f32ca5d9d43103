#![doc = include_str!("../README.md")]

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(any(feature = "bb8", feature = "deadpool"))]
mod pools;
mod provider;
mod session;
mod source;
mod tls;

pub use provider::TokioPostgresProvider;
pub use session::TokioPostgres;
pub use shedlock_sql::driver::Fill;
pub use shedlock_sql::{Builder, Duties, SqlStore, TimeMode};
pub use source::{ClientSource, Clients};
/// The client, in the version that `builder` accepts.
pub use tokio_postgres;
