//! The shutdown.

use std::time::Duration;

use shedlock_core::Moment;
use tokio::sync::oneshot;

use super::due::Phase;
use super::ended::RunEnded;
use super::{Command, Driver, Plan};
use crate::{MissedReason, ShutdownReport, StoppedRun, TickEnd};

/// How long a store may take to unlock the locks of runs that were cut.
const RELEASE_TIME: Duration = Duration::from_secs(10);

/// How long the runs are waited for.
#[derive(Clone, Copy)]
enum Limit {
    /// Until they are cut.
    Grace(Moment),
    /// Until their locks are given up.
    Release(Moment),
}

impl Limit {
    fn moment(self) -> Moment {
        let (Self::Grace(moment) | Self::Release(moment)) = self;
        moment
    }

    /// Shortens the grace period for another shutdown. Unlocking gets its whole time.
    fn bring_forward(&mut self, to: Moment) {
        if let Self::Grace(moment) = self {
            *moment = to.min(*moment);
        }
    }
}

impl Driver {
    /// Stops firing, waits for the runs in progress, then cuts them.
    pub(super) async fn drain(mut self, grace: Duration, reply: oneshot::Sender<ShutdownReport>) {
        tracing::info!(runs = self.runs.len(), grace = ?grace, "shutting down");
        self.stop_firing();
        let mut replies = vec![reply];
        let mut report = ShutdownReport::default();

        let grace = Limit::Grace(self.shared.clock.now() + grace);
        self.wait(grace, &mut replies, &mut report).await;
        for entry in &self.entries {
            if let Some(active) = &entry.active {
                let job = entry.job.name();
                tracing::warn!(job, "the grace period is over: stopping the run");
                active.phase.send_replace(Phase::Cut);
            }
        }
        let release = Limit::Release(self.shared.clock.now() + RELEASE_TIME);
        self.wait(release, &mut replies, &mut report).await;
        self.runs.abort_all();
        while let Some(ended) = self.runs.join_next_with_id().await {
            self.note(ended, &mut report);
        }

        tracing::info!(
            finished = report.finished.len(),
            cut = report.cut.len(),
            "shut down"
        );
        // Set before any reply is sent, so that later callers get the same report.
        let report = self.shared.fate.report.get_or_init(|| report);
        for reply in replies {
            let _ = reply.send(report.clone());
        }
    }

    fn stop_firing(&mut self) {
        self.timers.clear();
        self.questions.stop();
        let shared = self.shared.clone();
        for entry in &mut self.entries {
            entry.plan = Plan::Nothing;
            entry.give_up(MissedReason::Shutdown);
            let job = entry.job.clone();
            if let Some(pending) = entry
                .active
                .as_mut()
                .and_then(|active| active.pending.take())
            {
                let missed = TickEnd::Missed(MissedReason::Shutdown);
                shared.tell(&job, &pending, &missed);
            }
        }
    }

    /// Waits until no run is left or the limit has passed.
    async fn wait(
        &mut self,
        mut limit: Limit,
        replies: &mut Vec<oneshot::Sender<ShutdownReport>>,
        report: &mut ShutdownReport,
    ) {
        let mut has_handles = true;
        while !self.runs.is_empty() && self.shared.clock.now() < limit.moment() {
            tokio::select! {
                biased;
                command = self.commands.recv(), if has_handles => match command {
                    Some(Command::Shutdown { grace, reply }) => {
                        replies.push(reply);
                        limit.bring_forward(self.shared.clock.now() + grace);
                    }
                    // Their replies are dropped, which their callers notice.
                    Some(_) => {}
                    None => has_handles = false,
                },
                Some(ended) = self.runs.join_next_with_id() => self.note(ended, report),
                () = self.shared.clock.sleep_until(limit.moment()) => {}
            }
        }
    }

    fn note(&mut self, ended: RunEnded, report: &mut ShutdownReport) {
        let Some((id, active, end)) = self.taken_off(ended) else {
            return;
        };
        let end = end.unwrap_or(TickEnd::Missed(MissedReason::Shutdown));
        self.conclude(id, &active, &end);
        let unlocked = match &end {
            TickEnd::Ran { unlock_error, .. } => unlock_error.is_none(),
            TickEnd::Cut { unlocked } => *unlocked,
            TickEnd::Panicked => true,
            _ => false,
        };
        let stopped = StoppedRun {
            job: self.entry(id).job.name().to_owned(),
            slot: active.due.slot,
            trigger: active.due.trigger,
            unlocked,
        };
        if matches!(end, TickEnd::Cut { .. }) {
            report.cut.push(stopped);
        } else if end.has_started() {
            report.finished.push(stopped);
        }
    }
}
