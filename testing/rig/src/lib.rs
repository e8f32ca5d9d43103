//! What tests and tools of this workspace share: processes and their output, waiting, ports, and throw-away servers of
//! the real databases.
//!
//! Not published: the conformance kit, which is, must not depend on it.
#![allow(
    clippy::print_stderr,
    reason = "tools for the terminal: what they print is their product"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "waits for real processes and servers, whose clocks no test can move"
)]

#[cfg(feature = "certificates")]
mod certificates;
mod cron;
pub mod debian;
pub mod engine;
pub mod given;
pub mod host;
pub mod interrupt;
mod own_server;
pub mod port;
mod postgres_server;
pub mod process;
mod running;
mod servers;
pub mod wait;

#[cfg(feature = "certificates")]
pub use certificates::Certificates;
pub use cron::Cron;
pub use own_server::OwnServer;
pub use postgres_server::PostgresServer;
pub use process::Signal;
pub use running::{Lines, Restartable, Running, all_gone, wait_all_gone};
