//! The command lines of `show`, `unlock` and `slot`, which are about one lock.

use clap::{Args, Subcommand};

use super::{OutputArgs, StoreArgs, exit_codes, values};

/// Show everything stored about one lock
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("there is no lock of this name")))]
pub(crate) struct ShowArgs {
    /// The name of the lock
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Free a lock by force, whoever holds it
///
/// Use it if the holder is dead or hangs. A running holder is not stopped. With --keep-alive it
/// detects the loss at its next extension and stops its command. Without --keep-alive, it detects
/// the loss only when it releases the lock, and only if another owner has taken the lock by then
/// (exit code 75). Until its command ends, it may run at the same time as the next holder.
/// `shedlock show NAME` shows the owner, its host and the time of acquisition.
///
/// A paused lock is not freed: `shedlock resume` does that. Frees only the lease found at the start,
/// never a later one. Prints what was freed, and by whom,
/// on stdout; the exit code is 1 if there was nothing to free.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("nothing was freed: no such lock, not held, paused, or its owner is not that of --owner")))]
pub(crate) struct UnlockArgs {
    /// The name of the lock
    pub(crate) name: String,
    /// Confirm: free the lock although this process does not hold it
    #[arg(long, required = true)]
    pub(crate) force: bool,
    /// Free the lock only if this owner holds it, as shown by `shedlock show`
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Correct the record of the last scheduled time (slot) taken under a lock
///
/// A slot is a scheduled time of `shedlock run --schedule` or `--every`.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("nothing was set")))]
pub(crate) struct SlotArgs {
    #[command(subcommand)]
    pub(crate) command: SlotCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SlotCommand {
    Reset(ResetArgs),
}

/// Change the last slot taken
///
/// A slot is a scheduled time of `shedlock run --schedule` or `--every`. It is skipped unless it is
/// later than the last one taken. So one run on a host whose clock is ahead can block a job until
/// the slot that it took has passed.
///
/// Without --to: if the last slot is ahead of the store's clock, it is set to the store's current
/// time, and the next slot runs; a last slot in the past is left as it is. With --to, it is set to
/// any time (more than a day ahead only with --force), if a slot was ever taken under this lock: an
/// earlier one so that slots can be taken again (`shedlock run` takes only the newest one, the
/// library's scheduler all of them under must_not_be_lost), or a later one to leave some out. A slot
/// under --must-not-be-lost that is not yet done is given up.
///
/// Prints the new and the previous value on stdout (json: `last_slot` is the new value, `lock` the
/// state before). The exit code is 1 if nothing was set. A running lease continues.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("nothing was set: no slot was taken, or without --to none is ahead of the clock")))]
pub(crate) struct ResetArgs {
    /// The name of the lock
    pub(crate) name: String,
    /// The new last slot, like 2026-11-21T03:00:00Z: later slots can be taken
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) to: Option<jiff::Timestamp>,
    /// Confirm a time of --to that is more than a day ahead of the store's clock: no slot before it
    /// will run
    #[arg(long, requires = "to")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
