//! The options that commands share: the verbosity, the store, the format.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::{JournalStoreArgs, stores, values};
use crate::settings::StoreSetting;
use crate::terminal::LogFormat;

/// The verbosity on stderr.
#[derive(Debug, Args)]
pub(crate) struct Voice {
    /// Log more on stderr. -v: what happens to the lock, and what the store's client reports; -vv: also
    /// SQL statements and debug messages; -vvv: everything
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 100)]
    pub(crate) verbose: u8,
    /// Print only errors on stderr
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 100
    )]
    pub(crate) quiet: bool,
    /// The format of the lines on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        env = "SHEDLOCK_LOG_FORMAT",
        hide_env_values = true,
        display_order = 100
    )]
    pub(crate) log_format: LogFormat,
    /// Read settings from this file instead of ~/.config/shedlock/config.toml or
    /// /etc/shedlock/config.toml
    ///
    /// The file is TOML: `lock-at-most-for = "10m"`, with the long names of options as keys, except
    /// those of a single job, like name or schedule. What is in a section, like [run], is for that
    /// command. The command line takes precedence over environment variables, and those over the file.
    /// The default is the file that SHEDLOCK_CONFIG names, otherwise the user's file
    /// ($XDG_CONFIG_HOME/shedlock/config.toml), otherwise the host's. `shedlock config` shows where
    /// each value came from.
    #[arg(long, global = true, value_name = "FILE", display_order = 100)]
    pub(crate) config: Option<PathBuf>,
}

/// The store of the locks.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    #[arg(long, value_name = "URL", help = stores::help(), long_help = stores::long_help())]
    pub(crate) store: Option<String>,
    /// Read the URL of the store from this file, such as a mounted secret
    ///
    /// The file has one line. The default is SHEDLOCK_STORE_FILE; it is an error to set both
    /// SHEDLOCK_STORE and SHEDLOCK_STORE_FILE. If the store refuses a request of a running command, and
    /// the user or password in the file has changed, the new one is used from then on.
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub(crate) store_file: Option<PathBuf>,
    /// Use this user's SQLite file on this host, which other hosts do not share
    ///
    /// Inside Kubernetes this file is used only with this option, because it is lost with the pod.
    /// Overrides SHEDLOCK_STORE and SHEDLOCK_STORE_FILE.
    #[arg(long, conflicts_with_all = ["store", "store_file"])]
    pub(crate) local: bool,
    /// How long connecting to the store may take [default: depends on the store, 10s at most]
    ///
    /// After that, the store counts as failed (exit code 69); `run` and `hold` try again while they
    /// wait for the lock (--lock-wait). Replaces ?connect_timeout in the store's URL. On SQL stores,
    /// connecting may also take no more than three quarters of ?timeout in the URL (10s by default):
    /// for more than 7.5s here, raise that too.
    #[arg(long, value_name = "DURATION", value_parser = values::duration_above_zero, allow_hyphen_values = true)]
    pub(crate) connect_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) journal: JournalStoreArgs,
    /// The store of the configuration file.
    #[arg(skip)]
    pub(crate) setting: Option<StoreSetting>,
}

impl StoreArgs {
    /// The option that selects the same store again, for commands that a message quotes. Without
    /// the URL, which may contain a password.
    pub(crate) fn option(&self) -> String {
        let store = if self.local {
            " --local"
        } else if self.store.is_some() {
            " --store …"
        } else if self.store_file.is_some() {
            " --store-file …"
        } else {
            ""
        };
        let journal = if self.journal.journal_store.is_some() {
            " --journal-store …"
        } else if self.journal.journal_store_file.is_some() {
            " --journal-store-file …"
        } else {
            ""
        };
        format!("{store}{journal}")
    }
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
