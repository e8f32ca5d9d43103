//! The command line of `metrics`.

use std::path::PathBuf;

use clap::Args;

use super::{StoreArgs, exit_codes};

/// Print metrics of the jobs for Prometheus: deadlines, last successes and failures, pauses
///
/// Reads the journal of the store (`shedlock migrate`) and its locks, and prints
/// Prometheus's text format, for the textfile collector of node_exporter. One host is enough, because
/// each reads the same store.
///
/// The label `job_name` is the template of the locks' names. Without a journal, only locks are
/// reported. The alert rules in docs/alerts use these metrics.
///
/// If the store cannot be read, this command prints `shedlock_store_up 0`, and the reason on stderr,
/// and ends with 0, so that the old file is replaced. Old values would hide that the store is down.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_metrics())]
pub(crate) struct MetricsArgs {
    /// Write this file instead of stdout, in one step, so that no reader finds half of it
    ///
    /// A new file is written beside it and renamed.
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
