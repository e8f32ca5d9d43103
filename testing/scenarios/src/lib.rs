//! A small service that runs on several replicas: it reminds the users whose subscriptions expire,
//! sends the mails of an outbox, and writes a report. The stories of `docs/scenarios.md` are told
//! with its processes.
//!
//! Its parts are what any such service has: arguments, a log, a database, a mail account, jobs. Only
//! its clock is made for the stories, which need clocks that are wrong.

mod args;
mod clock;
mod database;
mod log;
mod outbox;
mod post;
mod report;
mod service;
mod subscriptions;

pub use args::Args;
pub use database::Database;
pub use service::run;
