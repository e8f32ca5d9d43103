//! What a replica is told when it starts.

use std::time::Duration;

use clap::{Parser, Subcommand};
use jiff::Timestamp;
use shedlock::parse_duration;

/// One replica of the service.
#[derive(Debug, Parser)]
pub struct Args {
    /// How this replica calls itself, in its log and to the mail server.
    #[arg(long)]
    pub name: String,
    /// Where the locks and the tables are.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database: String,
    /// How long runs may go on when the replica is told to stop.
    #[arg(long, default_value = "25s", value_parser = parse_duration)]
    pub grace: Duration,
    /// The calendar of this replica is behind by this much.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub clock_behind: Duration,
    /// From then on, by its calendar, this replica is busy, and its timers are late.
    #[arg(long, requires = "busy_for")]
    pub busy_from: Option<Timestamp>,
    /// For how long it is busy.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub busy_for: Duration,
    /// What it does.
    #[command(subcommand)]
    pub job: Job,
}

/// The job that this replica shares with the others.
#[derive(Debug, Subcommand)]
pub enum Job {
    /// Reminds the users whose subscriptions expire.
    Subscriptions {
        /// When, as a cron expression.
        #[arg(long, default_value = "0 0 * * * *")]
        cron: String,
        /// How long the lock outlives a replica that dies.
        #[arg(long, default_value = "10m", value_parser = parse_duration)]
        lock_at_most_for: Duration,
        /// The mail server, as host:port.
        #[arg(long)]
        smtp: String,
    },
    /// Sends the mails of the outbox.
    Outbox {
        /// How often.
        #[arg(long, default_value = "10s", value_parser = parse_duration)]
        every: Duration,
        /// How long the lock outlives a replica that dies.
        #[arg(long, default_value = "1m", value_parser = parse_duration)]
        lock_at_most_for: Duration,
        /// The mail server, as host:port.
        #[arg(long)]
        smtp: String,
        /// How many mails are sent at once.
        #[arg(long, default_value_t = 10)]
        chunk: i64,
        /// Start sending, and do not wait for it.
        #[arg(long)]
        in_background: bool,
    },
    /// Writes a report, which takes a while.
    Report {
        /// When, as a cron expression.
        #[arg(long, default_value = "0 */10 * * * *")]
        cron: String,
        /// How long the report takes.
        #[arg(long, value_parser = parse_duration)]
        takes: Duration,
        /// The lock's longest life.
        #[arg(long, default_value = "10m", value_parser = parse_duration)]
        lock_at_most_for: Duration,
        /// The lock's shortest life.
        #[arg(long, default_value = "0s", value_parser = parse_duration)]
        lock_at_least_for: Duration,
        /// Also when the replica starts, if nobody has done the last one.
        #[arg(long)]
        run_at_start: bool,
        /// Fired by a timer of the program's own instead of the scheduler.
        #[arg(long, value_enum)]
        own_timer: Option<OwnTimer>,
    },
}

/// What a timer of the program's own tells the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OwnTimer {
    /// Nothing: there is only the lock between the replicas.
    WithoutSlot,
    /// The slot that the run belongs to.
    WithSlot,
}
