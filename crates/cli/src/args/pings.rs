//! Options for monitoring services.

use clap::Args;

const MONITORING: &str = "Monitoring";

/// The services that are notified of runs.
#[derive(Debug, Default, Args)]
pub(crate) struct PingArgs {
    /// Ping this check of a healthchecks server when the command starts and when it ends, like
    /// https://hc-ping.com/UUID
    ///
    /// POST URL/start, then POST URL if the command succeeded, or URL/CODE with the exit code of
    /// this program. {slug} in the URL stands for the name of the lock, changed and followed by a hash of
    /// it if it is no slug (lower-case letters, digits, - and _):
    /// https://hc-ping.com/PING-KEY/{slug}?create=1. Only the host that runs the command pings, and
    /// a skip sends nothing. A host that cannot run it (its store is away, there is no such command) adds
    /// that to the check's log, with URL/log. A ping never delays or fails the command; this program waits up to 2 s
    /// for the last one after the lock is released. The URL is a secret, and command lines are
    /// visible to all users of this host: prefer SHEDLOCK_PING_URL, which the command does not get,
    /// or the configuration file. An empty URL pings nothing.
    #[arg(
        long,
        value_name = "URL",
        help_heading = MONITORING,
        env = "SHEDLOCK_PING_URL",
        hide_env_values = true
    )]
    pub(crate) ping_url: Option<String>,
    /// Send the end of the command's output (10 kB) with the last ping to --ping-url
    ///
    /// The output still goes to stdout and stderr of this program, but through pipes, so some
    /// commands print without colors and in larger blocks. Passwords of URLs are masked; whatever
    /// else is in the output leaves this host.
    #[arg(long, help_heading = MONITORING)]
    pub(crate) ping_output: bool,
    /// Send check-ins to the cron monitor of the Sentry project with this DSN, like
    /// https://KEY@o1.ingest.sentry.io/PROJECT
    ///
    /// in_progress when the command starts, then ok or error, with --schedule or --every as the
    /// monitor's schedule: the check-in creates the monitor, or updates it. Without a schedule the
    /// monitor must exist. As with --ping-url, only the host that runs the command sends them, and
    /// the command is not affected. Prefer SHEDLOCK_SENTRY_DSN, which the command does not get, or
    /// the configuration file. (SENTRY_DSN is not read: it belongs to the command.) An empty DSN
    /// sends nothing.
    #[arg(
        long,
        value_name = "DSN",
        help_heading = MONITORING,
        env = "SHEDLOCK_SENTRY_DSN",
        hide_env_values = true
    )]
    pub(crate) sentry_dsn: Option<String>,
    /// The slug of Sentry's monitor [default: the name of the lock, as a slug]
    #[arg(long, value_name = "SLUG", help_heading = MONITORING)]
    pub(crate) sentry_monitor: Option<String>,
    /// The environment of Sentry's check-ins
    #[arg(
        long,
        value_name = "ENVIRONMENT",
        help_heading = MONITORING,
        env = "SHEDLOCK_SENTRY_ENVIRONMENT",
        hide_env_values = true,
        default_value = "production"
    )]
    pub(crate) sentry_environment: String,
}
