//! The commands that a handle sends to the driver.

use std::time::Duration;

use shedlock_core::{Error, ErrorKind};
use tokio::sync::oneshot;

use super::entry::Plan;
use super::timers::JobId;
use super::{Driver, name_of};
use crate::{JobStatus, MissedReason, ShutdownReport, TickEnd};

/// A caller may drop its end of the reply. The command is still executed.
type Reply<T> = oneshot::Sender<T>;

pub(crate) enum Command {
    Pause {
        job: String,
        reply: Reply<Result<(), Error>>,
    },
    Resume {
        job: String,
        reply: Reply<Result<(), Error>>,
    },
    RunNow {
        job: String,
        reply: Reply<Result<(), Error>>,
    },
    Jobs {
        reply: Reply<Vec<JobStatus>>,
    },
    Shutdown {
        grace: Duration,
        reply: Reply<ShutdownReport>,
    },
}

impl Driver {
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Pause { job, reply } => {
                let _ = reply.send(self.with_job(&job, Self::pause));
            }
            Command::Resume { job, reply } => {
                let _ = reply.send(self.with_job(&job, Self::resume));
            }
            Command::RunNow { job, reply } => {
                let _ = reply.send(self.with_job(&job, Self::run_now));
            }
            Command::Jobs { reply } => {
                let _ = reply.send(self.entries.iter().map(super::Entry::status).collect());
            }
            // Handled by the loop before it gets here.
            Command::Shutdown { reply, .. } => drop(reply),
        }
    }

    fn with_job(&mut self, name: &str, act: impl FnOnce(&mut Self, JobId)) -> Result<(), Error> {
        let entries = &self.entries;
        let found = self
            .by_name
            .binary_search_by(|id| name_of(entries, *id).cmp(name));
        let Ok(index) = found else {
            let unknown = "this scheduler has no such job";
            return Err(Error::new(ErrorKind::InvalidInput, unknown).with_lock(name));
        };
        let id = self.by_name[index];
        self.isolated(id, |driver| act(driver, id));
        Ok(())
    }

    fn pause(&mut self, id: JobId) {
        let shared = self.shared.clone();
        let entry = self.entry(id);
        entry.paused = true;
        if !matches!(entry.plan, Plan::Begin(_)) {
            entry.plan = Plan::Nothing;
        }
        entry.give_up(MissedReason::Paused);
        let job = entry.job.clone();
        if let Some(pending) = entry
            .active
            .as_mut()
            .and_then(|active| active.pending.take())
        {
            let paused = TickEnd::Missed(MissedReason::Paused);
            shared.tell(&job, &pending, &paused);
        }
    }

    fn resume(&mut self, id: JobId) {
        let entry = self.entry(id);
        if !std::mem::take(&mut entry.paused) {
            return;
        }
        if let Plan::Begin(at) = entry.plan {
            // Its timer may have fired in the meantime.
            self.timers.set_running(at, id);
        } else {
            self.plan_again(id);
        }
    }
}
