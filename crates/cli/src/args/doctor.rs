//! The arguments of `doctor`.

use clap::Args;

use super::{OutputArgs, StoreArgs, exit_codes};

/// Check the store for everything that can make locks fail or surprise you
///
/// Checks whether the store is reachable and set up for locks, how fast it replies, how far its
/// clock is from this host's, what this user may do, whether there is a journal that it may write, whether a crash or a failover can lose
/// locks, and whether a record keeps a job from running: names that differ only in case, locks that
/// never end, slots in the future, slots that were open for over an hour, pauses. Changes nothing, and creates
/// nothing. It reads the records of all locks.
///
/// Prints one line per check on stdout (`ok`, `warning` or `error`), with what to do below it. A store that
/// cannot be reached is an error like the others (exit code 1, where other commands end with 69).
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_doctor())]
pub(crate) struct DoctorArgs {
    /// End with exit code 1 for warnings too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Check as a user who may only read: do not check whether it may take locks and write the journal
    ///
    /// For a monitoring user. What the others may do is not visible to it.
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
