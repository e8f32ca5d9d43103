//! The command line.

mod run;
mod stores;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use run::RunArgs;

/// Runs a command once, however many hosts start it: under a lock that they share.
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

/// How much is said on stderr.
#[derive(Debug, Args)]
pub(crate) struct Voice {
    /// Say more on stderr: -v what happens, -vv details, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 100)]
    pub(crate) verbose: u8,
    /// Say nothing on stderr but errors; a skip is silent then
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 100
    )]
    pub(crate) quiet: bool,
}

/// Which store holds the locks.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    #[arg(long, value_name = "URL", help = stores::help(), long_help = stores::long_help())]
    pub(crate) store: Option<String>,
    /// Use the SQLite file of this user on this host, and know that other hosts do not see it
    ///
    /// Needed inside Kubernetes, where the file would not even outlive the pod. Wins over
    /// SHEDLOCK_STORE.
    #[arg(long, conflicts_with = "store")]
    pub(crate) local: bool,
}

/// Show all locks of the store
///
/// One line a lock, in the order of their names. A lock is held while its command runs, at-least
/// while --lock-at-least-for keeps it after that, and free otherwise; a free lock shows who held it
/// last. Times are in UTC, by the store's clock.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only locks that nobody else could take now
    #[arg(long)]
    pub(crate) held: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Show all that the store knows of one lock
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
/// For a holder that is dead, or hangs. One that lives is not stopped by this: it learns of it when it
/// extends its lease (--keep-alive) or gives the lock back, and until then it runs beside whoever takes
/// the lock next. `shedlock show NAME` tells who holds it, on which host and since when.
///
/// Frees the holding that there is when this starts, and none that begins after it. What was freed, and
/// who did it, is said on stdout; the exit code is 1 if there was nothing to free.
#[derive(Debug, Args)]
pub(crate) struct UnlockArgs {
    /// The name of the lock
    pub(crate) name: String,
    /// Free it although this process does not hold it
    #[arg(long, required = true)]
    pub(crate) force: bool,
    /// Only if this owner holds it, as `shedlock show` names it
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Mend the slots of a lock
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
/// A slot that is not later than the last one taken is skipped. So one run on a host whose clock was
/// ahead can silence a job until that time comes: this sets the last slot back to the store's clock, and
/// the next slot runs. With --to, it is set to any time: to an earlier one to have slots run again, or
/// to a later one to leave some out. An open slot that was not to be lost is given up.
///
/// What it was before is said on stdout; the exit code is 1 if there was nothing to set. A lease that
/// runs goes on.
#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    /// The name of the lock
    pub(crate) name: String,
    /// The last slot as it shall be, like 2026-11-21T03:00:00Z: later ones can be taken
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<jiff::Timestamp>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Prepare a store: make its table, or add what is missing to one that ShedLock made
///
/// Says what it changed. Doing it again changes nothing. What it adds can be empty, so ShedLock in
/// Java goes on working with the table.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// The form of what is printed on stdout
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs; its form is stable
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
    fn everything_behind_the_dashes_is_the_command() {
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
