//! The command line of `run`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueHint};
use shedlock::scheduler::Schedule;
use shedlock::{Error, Retries};

use super::{Claim, JournalErrors, PingArgs, StoreArgs, values};

const SCHEDULE: &str = "Schedule";

/// Run a command if its lock is free
///
/// Takes the lock, runs the command, releases the lock. If another owner holds the lock, the
/// command is not run, a line on stderr shows the owner and the end of its lease (not with
/// --quiet), and the exit code is 0: the work is in progress, or was just done.
///
/// The command never outlives its lease, which `shedlock extend` can extend. Shortly before the lease ends (10 s, or a third of
/// --lock-at-most-for if that is less) all processes of the command get SIGTERM, then SIGKILL. A
/// second process, the watchdog, enforces this even if this program is killed, and then releases the
/// lock. When the command ends, its remaining background processes are stopped before the lock is
/// released.
///
/// SIGTERM, SIGINT (Ctrl-C), SIGHUP and SIGQUIT to this program are passed on to the command, and
/// the lock is released when the command has ended. A command that has not ended after
/// --stop-grace, or when a second SIGINT or SIGTERM arrives, is killed. While this program waits for
/// the lock, such a signal ends it, and the command is not started.
///
/// This program has no timer: start it from cron or a systemd timer on each host, or from a Kubernetes
/// CronJob. Repeat the timer's schedule here (--schedule or --every), and the command runs once for
/// each scheduled time (slot), however late some hosts are.
#[derive(Debug, Args)]
#[command(
    override_usage = "shedlock run --name <NAME> --lock-at-most-for <DURATION> [OPTIONS] -- \
                            <COMMAND>..."
)]
#[command(after_long_help = "\
Exit codes:
  0      the command succeeded, or was skipped (see --skip-exit-code)
  N      the command's own exit code
  2      the command line, an environment variable or the configuration file is wrong
  69     the store failed or was too slow; the command was not started, or not started again
  70     shedlock failed, or its watchdog was killed (the process that stops the command if shedlock
         itself is killed); the command was stopped, or not started
  75     the command was stopped because its lease was about to end, or because --max-run-time
         had passed; or processes of the command are left, or may be left where /proc does not show
         them, and the lock was not released; or the lease was lost early, and another run may have
         overlapped this one. With --keep-alive, the command is stopped as soon as the loss is
         noticed. Without it, the loss is noticed shortly before the lease would have ended, or
         after the command has ended, and then only if another owner has taken the lock, an operator
         has paused it with --now, or the lease ended while shedlock was suspended. If the reply to
         the unlock was lost and another owner has had the lock since, the lease may have been lost.
         A lease also ends when the wall clock jumps past its end
  76     the slot was not run here: this host's clock is ahead of the store's or behind it (stderr
         shows both; set it), or the last slot taken is ahead of the store's clock (see `shedlock
         slot reset`); or, with --must-not-be-lost, all attempts at it had failed before (the run
         that makes the last attempt exits with the command's own code, or with 75 if the command
         was stopped)
  126    the command cannot be run
  127    the command, or its interpreter, was not found
  128+N  signal N ended the command (137 if it did not end within --stop-grace), or ended shedlock
         before the command was started

Environment of the command:
  SHEDLOCK_NAME           the name of the lock
  SHEDLOCK_OWNER          the lock's owner: host/process/random, as in `shedlock list`
  SHEDLOCK_FENCING_TOKEN  a number that grows with every acquisition, for guarded writes; not set
                          if a table lacks the column for it, which `shedlock migrate` adds
  SHEDLOCK_LOCKED_UNTIL   when the lease ends, like 2026-11-21T03:00:00.123Z (the fraction may be
                          absent), if the store reports it; with --keep-alive, the end of the
                          first lease
  SHEDLOCK_SLOT           the scheduled time of the run, with --schedule or --every
  SHEDLOCK_SLOT_ATTEMPT   the number of this attempt at its slot, from 1, with --must-not-be-lost
  SHEDLOCK_STORE, SHEDLOCK_STORE_FILE
                          removed, unless --pass-store is set or the store is the user's file
                          (--local); then one of them names the store of this run
  SHEDLOCK_STORE_WITHHELD set if the store is not passed on, so that a nested shedlock without
                          --store fails instead of using another store
  SHEDLOCK_JOURNAL_STORE, SHEDLOCK_JOURNAL_STORE_FILE
                          removed, unless --pass-store is set
  SHEDLOCK_PING_URL, SHEDLOCK_SENTRY_DSN
                          always removed

Examples:
  # In the crontab of every host: every ten minutes, on one host
  # (the store is in /etc/shedlock/config.toml, and cron's PATH is /usr/bin:/bin)
  */10 * * * *  /usr/local/bin/shedlock run -qn mail --lock-at-most-for 9m --every 10m -- /opt/mail
  # A command of unknown length, with an upper limit
  shedlock run -n sync --lock-at-most-for 5m --keep-alive --max-run-time 6h -- sync-all
  # A healthchecks server notifies you if the command fails, or runs on no host at all
  # (ping-url is in the configuration file: https://hc-ping.com/PING-KEY/{slug}?create=1)
  30 2 * * *  /usr/local/bin/shedlock run -qn dump --lock-at-most-for 1h --every 1d -- /opt/dump
  # One deployment at a time
  shedlock run -n deploy --lock-at-most-for 15m --lock-wait 30m --skip-exit-code 1 -- deploy")]
pub(crate) struct RunArgs {
    /// The name of the lock: commands with the same name in the same store never overlap
    #[arg(short, long)]
    pub(crate) name: String,
    /// Required (here, in SHEDLOCK_LOCK_AT_MOST_FOR, in the configuration file or in the store's URL):
    /// the time limit of the command, like 10m or 1h30m
    ///
    /// The command is stopped before this has passed. If this host dies, the lock stays taken until
    /// this has passed. In the store's URL, write ?lock_at_most_for=10m. A duration is a number with
    /// its unit: d (24 hours), h, m, s or ms; not weeks, months or years.
    #[arg(long, value_name = "DURATION", value_parser = values::duration_above_zero, allow_hyphen_values = true, env = "SHEDLOCK_LOCK_AT_MOST_FOR", hide_env_values = true)]
    pub(crate) lock_at_most_for: Option<Duration>,
    /// Keep the lock for at least this long, however quickly the command ends
    ///
    /// Set it longer than the clock skew between hosts, and shorter than the time between two runs.
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true, env = "SHEDLOCK_LOCK_AT_LEAST_FOR", hide_env_values = true)]
    pub(crate) lock_at_least_for: Option<Duration>,
    /// Extend the lease while the command runs, after each third of it
    ///
    /// --lock-at-most-for then only limits how long the lock stays taken if this host dies: it can
    /// be short for a command of any length. If the store stays unavailable, or the lock is freed
    /// by force, the command is stopped before the lease ends.
    #[arg(long)]
    pub(crate) keep_alive: bool,
    /// Stop the command after this time, whatever its lease
    ///
    /// It gets SIGTERM, then SIGKILL after a grace period of 10 s (or a third of --lock-at-most-for
    /// if that is less). For a command that may hang under --keep-alive.
    #[arg(long, value_name = "DURATION", value_parser = values::duration_above_zero, allow_hyphen_values = true)]
    pub(crate) max_run_time: Option<Duration>,
    /// How long the command may take to end after SIGTERM, SIGINT, SIGHUP or SIGQUIT to this program
    /// [default: 10s]
    ///
    /// After this time, or at a second SIGINT or SIGTERM, all its processes get SIGKILL; earlier if
    /// the lease is about to end. If the command runs in the foreground of a terminal, Ctrl-C goes to
    /// the command, which may ignore it; a second Ctrl-C within this time kills it.
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) stop_grace: Option<Duration>,
    /// Leave processes that the command leaves running, such as a daemon that it has started
    ///
    /// By default they are stopped when the command has ended, before the lock is released, because
    /// they may still do what the lock protects. With this option they go on without the lock, and
    /// without a time limit. They are stopped all the same if the command itself is stopped because
    /// its time is over or its lease is lost, or if shedlock is killed.
    #[arg(long)]
    pub(crate) leave_children: bool,
    /// Wait up to this long for a held lock, or for a store that cannot be reached, instead of giving up
    /// at once
    ///
    /// Attempts are repeated. In a crontab or a timer, 1m survives a restart of the store. No connection
    /// attempt takes longer than the time left; the wait may end 1 s late. A slot that another host has taken is
    /// skipped at once, since it will never be free again; with --must-not-be-lost, only once it is
    /// done or given up.
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) lock_wait: Option<Duration>,
    /// The cron expression of the timer that starts this program: the command runs once for each of
    /// its slots
    ///
    /// Five fields (minute, hour, day of month, month, day of week), or six with seconds first, as
    /// in '0 */10 * * * *'; lists, ranges, steps, names, L, W and #; or @hourly, @daily, @midnight,
    /// @weekly, @monthly, @yearly or @annually. A step starts again in each hour, day, month or year:
    /// */45 means minutes 0 and 45. 5/15 means 5-59/15, as in Kubernetes; crond may refuse it. If one of
    /// the two day fields begins with *, a day must match both, as in crond; otherwise either is
    /// enough. A start belongs to the newest slot, however late it is. The store grants each slot to
    /// one host. The others skip it, even long after its command has ended, so you need not guess a
    /// --lock-at-least-for. A run that still holds the lock when the next slot is due makes the
    /// starts for that slot skip it, unless they wait with --lock-wait.
    #[arg(
        long,
        value_name = "CRON",
        help_heading = SCHEDULE,
        group = "by"
    )]
    pub(crate) schedule: Option<String>,
    /// The period of the timer that starts this program, like 10m: the command runs once for each
    /// slot, and slots are at whole periods since 1970-01-01 00:00 UTC
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = values::duration,
        allow_hyphen_values = true,
        help_heading = SCHEDULE,
        group = "by"
    )]
    pub(crate) every: Option<Duration>,
    /// The time zone of --schedule, like Asia/Seoul: the zone that the timer uses (crond: the host's
    /// local time) [default: UTC, with a warning on stderr if the host's time zone is different]
    #[arg(
        long,
        value_name = "ZONE",
        value_parser = values::zone,
        help_heading = SCHEDULE,
        requires = "schedule",
        conflicts_with = "every"
    )]
    pub(crate) zone: Option<String>,
    /// How far this host's clock may lag behind the timer that starts this program [default: 5s, or
    /// a tenth of the time between two slots if that is less]
    ///
    /// If this host's clock shows 23:59:58 when the midnight run starts, the run must not get the
    /// previous slot. So a start gets the next slot if that is at most this far ahead, and nearer
    /// than the previous one. Set it longer than the clock skew; but a manual start this shortly
    /// before a slot takes that slot. A late start needs no tolerance.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = values::duration,
        allow_hyphen_values = true,
        help_heading = SCHEDULE,
        requires = "by"
    )]
    pub(crate) slot_tolerance: Option<Duration>,
    /// Run a slot until its command succeeds: again after a failure, a lost lease or a dead host
    ///
    /// Without it, a slot is used up when it is taken, whatever the result. With it, this program
    /// waits after a failure (--retry-backoff) and tries the slot again, up to --max-attempts
    /// attempts in all, counting the first. If this host dies, the next start on any host runs the
    /// unfinished slot before its own; a start that waits with --lock-wait does so as soon as the
    /// lease has ended. A run that is stopped by a signal to this program (SIGTERM, Ctrl-C) does
    /// not count as an attempt. Slots run in order. A command that succeeded may run again if that
    /// could not be recorded (its host died, or the store failed): it must be idempotent.
    ///
    /// A slot for which no host started this program (all hosts were down, or none had this line in
    /// its crontab) is not run later: the next start takes its own slot. (The scheduler of the Rust
    /// library runs such slots, too.)
    #[arg(long, help_heading = SCHEDULE, requires = "by")]
    pub(crate) must_not_be_lost: bool,
    /// How many times to try a slot before it is given up [default: 5]
    ///
    /// Counted over all hosts, so set the same on each.
    #[arg(long, value_name = "N", help_heading = SCHEDULE, requires = "must_not_be_lost", value_parser = values::attempts, allow_hyphen_values = true)]
    pub(crate) max_attempts: Option<u32>,
    /// The pause after the first failure; it doubles after each further failure [default: 10s]
    ///
    /// At most ten minutes, or this value if that is longer. The lock stays taken during the pause.
    #[arg(long, value_name = "DURATION", help_heading = SCHEDULE, requires = "must_not_be_lost", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) retry_backoff: Option<Duration>,
    #[command(flatten)]
    pub(crate) pings: PingArgs,
    /// While the command runs, serve metrics for Prometheus at this address, like 127.0.0.1:9464
    ///
    /// For a long-running command. GET /metrics returns what `shedlock metrics` prints, and GET
    /// /healthz returns 200. If the address is in use, a line on stderr says so, and the command runs
    /// without metrics. Everyone who can reach the address can read the names of jobs.
    #[arg(long, value_name = "IP:PORT", value_parser = values::socket)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The exit code when the command is skipped, for callers that must distinguish it [default: 0]
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
    /// How much of the reason why a run failed is recorded in the journal
    ///
    /// The reason is the exit code, or what stopped the command. What the command prints is never
    /// recorded.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHAT",
        env = "SHEDLOCK_JOURNAL_ERRORS",
        hide_env_values = true
    )]
    pub(crate) journal_errors: JournalErrors,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Pass the store on to the command: a nested shedlock uses the same one
    ///
    /// SHEDLOCK_STORE, or SHEDLOCK_STORE_FILE if the URL was read from a file, is set in the command's
    /// environment, wherever the store was chosen. Without this option both are removed, since the URL
    /// may contain a password, and a nested shedlock fails unless it has a --store or --local of its own
    /// (a store in the configuration file does not count). The user's file (--local) has no password,
    /// and is always passed on.
    #[arg(long)]
    pub(crate) pass_store: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// The lock to acquire.
    ///
    /// The maximum run time is not included: the watchdog enforces it.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim {
            name: &self.name,
            store: &self.store,
            at_most: self.lock_at_most_for,
            at_least: self.lock_at_least_for,
            wait: self.lock_wait,
            keep_alive: self.keep_alive,
            owner_prefix: self.owner_prefix.as_deref(),
        }
    }

    /// How long the command may take to end after a signal.
    pub(crate) fn stop_grace(&self) -> Duration {
        self.stop_grace.unwrap_or(Duration::from_secs(10))
    }

    /// How many times a slot that must not be lost is tried, and after which pauses.
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
