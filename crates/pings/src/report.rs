//! What is reported about a run, and when.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shedlock_core::{Clock as _, Event, Lease, SystemClock, TaskEnd};

use shedlock_journal::ErrorText;

/// How a run ended, for a monitoring service.
///
/// The listener reports an executor's runs. Create a `RunReport` yourself only for a run that you know
/// more about than the executor does, such as the exit code of its process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RunReport {
    pub(crate) verdict: Verdict,
    pub(crate) ran_for: Duration,
    pub(crate) text: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Succeeded,
    Failed,
    /// With an exit code other than 0.
    Exited(u8),
}

impl RunReport {
    /// The run succeeded.
    pub fn succeeded(ran_for: Duration) -> Self {
        Self::new(Verdict::Succeeded, ran_for)
    }

    /// The run failed.
    pub fn failed(ran_for: Duration) -> Self {
        Self::new(Verdict::Failed, ran_for)
    }

    /// The run's process exited with this code. 0 is a success.
    pub fn exited(code: u8, ran_for: Duration) -> Self {
        match code {
            0 => Self::succeeded(ran_for),
            code => Self::new(Verdict::Exited(code), ran_for),
        }
    }

    /// Adds a text that the service shows with the ping, such as the end of a process's output. It
    /// leaves your systems: remove whatever the service must not see.
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    fn new(verdict: Verdict, ran_for: Duration) -> Self {
        Self {
            verdict,
            ran_for,
            text: None,
        }
    }
}

/// A service that is notified of runs.
pub(crate) trait Service {
    fn started(&self, lease: &Lease);
    fn ended(&self, lease: &Lease, report: &RunReport);
}

/// The runs in progress: the owners of their leases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<Mutex<BTreeSet<Arc<str>>>>);

impl Runs {
    /// Turns the events of an executor into pings. A task inside a task that holds the same lock
    /// belongs to the same run.
    pub(crate) fn notify(&self, event: &Event<'_>, errors: ErrorText, service: &impl Service) {
        match event {
            Event::TaskStarted {
                lease,
                is_reentrant: false,
                ..
            } => {
                self.with(|runs| runs.insert(lease.owner().as_str().into()));
                service.started(lease);
            }
            Event::TaskFinished {
                lease,
                is_reentrant: false,
                ran_for,
                end,
                ..
            } => {
                self.with(|runs| runs.remove(lease.owner().as_str()));
                service.ended(lease, &report(*end, *ran_for, errors));
            }
            // The unlock found it out: the task has ended, and its end was reported. Otherwise its
            // end follows.
            Event::Lost { lease, reason, .. }
                if !self.with(|runs| runs.contains(lease.owner().as_str())) =>
            {
                let now = SystemClock.system_time();
                let started = lease.acquired_at().unwrap_or(now);
                let ran_for = now.duration_since(started).unwrap_or_default();
                let mut report = RunReport::failed(ran_for);
                report.text = errors.shown(&reason.to_string());
                service.ended(lease, &report);
            }
            _ => {}
        }
    }

    fn with<T>(&self, then: impl FnOnce(&mut BTreeSet<Arc<str>>) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn report(end: TaskEnd<'_>, ran_for: Duration, errors: ErrorText) -> RunReport {
    if end == TaskEnd::Succeeded {
        return RunReport::succeeded(ran_for);
    }
    let mut report = RunReport::failed(ran_for);
    report.text = errors.of(end);
    report
}
