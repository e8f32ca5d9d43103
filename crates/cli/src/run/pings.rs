//! Monitoring services are notified of runs: `--ping-url` and `--sentry-dsn`.

use std::time::Duration;

use shedlock::pings::{Healthchecks, Monitor, RunReport, SentryCrons};
use shedlock::{Clock, Error, ErrorKind, Lease, Moment, SystemClock};

use crate::args::{self, RunArgs};
use crate::exit::Failure;
use crate::journal::FLUSH;
use crate::output;
use crate::terminal::Terminal;
use crate::user;

/// The longest run that a monitor of Sentry accepts.
const LONGEST_RUN: Duration = Duration::from_secs(28 * 86_400);

/// The services of one `run`. The run is not affected by them.
pub(super) struct Pings<'a> {
    args: &'a RunArgs,
    healthchecks: Option<Healthchecks>,
    sentry: Option<SentryCrons>,
    /// Sentry's monitor, apart from how long a run may take.
    monitor: Monitor,
    started: Moment,
}

impl<'a> Pings<'a> {
    /// # Errors
    /// A usage error for a URL or DSN that is wrong.
    pub(super) fn of(args: &'a RunArgs, terminal: Terminal) -> Result<Self, Failure> {
        let url = wanted(&args.pings.ping_url);
        let dsn = wanted(&args.pings.sentry_dsn);
        if args.pings.ping_output && url.is_none() {
            let arguments: Vec<_> = std::env::args_os().collect();
            let option = args::origin(args::PING_OUTPUT, &arguments);
            return Err(Failure::usage(format!(
                "{option} needs --ping-url: set the URL of the check that gets the output"
            )));
        }
        let (healthchecks, sentry) = (url.map(|url| check(args, url)), dsn.map(SentryCrons::new));
        let mut pings = Self {
            args,
            healthchecks: usable(healthchecks, args::PING_URL, args, terminal)?,
            sentry: usable(sentry, args::SENTRY_DSN, args, terminal)?,
            monitor: Monitor::new(),
            started: SystemClock.now(),
        };
        pings.watch(terminal);
        Ok(pings)
    }

    /// This host could not run the command, and exits with this code. Another one may have run it.
    pub(super) async fn log(args: &RunArgs, code: u8) {
        let Some(url) = wanted(&args.pings.ping_url) else {
            return;
        };
        // What is wrong with it was said before.
        if let Ok(pings) = check(args, url) {
            let host = user::at_host();
            let text = format!("{host} could not run the command: exit code {code}");
            pings.log(&args.name, &text);
            pings.flush(FLUSH).await;
        }
    }

    /// Whether the end of the command's output is sent.
    pub(super) fn take_output(&self) -> bool {
        self.args.pings.ping_output && self.healthchecks.is_some()
    }

    /// The lock is acquired, and the command is about to start.
    pub(super) fn started(&mut self, lease: &Lease) {
        self.started = SystemClock.now();
        if let Some(pings) = &self.healthchecks {
            pings.started(lease);
        }
        let longest = match self.args.max_run_time {
            Some(longest) => longest,
            None if self.args.keep_alive => LONGEST_RUN,
            None => lease.lock_at_most_for(),
        };
        let monitor = self.monitor.clone().max_runtime(longest.min(LONGEST_RUN));
        let sentry = self.sentry.clone();
        let sentry = sentry.and_then(|it| it.monitor(&*self.args.name, monitor).ok());
        if let Some(sentry) = sentry {
            sentry.started(lease);
            self.sentry = Some(sentry);
        }
    }

    /// The command has ended, or was not started, and this is the exit code for it.
    pub(super) fn ended(&self, lease: &Lease, code: u8, output: Option<String>) {
        let ran_for = SystemClock.now().saturating_since(self.started);
        let report = RunReport::exited(code, ran_for);
        if let Some(sentry) = &self.sentry {
            sentry.ended(lease, &report);
        }
        if let Some(pings) = &self.healthchecks {
            let report = match output {
                Some(output) => report.with_text(output),
                None => report,
            };
            pings.ended(lease, &report);
        }
    }

    /// Waits until the pings are sent, for a bounded time.
    pub(super) async fn flush(&self, terminal: Terminal) {
        let of_checks = async {
            match &self.healthchecks {
                Some(pings) => pings.flush(FLUSH).await,
                None => 0,
            }
        };
        let of_sentry = async {
            match &self.sentry {
                Some(sentry) => sentry.flush(FLUSH).await,
                None => 0,
            }
        };
        let (of_checks, of_sentry) = tokio::join!(of_checks, of_sentry);
        for (left, service) in [
            (of_checks, "the healthchecks server"),
            (of_sentry, "Sentry"),
        ] {
            if left > 0 {
                terminal.notice(&format!(
                    "{}: {service} did not reply within {}: it may not be notified of this run; \
                     the run is not affected",
                    self.args.name,
                    output::duration(FLUSH)
                ));
            }
        }
    }

    /// Sets the monitor of this job.
    fn watch(&mut self, terminal: Terminal) {
        let mut named = Monitor::new();
        if let Some(slug) = &self.args.pings.sentry_monitor {
            named = named.slug(slug);
        }
        self.monitor = named.clone();
        let Some(sentry) = self.sentry.take() else {
            return;
        };
        let sentry = sentry.environment(&*self.args.pings.sentry_environment);
        let mut scheduled = named.checkin_margin(super::tolerance(self.args));
        if let Some(expression) = &self.args.schedule {
            let zone = self.args.zone.as_deref().unwrap_or("UTC");
            scheduled = scheduled.crontab(expression).zone(zone);
        } else if let Some(period) = self.args.every {
            scheduled = scheduled.every(period);
        }
        match sentry.clone().monitor(&*self.args.name, scheduled.clone()) {
            Ok(_) => self.monitor = scheduled,
            Err(error) => terminal.warning(&format!(
                "{}: Sentry's monitor gets no schedule: {error}",
                self.args.name
            )),
        }
        self.sentry = Some(sentry);
    }
}

fn wanted(value: &Option<String>) -> Option<&str> {
    let value = value.as_deref().unwrap_or_default().trim();
    (!value.is_empty()).then_some(value)
}

fn check(args: &RunArgs, url: &str) -> Result<Healthchecks, Error> {
    Healthchecks::new()?.check(&*args.name, url)
}

/// A wrong URL is the user's to fix. Without a client the command runs, and nothing is sent.
fn usable<T>(
    service: Option<Result<T, Error>>,
    option: (&'static str, &'static str),
    args: &RunArgs,
    terminal: Terminal,
) -> Result<Option<T>, Failure> {
    match service.transpose() {
        Ok(service) => Ok(service),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            let arguments: Vec<_> = std::env::args_os().collect();
            let option = args::origin(option, &arguments);
            Err(Failure::from(error.about(option)))
        }
        Err(error) => {
            terminal.error(&format!("{}: nothing is pinged: {error:#}", args.name));
            Ok(None)
        }
    }
}
