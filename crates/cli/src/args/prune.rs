//! The command line of `prune`.

use std::time::Duration;

use clap::Args;

use super::{OutputArgs, StoreArgs, exit_codes, values};

/// Remove the records of locks that have been idle for a long time
///
/// A store keeps the record of every lock that was ever taken. Records of names that are computed, like
/// expire-TENANT, pile up when their tenants are gone. Without --yes, this command only shows what it
/// would remove.
///
/// A record is removed only if its lock is free, and if its last use, the end of its last lease and its
/// last scheduled time (slot) are all at least as old as --idle-for by the store's clock. A slot that
/// must not be lost and is not done keeps its record. So does a lock that is taken while this command
/// runs, and a slot that a host may still ask for, which would run again: for two periods of its job's
/// schedule if the journal has it, and for 400 days if not.
///
/// Each ShedLock for Java that runs on a SQL database remembers the names that it has asked for, and
/// never creates their records again: it would never run those jobs again, with no error, whoever had
/// the lock last. So on these stores nothing is removed without --no-shedlock.
///
/// Without its record, a lock counts as one that was never taken, and no missed slot is made up for. The
/// next run creates a new record, and its fencing token is larger than all before.
///
/// Prints each record on stdout, and their number on stderr.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("a named lock has no record, or it must be kept")))]
pub(crate) struct PruneArgs {
    /// The names of locks, or patterns like 'expire-*' [default: all locks of the store]
    ///
    /// A `*` stands for any text, `?` for one character, `[ab]` for one of these. If a lock has
    /// exactly this name, only that lock is meant.
    #[arg(value_name = "NAME|PATTERN")]
    pub(crate) names: Vec<String>,
    /// How long a lock must have been idle, like 90d: at least 1d
    #[arg(long, value_name = "DURATION", value_parser = values::idle_time, allow_hyphen_values = true)]
    pub(crate) idle_for: Duration,
    /// No ShedLock for Java runs on this store: remove records that it would never create again
    #[arg(long)]
    pub(crate) no_shedlock: bool,
    /// Remove the records instead of only showing them
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
