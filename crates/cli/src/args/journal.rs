//! The command lines of `jobs` and `history`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use glob::Pattern;
use jiff::Timestamp;
use shedlock::ErrorText;

use super::{OutputArgs, StoreArgs, exit_codes, values};
use crate::settings::StoreSetting;

/// How much of a run's error is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum JournalErrors {
    /// The whole reason, without the passwords of URLs
    #[default]
    Full,
    /// The reason up to its first colon
    Kind,
    /// Only that the run failed
    None,
}

impl From<JournalErrors> for ErrorText {
    fn from(errors: JournalErrors) -> Self {
        match errors {
            JournalErrors::Full => Self::Full,
            JournalErrors::Kind => Self::Kind,
            JournalErrors::None => Self::None,
        }
    }
}

/// The store of the journal, if it is not that of the locks.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct JournalStoreArgs {
    /// URL of the store that keeps the journal, if it is not the one that keeps the locks
    ///
    /// For locks in a store that cannot keep a journal, such as etcd or NATS, or for a journal in a
    /// database of its own. PostgreSQL, MySQL, MariaDB, SQLite, Redis, Valkey and MongoDB can keep
    /// one; `shedlock migrate` with this option creates it. `run` connects to it in the
    /// background: a journal that cannot be reached does not keep a command from running.
    ///
    /// The default is SHEDLOCK_JOURNAL_STORE, or the URL in the file that SHEDLOCK_JOURNAL_STORE_FILE
    /// names. Put a URL with a password into one of them.
    #[arg(long, value_name = "URL")]
    pub(crate) journal_store: Option<String>,
    /// Read the URL of the journal's store from this file, such as a mounted secret
    ///
    /// The file has one line. The default is SHEDLOCK_JOURNAL_STORE_FILE; it is an error to set both
    /// SHEDLOCK_JOURNAL_STORE and SHEDLOCK_JOURNAL_STORE_FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "journal_store")]
    pub(crate) journal_store_file: Option<PathBuf>,
    /// That of the configuration file.
    #[arg(skip)]
    pub(crate) setting: Option<StoreSetting>,
}

/// Show the jobs of the store's journal: when each last succeeded, and when it is due
///
/// Prints one line per job, sorted by name. A job is registered by the library's scheduler when it
/// starts, otherwise by its first run; `shedlock run` registers the schedule with it. STATE is the first of
/// these that applies: `paused`, `overdue` (the job has a schedule, and no success was recorded within the
/// time that the schedule and --lock-at-most-for allow), `running`, `unverified` (ShedLock for Java took its
/// latest slot; its runs are not recorded here, so how that one ended is not known), `taken` (ShedLock for Java
/// has its lock), `without its lock`, `end unknown`, `failed`, `maybe_overlapped`, `cancelled`, `ok` or `no run yet`. LAST RUN is how the run that started last ended, as `shedlock
/// history` shows it, SUCCEEDED the time since the latest success, TOOK how long that run took, NEXT the slot
/// that must succeed next, in UTC (in the past if it has not succeeded yet). SCHEDULE has its time zone.
///
/// The journal is created with `shedlock migrate`. PostgreSQL, MySQL, MariaDB, SQLite,
/// Redis, Valkey and MongoDB can keep one.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("the store has no journal, or --forget or another option names no job in it")))]
pub(crate) struct JobsArgs {
    /// Remove this job and its runs from the journal, because it no longer exists
    ///
    /// A job that no longer exists stays in the list, and is reported as overdue, until it is removed.
    /// Without --yes, this option only shows the job. A job that still runs comes back with its next run.
    /// Its locks stay: `shedlock prune` removes their records. What operators did stays too.
    #[arg(long, value_name = "JOB", conflicts_with = "filter")]
    pub(crate) forget: Option<String>,
    /// Confirm --forget: remove the job
    #[arg(long, requires = "forget")]
    pub(crate) yes: bool,
    /// Declare that Java reports it if a run of this job fails there
    ///
    /// The journal does not have the runs of ShedLock for Java. So a job of which Java takes three slots in a
    /// row is reported: its state is `unverified`, and no one is known to look at it. With this option it stays
    /// `unverified`, but `doctor`, the dashboard and the alerts report it no more. It is kept in the journal.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["filter", "forget"])]
    pub(crate) watched_by_java: Option<String>,
    /// Take back --watched-by-java for this job
    #[arg(long, value_name = "JOB", conflicts_with_all = ["filter", "forget", "watched_by_java"])]
    pub(crate) not_watched_by_java: Option<String>,
    /// Show only jobs whose name matches this pattern, like 'expire-*'; can be repeated
    #[arg(long, value_name = "PATTERN", value_parser = values::pattern)]
    pub(crate) filter: Vec<Pattern>,
    /// Fit the table into this many columns (at least 40), instead of the width of the terminal
    #[arg(long, value_name = "COLUMNS", value_parser = values::width, allow_hyphen_values = true)]
    pub(crate) width: Option<usize>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl JobsArgs {
    /// The job of which the user declares whether Java watches it.
    pub(crate) fn watched(&self) -> Option<(&str, bool)> {
        let watched = self.watched_by_java.as_deref().map(|job| (job, true));
        let not_watched = self.not_watched_by_java.as_deref();
        watched.or_else(|| not_watched.map(|job| (job, false)))
    }
}

/// Show the past runs of a job and what operators did to its lock, the latest first
///
/// Prints when each run started (TIME, in UTC), how it ended (EVENT), how long it took, its scheduled
/// time (SLOT), who held the lock (BY), and its error (DETAIL), which also says why `shedlock run`
/// stopped a command. EVENT is `succeeded`, `failed`, `lost` (the lease ended before the task),
/// `maybe_overlapped` (the command succeeded, but the reply to its unlock was lost, and another owner has had the
/// lock since: another run may have overlapped this one), `panicked` or `cancelled` (it was interrupted). Without a recorded end it is `running` (it holds its lock), `without
/// its lock` (the lock was freed by force or paused at once, and the task may still run) or `end unknown`
/// (its lease is over: its process or host died, or could not reach the journal; it may have succeeded).
/// `elsewhere` is a slot that ShedLock for Java took; its run is not recorded here, and how it ended is not known.
///
/// Between the runs are the actions of operators on the lock NAME: `paused`, `resumed`, `freed`
/// (`shedlock unlock --force`), `extended` (not by the running command itself), `slot reset`, `pruned`,
/// `forgotten` (`shedlock jobs --forget`), and `watched elsewhere` or `not watched elsewhere` (`shedlock jobs
/// --watched-by-java`). BY is then the user@host that did it, as that host claims.
///
/// The journal keeps 1,000 runs of each job, for 30 days, and actions for a year. It is created with
/// `shedlock migrate`; what happened before is not in it. PostgreSQL, MySQL, MariaDB, SQLite,
/// Redis, Valkey and MongoDB can keep one.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("the store has no journal, or it has nothing about this job")))]
pub(crate) struct HistoryArgs {
    /// The job, which is the template of its locks' names ('expire-{tenant}'), or the name of a lock
    pub(crate) name: String,
    /// Show at most this many runs, and what operators did since the first of them
    #[arg(
        short = 'n',
        long,
        value_name = "RUNS",
        default_value_t = 20,
        value_parser = values::runs,
        allow_hyphen_values = true
    )]
    pub(crate) limit: u32,
    /// Show only what began at or after this time, like 2026-11-21T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) since: Option<Timestamp>,
    /// Show only runs that failed, were lost or panicked, may have been overlapped, or have no recorded end
    #[arg(long)]
    pub(crate) failed: bool,
    /// Fit the table into this many columns (at least 40), instead of the width of the terminal
    #[arg(long, value_name = "COLUMNS", value_parser = values::width, allow_hyphen_values = true)]
    pub(crate) width: Option<usize>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
