//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use shedlock::{LockConfig, LockDefaults, parse_duration};

/// Runs a command once, however many hosts start it: under a lock that they share.
#[derive(Debug, Parser)]
#[command(
    name = "shedlock",
    version,
    max_term_width = 100,
    after_help = "Locks live in a store: SQLite on this host, or PostgreSQL, MySQL or MariaDB by URL \
                  (--store, or SHEDLOCK_STORE).\n\n\
                  First steps:\n  \
                  shedlock run --name backup --lock-at-most-for 10m -- ./backup.sh\n  \
                  shedlock list"
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
    Migrate(MigrateArgs),
}

/// How much is said on stderr.
#[derive(Debug, Args)]
pub(crate) struct Voice {
    /// Say more on stderr: -v what happens, -vv details, -vvv everything
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    /// Say nothing on stderr but errors; a skip is silent then
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// Which store holds the locks.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where the locks are: postgres://..., mysql://..., mariadb://... or sqlite:FILE
    ///
    /// Without it, the variable SHEDLOCK_STORE; without that, an SQLite file of this user on this
    /// host ($XDG_STATE_HOME/shedlock/locks.db, or ~/.local/state/shedlock/locks.db), which other
    /// hosts do not see. A URL with a password belongs in the variable: everybody on the host can
    /// read a command line.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Use the SQLite file of this user on this host, and know that other hosts do not see it
    ///
    /// Needed inside Kubernetes, where the file would not even outlive the pod. Wins over
    /// SHEDLOCK_STORE.
    #[arg(long, conflicts_with = "store")]
    pub(crate) local: bool,
}

/// Run a command if its lock is free
///
/// Takes the lock, runs the command, gives the lock back. If somebody else holds the lock, the
/// command is not run, a line on stderr says who holds it and until when, and the exit code is 0:
/// the work is being done, or was done just now.
///
/// The command never outlives its lease. Shortly before it ends (10 s, or a third of
/// --lock-at-most-for if that is less) all processes of the command get SIGTERM, then SIGKILL. A
/// second process, the watchdog, sees to it even if this one is killed. When the command ends, what
/// it has left running in the background is stopped too, and only then the lock is given back.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0    the command succeeded, or was skipped (see --skip-exit-code)
  N    the command's own exit code; 128+N if signal N ended it
  2    the command line is wrong
  69   the store could not do its part; the command was not started
  70   the watchdog was killed, or shedlock failed; the command was stopped
  75   the lease was about to end; the command was stopped
  126  the command cannot be run
  127  the command was not found

The command sees:
  SHEDLOCK_NAME           the name of the lock
  SHEDLOCK_OWNER          who holds it: host/process/random, as `shedlock list` shows it
  SHEDLOCK_FENCING_TOKEN  a number that grows with every acquisition, for guarded writes
  SHEDLOCK_LOCKED_UNTIL   when the lease ends, like 2026-11-21T03:00:00Z, if the store tells
  SHEDLOCK_SLOT           the scheduled time it runs for, if there is one")]
pub(crate) struct RunArgs {
    /// The name of the lock: whatever has the same name in the same store never runs at once
    #[arg(short, long)]
    pub(crate) name: String,
    /// How long the command may take: it is stopped before this is over, like 10m or 1h 30m
    ///
    /// If this host dies, the lock stays taken until this is over, and is free then.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, env = "SHEDLOCK_LOCK_AT_MOST_FOR", hide_env_values = true)]
    pub(crate) lock_at_most_for: Option<Duration>,
    /// How long the lock stays taken at least, however quickly the command ends
    ///
    /// Longer than the clocks of the hosts differ, and shorter than the time between two runs.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, env = "SHEDLOCK_LOCK_AT_LEAST_FOR", hide_env_values = true)]
    pub(crate) lock_at_least_for: Option<Duration>,
    /// The exit code when the command is skipped, for callers that must tell [default: 0]
    #[arg(
        long,
        value_name = "CODE",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) skip_exit_code: u8,
    /// What the owner starts with in the store: a team or a service, to be found more easily
    #[arg(long, value_name = "PREFIX")]
    pub(crate) owner_prefix: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// The lock that is asked for; what is not set is left to the store's defaults.
    pub(crate) fn lock(&self) -> LockConfig {
        let mut config = LockConfig::new(&self.name);
        if let Some(duration) = self.lock_at_most_for {
            config = config.lock_at_most_for(duration);
        }
        if let Some(duration) = self.lock_at_least_for {
            config = config.lock_at_least_for(duration);
        }
        config
    }

    /// What holds for every lock of this process.
    pub(crate) fn defaults(&self) -> LockDefaults {
        match &self.owner_prefix {
            Some(prefix) => LockDefaults::new().owner_prefix(prefix),
            None => LockDefaults::new(),
        }
    }
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
        assert!(parse("shedlock list --local --store memory:").is_err());
        assert!(parse("shedlock -q -v list").is_err());
    }
}
