//! The command line of `hold`.

use std::time::Duration;

use clap::Args;

use super::{Claim, OutputArgs, StoreArgs, values};

/// Hold a lock without a command, as long as the script that asked for it
///
/// Takes the lock, prints one line on stdout when it has it, extends the lease after each third of
/// it, and releases the lock at SIGINT (Ctrl-C), SIGTERM, SIGHUP or SIGQUIT, or when --for has passed.
///
/// It is bound to its caller. If the standard input is a pipe, a socket or a terminal and ends (it is never
/// read), the lock is released. If the parent process is gone, however it ended, the lease is not extended any
/// more, and the lock becomes free when it ends: what the parent has started may still run until then. The exit
/// code is 75. --detached turns both off.
///
/// For maintenance windows, and for scripts that need a lock around more than one command. If the lock
/// is held by another owner, a line on stderr shows the owner and the end of its lease (not with
/// --quiet), and the exit code is that of a skipped `shedlock run`: 0, or --skip-exit-code.
///
/// If this host dies, or this process is killed with SIGKILL or stopped (Ctrl-Z), the lock becomes free
/// after --lock-at-most-for. Unlike `shedlock run`, this command stops nothing when its lease is lost:
/// it exits with 75, and what relies on the lock must watch for that. If a command is what needs the
/// lock, use `shedlock run`.
#[derive(Debug, Args)]
#[command(override_usage = "shedlock hold --lock-at-most-for <DURATION> [OPTIONS] <NAME>")]
#[command(after_long_help = "\
Exit codes:
  0      the lock was held and released, or was not free (see --skip-exit-code)
  2      the command line, an environment variable or the configuration file is wrong
  69     the store failed, or the lock could not be released
  70     shedlock failed, or could not write its output
  75     the lease was lost: the lock was freed by force or paused with --now, or could not be
         extended in time; or the parent process is gone, and the lease was left to end
  128+N  signal N ended this program before it got the lock

Examples:
  # In a script: with the lock, as long as the script needs it
  rm -f held
  shedlock hold db --lock-at-most-for 5m --skip-exit-code 1 > held & holder=$!
  until [ -s held ]; do kill -0 $holder || exit 1; sleep 0.1; done
  dump-everything && kill -0 $holder && publish-the-dump
  kill $holder && wait $holder
  # A maintenance window of an hour
  shedlock hold nightly --lock-at-most-for 5m --for 1h --lock-wait 30m
  # A systemd service
  ExecStart=shedlock hold leader --lock-at-most-for 30s --lock-wait 365d")]
pub(crate) struct HoldArgs {
    /// The name of the lock
    pub(crate) name: String,
    /// Required (here, in SHEDLOCK_LOCK_AT_MOST_FOR, in the configuration file or in the store's URL):
    /// how long the lock stays taken if this host dies, like 5m
    ///
    /// In the store's URL, write ?lock_at_most_for=5m.
    #[arg(long, value_name = "DURATION", value_parser = values::duration_above_zero, allow_hyphen_values = true, env = "SHEDLOCK_LOCK_AT_MOST_FOR", hide_env_values = true)]
    pub(crate) lock_at_most_for: Option<Duration>,
    /// Release the lock after this long [default: at a signal only]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration_above_zero, allow_hyphen_values = true)]
    pub(crate) lasts: Option<Duration>,
    /// Hold the lock also when the standard input has ended or the parent process is gone; requires --for
    #[arg(long, requires = "lasts")]
    pub(crate) detached: bool,
    /// Wait up to this long for a held lock instead of giving up at once
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) lock_wait: Option<Duration>,
    /// The exit code when another owner holds the lock, for callers that must distinguish it
    /// [default: 0]
    #[arg(
        long,
        value_name = "CODE",
        value_parser = values::exit_code,
        allow_hyphen_values = true,
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) skip_exit_code: u8,
    /// A prefix for the owner in the store, such as a team or a service
    ///
    /// 1 to 64 visible ASCII characters without `/`. With `billing` the owner is
    /// billing:host/process/random.
    #[arg(long, value_name = "PREFIX", value_parser = values::owner_prefix)]
    pub(crate) owner_prefix: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl HoldArgs {
    /// The lock to acquire.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim {
            name: &self.name,
            store: &self.store,
            at_most: self.lock_at_most_for,
            at_least: None,
            wait: self.lock_wait,
            keep_alive: true,
            owner_prefix: self.owner_prefix.as_deref(),
        }
    }
}
