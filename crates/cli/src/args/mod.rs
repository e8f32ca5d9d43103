//! The command line.

mod run;
mod stores;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use run::RunArgs;

/// Run a command once, however many hosts start it, under a shared lock.
#[derive(Debug, Parser)]
#[command(
    name = "shedlock",
    version,
    max_term_width = 100,
    after_help = stores::after_help()
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    List(ListArgs),
    Show(ShowArgs),
    Unlock(UnlockArgs),
    Slot(SlotArgs),
    Migrate(MigrateArgs),
}

/// The verbosity on stderr.
#[derive(Debug, Args)]
pub(crate) struct Voice {
    /// Log more on stderr: -v events, -vv details, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 100)]
    pub(crate) verbose: u8,
    /// Print only errors on stderr: a skip prints nothing
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 100
    )]
    pub(crate) quiet: bool,
}

/// The store of the locks.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    #[arg(long, value_name = "URL", help = stores::help(), long_help = stores::long_help())]
    pub(crate) store: Option<String>,
    /// Use this user's SQLite file on this host, which other hosts do not share
    ///
    /// Inside Kubernetes this file is used only with this option, because it is lost with the pod.
    /// Overrides SHEDLOCK_STORE.
    #[arg(long, conflicts_with = "store")]
    pub(crate) local: bool,
}

/// Show all locks of the store
///
/// Prints one line per lock, sorted by name. A lock is held while its command runs, at-least while
/// --lock-at-least-for keeps it after that, and free otherwise; a free lock shows its last owner.
/// Times are in UTC, by the store's clock.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Show only locks that cannot be taken now
    #[arg(long)]
    pub(crate) held: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Show everything stored about one lock
///
/// The exit code is 1 if there is no lock of this name.
#[derive(Debug, Args)]
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
/// Use it if the holder is dead or hangs. A running holder is not stopped: it detects the loss when
/// it extends its lease (--keep-alive) or releases the lock, and until then it may run at the same
/// time as the next holder. `shedlock show NAME` shows the owner, its host and the time of
/// acquisition.
///
/// Frees only the lease found at the start, never a later one. Prints what was freed, and by whom,
/// on stdout; the exit code is 1 if there was nothing to free.
#[derive(Debug, Args)]
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

/// Repair the slots of a lock
#[derive(Debug, Args)]
pub(crate) struct SlotArgs {
    #[command(subcommand)]
    pub(crate) command: SlotCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SlotCommand {
    Reset(ResetArgs),
}

/// Set the last slot that was taken
///
/// A slot is skipped unless it is later than the last one taken. So one run on a host whose clock
/// is ahead can block a job until that time. This command sets the last slot to the store's current
/// time, and the next slot runs. With --to, it sets any time: an earlier one to run slots again, or
/// a later one to leave some out. An open slot that must not be lost is given up.
///
/// Prints the previous value on stdout; the exit code is 1 if there was nothing to set. A running
/// lease continues.
#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    /// The name of the lock
    pub(crate) name: String,
    /// The new last slot, like 2026-11-21T03:00:00Z: later slots can be taken
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<jiff::Timestamp>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Prepare a store: create its table or bucket, or add missing columns to a table of ShedLock's
///
/// Prints the changes. Running it again changes nothing. The columns that it adds may stay empty,
/// so ShedLock in Java keeps working with the table.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// The output format on stdout
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs: a stable format
    Json,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_description_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_after_the_dashes_is_the_command() {
        let cli =
            parse("shedlock run --name a --lock-at-most-for 10m -- cmd --name b -- -q").unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run")
        };
        assert_eq!(run.command, ["cmd", "--name", "b", "--", "-q"]);
        assert_eq!(run.lock_at_most_for, Some(Duration::from_secs(600)));
        assert!(!cli.voice.quiet);
    }

    #[test]
    fn mistakes_are_refused_with_the_right_form() {
        let error = parse("shedlock run --name a --lock-at-most-for 10 -- x").unwrap_err();
        assert!(error.to_string().contains("\"1h 30m\""), "{error}");
        assert_eq!(error.exit_code(), 2);
        let error = parse("shedlock run --name a --lock-at-most-for 10m backup.sh").unwrap_err();
        assert!(error.to_string().contains("-- <COMMAND>..."), "{error}");
        assert!(parse("shedlock run --lock-at-most-for 10m -- x").is_err());
        for wrong in [
            "--zone UTC",
            "--slot-tolerance 1s",
            "--every 10m --zone UTC",
            "--every 10m --schedule @daily",
            "--max-run-time 0s",
            "--lock-wait -1s",
            "--must-not-be-lost",
            "--every 10m --max-attempts 3",
            "--every 10m --must-not-be-lost --max-attempts 0",
        ] {
            let line = format!("shedlock run --name a --lock-at-most-for 10m {wrong} -- x");
            assert_eq!(parse(&line).unwrap_err().exit_code(), 2, "{wrong}");
        }
        assert!(parse("shedlock list --local --store memory:").is_err());
        assert!(parse("shedlock -q -v list").is_err());
        assert!(parse("shedlock slot reset a --to yesterday").is_err());
        assert!(parse("shedlock slot reset a --to 2026-11-21T03:00:00+09:00").is_ok());
        assert!(parse("shedlock unlock a").is_err());
        assert!(parse("shedlock unlock a --force").is_ok());
    }
}
