//! The command line of `run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use shedlock::scheduler::Schedule;
use shedlock::{Error, ErrorKind, LockConfig, LockDefaults, Retries, parse_duration};

use super::StoreArgs;

const SCHEDULE: &str = "Schedule";

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
///
/// This program starts nothing by itself: cron, systemd or Kubernetes starts it, on each host. Say by
/// which schedule (--schedule or --every), and the command runs once for each of its instants, the
/// slots, however late some hosts are.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0    the command succeeded, or was skipped (see --skip-exit-code)
  N    the command's own exit code; 128+N if signal N ended it
  2    the command line is wrong
  69   the store could not do its part; the command was not started
  70   the watchdog was killed, or shedlock failed; the command was stopped
  75   the lease was about to end, or lost, or --max-run-time was over; the command was stopped
  76   no host runs the slot: all attempts at it were made without success, or the last slot taken lies
       ahead of the clock; see `shedlock slot reset`
  126  the command cannot be run
  127  the command was not found

The command sees:
  SHEDLOCK_NAME           the name of the lock
  SHEDLOCK_OWNER          who holds it: host/process/random, as `shedlock list` shows it
  SHEDLOCK_FENCING_TOKEN  a number that grows with every acquisition, for guarded writes
  SHEDLOCK_LOCKED_UNTIL   when the lease ends, like 2026-11-21T03:00:00Z, if the store tells; the
                          first time with --keep-alive
  SHEDLOCK_SLOT           the instant that it is scheduled for, with --schedule or --every
  SHEDLOCK_SLOT_ATTEMPT   which attempt at its slot this is, from 1, with --must-not-be-lost

Examples:
  # In the crontab of each host: every ten minutes on one of them
  SHEDLOCK_STORE=postgres://app@db/app
  */10 * * * *  shedlock run -n report --lock-at-most-for 9m --schedule '*/10 * * * *' -- report
  # A command whose length nobody knows, but not for ever
  shedlock run -n sync --lock-at-most-for 5m --keep-alive --max-run-time 6h -- sync-all
  # One deployment after the other
  shedlock run -n deploy --lock-at-most-for 15m --lock-wait 30m --skip-exit-code 1 -- deploy")]
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
    /// Extend the lease while the command runs, each time a third of it is gone
    ///
    /// --lock-at-most-for is then only how long the lock stays taken if this host dies: it can be
    /// short for a command of any length. If the store stays away, or the lock is freed by force, the
    /// command is stopped before the lease ends.
    #[arg(long)]
    pub(crate) keep_alive: bool,
    /// Stop the command when it has run this long, whatever its lease
    ///
    /// It gets SIGTERM then, and SIGKILL after a grace of 10 s (or a third of --lock-at-most-for if
    /// that is less). For a command that may hang under --keep-alive.
    #[arg(long, value_name = "DURATION", value_parser = run_time)]
    pub(crate) max_run_time: Option<Duration>,
    /// Wait this long for a lock that somebody else holds, rather than skip at once
    ///
    /// It is asked for again and again, and so is a store that cannot be reached. A slot that was taken
    /// is not waited for: it stays taken.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lock_wait: Option<Duration>,
    /// The cron expression that this is started by: run once for each of its slots
    ///
    /// Five fields (minute, hour, day of month, month, day of week), or six with seconds first, as in
    /// '0 */10 * * * *'; lists, ranges, steps, names, L, W and #. Where one of the two day fields begins
    /// with *, a day has to fit both, as in crond; otherwise either will do. It tells which slot a start belongs
    /// to: the newest one, however late the start comes. The store lets one host have each slot. The
    /// others skip it, also when its command has long ended, and a late run does not swallow the next
    /// slot, so that no --lock-at-least-for has to be guessed.
    #[arg(
        long,
        value_name = "CRON",
        help_heading = SCHEDULE,
        group = "by"
    )]
    pub(crate) schedule: Option<String>,
    /// The period that this is started by, like 10m: slots at whole periods since 1970-01-01 00:00 UTC
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = parse_duration,
        help_heading = SCHEDULE,
        group = "by"
    )]
    pub(crate) every: Option<Duration>,
    /// The time zone that --schedule is meant in, like Asia/Seoul [default: UTC]
    #[arg(
        long,
        value_name = "ZONE",
        help_heading = SCHEDULE,
        requires = "schedule",
        conflicts_with = "every"
    )]
    pub(crate) zone: Option<String>,
    /// How far this host's clock may be behind the timer that starts this [default: 5s, or a tenth of
    /// the time between two slots if that is less]
    ///
    /// A host whose clock shows 23:59:58 when the midnight run is started must not take it for the run
    /// before: the next slot counts where it is no further ahead than this, and nearer than the last
    /// one. Make it longer than clocks differ; but a start by hand this shortly before a slot takes
    /// that slot. A start that comes late needs no tolerance.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = parse_duration,
        help_heading = SCHEDULE,
        requires = "by"
    )]
    pub(crate) slot_tolerance: Option<Duration>,
    /// A slot is done only when the command succeeds: it is run again after a failure, a loss or a death
    ///
    /// Without it, a slot is used up when it is taken, whatever becomes of its command. With it, a slot
    /// whose command fails is tried again after a pause (--retry-backoff), up to --max-attempts times.
    /// If this host dies, the next start on any host runs the open slot before its own; one that waits
    /// with --lock-wait does so as soon as the lease has ended. A run that a signal to this program cut
    /// (SIGTERM, ctrl-C) does not count as an attempt. Slots run in order. A command can be run
    /// again that had succeeded, if its host died before it could say so: it has to bear that.
    ///
    /// A slot for which no host started this is not run: not while all hosts were down, nor while none
    /// of them had this line in its crontab. The next start takes its own slot. The scheduler of the
    /// library runs such slots, too.
    #[arg(long, help_heading = SCHEDULE, requires = "by")]
    pub(crate) must_not_be_lost: bool,
    /// How often a slot that must not be lost is tried before it is given up [default: 5]
    ///
    /// On all hosts together, so say the same on each.
    #[arg(long, value_name = "N", help_heading = SCHEDULE, requires = "must_not_be_lost", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: Option<u32>,
    /// The pause after the first failure; twice as long after each further one [default: 10s]
    ///
    /// No longer than ten minutes, or than this if it is more. The lock stays taken meanwhile.
    #[arg(long, value_name = "DURATION", help_heading = SCHEDULE, requires = "must_not_be_lost", value_parser = parse_duration)]
    pub(crate) retry_backoff: Option<Duration>,
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
    /// The lock to acquire. Unset values use the store's defaults.
    ///
    /// The maximum run time is not included: the watchdog enforces it.
    pub(crate) fn lock(&self) -> LockConfig {
        let mut config = LockConfig::new(&self.name);
        if let Some(duration) = self.lock_at_most_for {
            config = config.lock_at_most_for(duration);
        }
        if let Some(duration) = self.lock_at_least_for {
            config = config.lock_at_least_for(duration);
        }
        if let Some(duration) = self.lock_wait {
            config = config.lock_wait(duration);
        }
        if self.keep_alive {
            config = config.keep_alive();
        }
        config
    }

    /// The defaults for every lock of this process.
    pub(crate) fn defaults(&self) -> LockDefaults {
        match &self.owner_prefix {
            Some(prefix) => LockDefaults::new().owner_prefix(prefix),
            None => LockDefaults::new(),
        }
    }

    /// How often a slot that must not be lost is tried, and after which pauses.
    pub(crate) fn retries(&self) -> Retries {
        const LONGEST_BACKOFF: Duration = Duration::from_secs(600);
        let mut retries = Retries::new();
        if let Some(attempts) = self.max_attempts {
            retries = retries.max_attempts(attempts);
        }
        if let Some(pause) = self.retry_backoff {
            retries = retries
                .backoff(pause)
                .max_backoff(LONGEST_BACKOFF.max(pause));
        }
        retries
    }

    /// The schedule whose slots are claimed, if there is one.
    pub(crate) fn schedule(&self) -> Result<Option<Schedule>, Error> {
        if let Some(expression) = &self.schedule {
            let zone = self.zone.as_deref().unwrap_or("UTC");
            return Schedule::cron_in(expression, zone).map(Some);
        }
        self.every.map(Schedule::every).transpose()
    }
}

fn run_time(text: &str) -> Result<Duration, Error> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        let zero = "the command could never run";
        return Err(Error::new(ErrorKind::InvalidInput, zero));
    }
    Ok(duration)
}
