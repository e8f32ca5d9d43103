//! A small service that runs on several replicas: it reminds users whose subscriptions expire,
//! sends the mails of an outbox, and writes a report. The scenarios of `docs/scenarios.md` run with
//! its processes.
//!
//! It has the parts of any such service: arguments, a log, a database, a mail account, jobs. Only
//! its clock is made for the scenarios, some of which need wrong clocks.

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
