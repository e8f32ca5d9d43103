//! The command line of a replica.

use std::time::Duration;

use clap::{Parser, Subcommand};
use jiff::Timestamp;
use shedlock::parse_duration;

use crate::clock::ReplicaClock;
use crate::outbox::Outbox;
use crate::report::Report;
use crate::subscriptions::Subscriptions;

/// One replica of the service.
#[derive(Debug, Parser)]
pub struct Args {
    /// The name of this replica in its log and for the mail server.
    #[arg(long)]
    pub(crate) name: String,
    /// The database with the locks and the tables.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database: String,
    /// How long runs may continue after the replica receives SIGTERM.
    #[arg(long, default_value = "25s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    /// How far the calendar of this replica is behind.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    clock_behind: Duration,
    /// The time, by this replica's calendar, from which it is busy and its timers fire late.
    #[arg(long, requires = "busy_for")]
    busy_from: Option<Timestamp>,
    /// How long it is busy.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    busy_for: Duration,
    /// What it does.
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// The task that this replica shares with the others.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Reminds the users whose subscriptions expire.
    Subscriptions(Subscriptions),
    /// Sends the mails of the outbox.
    Outbox(Outbox),
    /// Writes a report, which takes a while.
    Report(Report),
}

impl Args {
    /// Returns the clock of this replica.
    pub(crate) fn clock(&self) -> ReplicaClock {
        ReplicaClock {
            behind: self.clock_behind,
            busy: self.busy_from.map(|from| (from.into(), self.busy_for)),
        }
    }
}
