//! The command lines of `pause` and `resume`.

use std::time::Duration;

use clap::Args;

use super::{OutputArgs, StoreArgs, exit_codes, values};

/// Pause a job: no host runs it until it is resumed
///
/// Takes the lock of the job and keeps it. All hosts obey, with `shedlock run`, the library and
/// ShedLock for Java alike: they skip the job and show who has paused it, until when, and why.
/// Scheduled times (slots) that fall due during the pause are not run later, unless you resume with
/// --catch-up. Those that were due before it still run. If --lock-at-least-for or a retry backoff keeps
/// the lock, it stays taken until that end, even if you resume earlier.
///
/// A task that runs now may finish: this command waits for its end, up to --wait, and takes the lock
/// then. With --now it takes the lock from the task. A task with --keep-alive detects that at its next
/// extension and is stopped; without, it may go on until its end, and then fails to release its lock
/// (exit code 75). A running task of ShedLock for Java goes on, and on MongoDB, ZooKeeper, etcd and Redis
/// (without safeUpdate), and on SQL databases with its provider for plain JDBC up to 6.9.2, its end or next extension
/// may end the pause. After such a pause, this command looks again for some seconds, or until the old lease ends if
/// that is within 15 seconds, and reports what it sees (exit code 1 if the pause is gone); check with `shedlock show`
/// when the task has ended.
///
/// Pausing a paused job again replaces the end and the reason: without --reason the old reason is
/// gone, and without --for or --until the pause has no end. Pausing a job that has not run since an
/// earlier pause also skips the slots between the two; a warning names them. Prints each paused job on stdout;
/// the exit code is 1 if a job could not be paused, or if none matches.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("a job could not be paused, or none matches")))]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) names: NamesArgs,
    /// Why, for everyone who runs into the pause: a text longer than 70 characters may be cut, and each
    /// character that is not printable ASCII becomes ?
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) reason: String,
    /// End the pause after this long [default: when it is resumed]
    #[arg(
        long = "for",
        value_name = "DURATION",
        value_parser = values::duration_above_zero,
        allow_hyphen_values = true,
        conflicts_with = "until"
    )]
    pub(crate) lasts: Option<Duration>,
    /// End the pause at this time, like 2026-11-21T03:00:00Z [default: when it is resumed]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) until: Option<jiff::Timestamp>,
    /// Also pause a lock that does not exist yet, such as that of a job before its first run
    ///
    /// Without it, a name that neither the store nor its journal contains is refused, because it may be
    /// mistyped.
    #[arg(long)]
    pub(crate) create: bool,
    /// No ShedLock for Java runs on this store: all its jobs can be seen
    ///
    /// On Redis, Valkey, etcd and NATS, ShedLock removes the record of a lock with its unlock. So --all and
    /// patterns do not find Java's jobs that are idle now. Without this option a warning says so, and with --all
    /// the exit code is 1. To pause such a job, name it and add --create.
    #[arg(long)]
    pub(crate) no_shedlock: bool,
    /// Take the lock from a running task instead of waiting for its end
    #[arg(long, conflicts_with = "wait")]
    pub(crate) now: bool,
    /// Wait up to this long for running tasks to end [default: 1m]
    ///
    /// A store that cannot be reached is tried again for as long; one that is read-only is reported at
    /// once. With 0s, a running task is reported at once.
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Resume a paused job
///
/// Any user can resume a job, whoever has paused it. Its next run is that of the next scheduled time
/// (slot). If the pause is over already, because its end has passed or something else has ended it,
/// this command decides about the slots that it has left. Prints each resumed job on stdout; the exit code is 1 if a named job is not paused, or if no
/// paused job matches.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(Some("a job is not paused, or none that is paused matches")))]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) names: NamesArgs,
    /// Also run the slots that fell due during the pause, as far as the job makes up for missed slots
    ///
    /// The library's scheduler runs all of them under must_not_be_lost, and the newest one under its
    /// late policies. `shedlock run` runs the newest one, if it is started before the next.
    #[arg(long)]
    pub(crate) catch_up: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The locks that a command is about.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct NamesArgs {
    /// The name of the job's lock, or a pattern like 'expire-*' for all existing locks that match
    ///
    /// A `*` stands for any text, `?` for one character, `[ab]` for one of these. If a lock has
    /// exactly this name, only that lock is meant. `pause --create` also accepts the name of a lock that
    /// does not exist yet.
    #[arg(value_name = "NAME|PATTERN")]
    pub(crate) names: Vec<String>,
    /// All existing locks of the store; on Redis, Valkey, etcd and NATS those do not include idle jobs of Java
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
}
