//! The command line of `migrate`.

use clap::Args;

use super::{OutputArgs, StoreArgs, exit_codes, values};

/// Prepare a store: create its table or bucket, or add missing columns to a table of ShedLock for
/// Java
///
/// Prints the changes. Running it again changes nothing. The added columns are nullable, so ShedLock
/// for Java keeps working with the table.
///
/// Also creates the journal, which records jobs, runs and operators' actions: PostgreSQL, MySQL, MariaDB,
/// SQLite, Redis, Valkey and MongoDB can keep one. With --journal-store it is in a store of its own.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_migrate())]
pub(crate) struct MigrateArgs {
    /// Leave out the journal: the record of jobs, runs and operators' actions beside the locks
    ///
    /// Without it `shedlock jobs`, `shedlock history`, the alerts and most of the dashboard have nothing
    /// to show. Locks work without it.
    #[arg(long)]
    pub(crate) no_journal: bool,
    /// Print the statements for an empty store, and do not connect to it
    ///
    /// They can be given to `psql`, `mysql` or `sqlite3`, or put into a migration of your own. The
    /// URL's options for tables and columns count. The server need not exist.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) print: bool,
    /// With --print, also print what this database user needs to run jobs and to operate on them, and
    /// no more
    ///
    /// For PostgreSQL, MySQL and MariaDB. A role of PostgreSQL is spelled as the server stores it. A user
    /// of MySQL or MariaDB may include the host, like app@10.0.0.%. `shedlock prune` also needs DELETE
    /// on the lock table.
    #[arg(long, value_name = "ROLE", value_parser = values::role, requires = "print")]
    pub(crate) grant_to: Option<String>,
    /// Create the table although the database has other lock tables
    ///
    /// Without this option a missing table that the URL does not name is not created beside others: a service that is
    /// meant to share one of them would get a table of its own, and the two would not exclude each other.
    #[arg(long, conflicts_with_all = ["print", "dry_run", "restore_from_journal"])]
    pub(crate) new_table: bool,
    /// Print what would be changed in this store now, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the slots and pauses that the journal has and the locks have lost, and restore them with --yes
    ///
    /// For a table that was dropped, a cache that was flushed, or a backup that was restored. Only records of the same lock
    /// store are restored: of the one with the identity that this store has or, if it lost its own, of the one that is
    /// named. Nothing moves backwards: a lock with a later slot stays as it is.
    #[arg(
        long,
        value_name = "IDENTITY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["print", "dry_run", "no_journal"]
    )]
    pub(crate) restore_from_journal: Option<String>,
    /// Restore what --restore-from-journal prints
    #[arg(long, requires = "restore_from_journal")]
    pub(crate) yes: bool,
    /// Give the locks an identity of their own, although the journal has the records of another lock store
    ///
    /// Each run carries the identity of its lock store, so that nothing is ever restored from another store. Without this
    /// option, a lock store without an identity gets one unless the journal has records of another one: those may be its
    /// own, from before it was dropped or flushed.
    #[arg(long, conflicts_with_all = ["print", "dry_run", "restore_from_journal"])]
    pub(crate) new_identity: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
