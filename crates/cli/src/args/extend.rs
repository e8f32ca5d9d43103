//! The command line of `extend`.

use std::time::Duration;

use clap::Args;

use super::{OutputArgs, StoreArgs, exit_codes, values};

/// Extend the lease of the current holder of a lock
///
/// The lease then ends at least this long from now. It is never shortened, and --lock-at-most-for of
/// the next run stays as it is. Prints the new and the previous end on stdout; the exit code is 1 if
/// no one holds the lock, or another owner does.
///
/// A `shedlock run` without --keep-alive that holds the lock on any host follows: shortly
/// before it would stop its command, it reads the end of its lease, and lets the command go on if the
/// end has moved. It stops a command 10 s before the lease ends (a third of --lock-at-most-for, if that
/// is less). So extend the lease well before that. --max-run-time, if set, still stops the command. A run
/// with --keep-alive extends its lease itself. A task of the Rust library keeps the deadline that it
/// knows, and stops then; only the lock stays taken for longer. A lease of ShedLock for Java cannot be
/// extended from outside.
///
/// Inside `shedlock run`, the lock and its owner are those of the run: `shedlock extend --for 30m`. It
/// needs `run --pass-store`, unless the store is the user's file or --store names it again.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("nothing was extended: no one holds the lock, or its owner is not that of --owner")))]
pub(crate) struct ExtendArgs {
    /// The name of the lock [default: SHEDLOCK_NAME, the lock of the `shedlock run` around this
    /// command]
    pub(crate) name: Option<String>,
    /// How long the lock stays taken from now, at least, like 30m
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration_above_zero, allow_hyphen_values = true)]
    pub(crate) lasts: Duration,
    /// Extend the lease only if this owner holds the lock, as shown by `shedlock show` [default:
    /// SHEDLOCK_OWNER, if the lock is that of SHEDLOCK_NAME]
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
