//! The command line.

mod claim;
mod doctor;
mod exit_codes;
mod extend;
mod hold;
mod journal;
mod list;
mod metrics;
mod parse;
mod pause;
mod pings;
mod prune;
mod run;
mod stores;
mod tips;
#[cfg(feature = "ui")]
mod ui;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::settings::{Settings, StoreSetting};
use crate::terminal::LogFormat;
pub(crate) use claim::Claim;
pub(crate) use doctor::DoctorArgs;
pub(crate) use extend::ExtendArgs;
pub(crate) use hold::HoldArgs;
pub(crate) use journal::{HistoryArgs, JobsArgs, JournalErrors, JournalStoreArgs};
pub(crate) use list::{ListArgs, SortKey, StateFilter};
pub(crate) use metrics::MetricsArgs;
pub(crate) use parse::{
    AT_LEAST, AT_MOST, PING_OUTPUT, PING_URL, SENTRY_DSN, Wrong, has_json_results, log_format,
    matches_of, of_log_format, origin, parse, settings_file,
};
pub(crate) use pause::{NamesArgs, PauseArgs, ResumeArgs};
pub(crate) use pings::PingArgs;
pub(crate) use prune::PruneArgs;
pub(crate) use run::RunArgs;
pub(crate) use tips::commands_with;
#[cfg(feature = "ui")]
pub(crate) use ui::UiArgs;
pub(crate) use values::pattern;

/// Run a command once, however many hosts start it, under a shared lock.
#[derive(Debug, Parser)]
#[command(
    name = "shedlock",
    version,
    max_term_width = 100,
    after_help = stores::after_help(),
    after_long_help = format!("{}\n\n{}", stores::after_help(), exit_codes::of_all())
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Hold(HoldArgs),
    Extend(ExtendArgs),
    List(ListArgs),
    Show(ShowArgs),
    Jobs(JobsArgs),
    History(HistoryArgs),
    Metrics(MetricsArgs),
    #[cfg(feature = "ui")]
    Ui(UiArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Unlock(UnlockArgs),
    Slot(SlotArgs),
    Prune(PruneArgs),
    Doctor(DoctorArgs),
    Migrate(MigrateArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    pub(crate) fn store_mut(&mut self) -> Option<&mut StoreArgs> {
        Some(match self {
            Self::Run(args) => &mut args.store,
            Self::Hold(args) => &mut args.store,
            Self::Extend(args) => &mut args.store,
            Self::List(args) => &mut args.store,
            Self::Show(args) => &mut args.store,
            Self::Jobs(args) => &mut args.store,
            Self::History(args) => &mut args.store,
            Self::Metrics(args) => &mut args.store,
            #[cfg(feature = "ui")]
            Self::Ui(args) => &mut args.store,
            Self::Pause(args) => &mut args.store,
            Self::Resume(args) => &mut args.store,
            Self::Unlock(args) => &mut args.store,
            Self::Slot(args) => match &mut args.command {
                SlotCommand::Reset(args) => &mut args.store,
            },
            Self::Prune(args) => &mut args.store,
            Self::Doctor(args) => &mut args.store,
            Self::Migrate(args) => &mut args.store,
            Self::Config(args) => &mut args.store,
            Self::Completions(_) | Self::Man(_) => return None,
        })
    }

    /// The option that selects the command's store again, for messages.
    pub(crate) fn store_option(&mut self) -> String {
        self.store_mut()
            .map_or_else(String::new, |store| store.option())
    }

    /// Whether the results were asked for as JSON.
    pub(crate) fn has_json_results(&self) -> bool {
        let output = match self {
            Self::Run(_) | Self::Metrics(_) | Self::Completions(_) | Self::Man(_) => return false,
            #[cfg(feature = "ui")]
            Self::Ui(_) => return false,
            Self::Hold(args) => args.output,
            Self::Extend(args) => args.output,
            Self::List(args) => args.output,
            Self::Show(args) => args.output,
            Self::Jobs(args) => args.output,
            Self::History(args) => args.output,
            Self::Pause(args) => args.output,
            Self::Resume(args) => args.output,
            Self::Unlock(args) => args.output,
            Self::Slot(args) => match &args.command {
                SlotCommand::Reset(args) => args.output,
            },
            Self::Prune(args) => args.output,
            Self::Doctor(args) => args.output,
            Self::Migrate(args) => args.output,
            Self::Config(args) => args.output,
        };
        output.format == Format::Json
    }
}

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

/// Show the value of every setting, and where it came from
///
/// That is an option, an environment variable, a line of the configuration file, or the default. Passwords are
/// hidden. The file and each value in effect are checked; nothing connects to a store.
/// Options of `run` and of other commands are settings too, except those that apply to a single invocation, like --name.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_none())]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The file that was found.
    #[arg(skip)]
    pub(crate) settings: Option<Settings>,
}

/// Print the completion script for a shell
///
/// For bash: `shedlock completions bash > /etc/bash_completion.d/shedlock`. For zsh:
/// `shedlock completions zsh > ~/.zfunc/_shedlock`, with ~/.zfunc in $fpath. For fish:
/// `shedlock completions fish > ~/.config/fish/completions/shedlock.fish`.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_none())]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual page, or write one page for each command
///
/// `shedlock man | man -l -` shows the page. Packages install the pages:
/// `shedlock man --dir /usr/local/share/man/man1`.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_none())]
pub(crate) struct ManArgs {
    /// Write shedlock.1, shedlock-run.1 and so on to this directory, which is created if it does not
    /// exist
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// What a library's advice has in place of the option of [`StoreArgs::option`].
pub(crate) const ANY_STORE: &str = " --store …";

impl StoreArgs {
    /// The option that selects the same store again, for commands that a message quotes. Without
    /// the URL, which may contain a password.
    pub(crate) fn option(&self) -> String {
        let store = if self.local {
            " --local"
        } else if self.store.is_some() {
            ANY_STORE
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::parse::parse_with;
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse_with(&arguments, None).map_err(|wrong| match wrong {
            Wrong::Usage(error) => error,
            Wrong::Settings(failure) => panic!("{}", failure.message()),
        })
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
        let said = "invalid value '10' for '--lock-at-most-for <DURATION>': write it with its unit";
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.to_string().contains("1h30m"), "{error}");
        assert_eq!(error.exit_code(), 2);
        let error = parse("shedlock run --name a --lock-at-most-for 10m backup.sh").unwrap_err();
        assert!(error.to_string().contains("-- <COMMAND>..."), "{error}");
        let tip = "write the command after `--`, like: shedlock run --name NAME -- backup.sh";
        assert!(error.to_string().contains(tip), "{error}");
        for other in [
            "run --name a --lock-for 10m -- x",
            "run --name a b -- x",
            "list a",
        ] {
            let error = parse(&format!("shedlock {other}")).unwrap_err();
            assert!(!error.to_string().contains("write the command"), "{error}");
        }
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
        let error = parse("shedlock run --name a --lock-at-most-for -5m -- x").unwrap_err();
        assert!(error.to_string().contains("negative"), "{error}");
        assert!(parse("shedlock list --local --store memory:").is_err());
        assert!(parse("shedlock -q -v list").is_err());
        assert!(parse("shedlock slot reset a --to yesterday").is_err());
        assert!(parse("shedlock slot reset a --to 2026-11-21T03:00:00+09:00").is_ok());
        assert!(parse("shedlock unlock a").is_err());
        assert!(parse("shedlock unlock a --force").is_ok());
    }
    /// A value for this option, if it needs one.
    fn value_of(command: &clap::Command, option: &clap::Arg) -> Option<String> {
        const VALUES: [&str; 14] = [
            "1",
            "80",
            "10s",
            "30d",
            "a",
            "UTC",
            "127.0.0.1:1",
            "2026-11-21T03:00:00Z",
            "https://example.com",
            "https://a@example.com/1",
            "/path",
            "a=postgres://h/d",
            "a=/path",
            "warn",
        ];
        let least = option.get_num_args().map_or(1, |range| range.min_values());
        if least == 0 || !option.get_action().takes_values() {
            return None;
        }
        let possible = option.get_possible_values();
        let possible = possible.iter().map(|it| it.get_name().to_owned());
        let mut values = possible.chain(VALUES.map(str::to_owned));
        let is_accepted = |value: &String| {
            let long = format!("--{}={value}", option.get_long().unwrap());
            let parsed = command.clone().try_get_matches_from(["x", &long]);
            parsed.map_or_else(|error| !is_misread(&error), |_| true)
        };
        let value = values.find(is_accepted);
        Some(value.unwrap_or_else(|| panic!("no value for {option}")))
    }

    /// Whether a word was not taken for what it is. What is missing, and what excludes each other, is found only
    /// afterwards.
    fn is_misread(error: &clap::Error) -> bool {
        use clap::error::ErrorKind;
        !matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::ArgumentConflict
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        )
    }

    fn refuse_swallowing_options(command: &clap::Command) {
        let options: Vec<_> = command
            .get_arguments()
            .filter(|it| {
                it.get_long().is_some()
                    && !matches!(
                        it.get_action(),
                        ArgAction::Help
                            | ArgAction::HelpLong
                            | ArgAction::HelpShort
                            | ArgAction::Version
                    )
            })
            .map(|it| {
                (
                    it,
                    [
                        Some(format!("--{}", it.get_long().unwrap())),
                        value_of(command, it),
                    ],
                )
            })
            .collect();
        for (first, before) in &options {
            for (second, after) in options
                .iter()
                .filter(|(it, _)| it.get_id() != first.get_id())
            {
                let words = before.iter().chain(after).flatten();
                let words: Vec<_> = std::iter::once("x")
                    .chain(words.map(String::as_str))
                    .collect();
                if let Err(error) = command.clone().try_get_matches_from(&words) {
                    assert!(
                        !is_misread(&error),
                        "{} {first} {second}: {error}",
                        command.get_name()
                    );
                }
            }
        }
        command
            .get_subcommands()
            .for_each(refuse_swallowing_options);
    }

    #[test]
    fn no_option_takes_the_option_that_follows_for_its_value() {
        let mut command = Cli::command();
        command.build();
        refuse_swallowing_options(&command);
    }
}
