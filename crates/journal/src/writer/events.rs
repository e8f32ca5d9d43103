//! What a writer learns from an executor.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    Event, JobRegistration, Journal, Lease, Listener, LockProvider, LostReason, Recorder,
    RunRecord, Slot, TaskEnd,
};

use super::{JournalWriter, Locks, Shared, State, Success, Tracked};

impl Recorder for JournalWriter {
    fn journal(&self) -> &Arc<dyn Journal> {
        Self::journal(self)
    }

    fn note_locks(&self, provider: &Arc<dyn LockProvider>) {
        let locks = &mut self.0.state().locks;
        let other = match locks {
            Locks::None => {
                *locks = Locks::Unread(provider.clone());
                return;
            }
            Locks::Unread(known) => known.identity() != provider.identity(),
            Locks::Read(known, _) => *known != provider.identity(),
            Locks::Several => return,
        };
        if other {
            *locks = Locks::Several;
        }
    }

    fn has_job(&self, job: &str) -> bool {
        self.0.state().jobs.contains_key(job)
    }

    fn register(&self, registration: JobRegistration) {
        Self::register(self, registration);
    }

    fn dropped(&self) -> u64 {
        Self::dropped(self)
    }
}

impl Listener for JournalWriter {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::TaskStarted {
                lease,
                is_reentrant: false,
                ..
            } => {
                let now = self.0.settings.clock.system_time();
                let run = RunRecord::started(lease, now);
                let tracked = Tracked {
                    run: run.clone(),
                    is_lost: false,
                    succeeded: None,
                };
                let owner = lease.owner().clone();
                self.0.state().runs.insert(owner, tracked);
                self.0.push_run(run);
            }
            Event::TaskFinished {
                lease,
                is_reentrant: false,
                ran_for,
                end,
                ..
            } => self.0.finished(lease, *ran_for, *end),
            Event::Skipped { request, skip, .. } => {
                let now = self.0.settings.clock.system_time();
                let slot = request.slot;
                let at = slot.and_then(|slot| skip.taken_elsewhere(slot, now));
                if let (Some(slot), Some(at)) = (slot, at) {
                    if self.0.state().unregistered.remove(request.job()) {
                        self.0.push_registration(request.job());
                    }
                    self.0
                        .push_run(RunRecord::elsewhere(request, slot, skip, at));
                }
            }
            Event::Unlocked { lease, .. } | Event::UnlockFailed { lease, .. } => {
                let known = self.0.state().runs.remove(lease.owner());
                let Some(Tracked { run, succeeded, .. }) = known else {
                    return;
                };
                if let Some(success) = succeeded.filter(|it| !it.is_recorded) {
                    self.0.push_end(run, success.ran_for, TaskEnd::Succeeded);
                }
            }
            Event::Lost { lease, reason, .. } => self.0.lost(lease, *reason),
            _ => {}
        }
    }
}

impl Shared {
    /// The end of a run that succeeded is recorded with its unlock, which may find that its lease was lost.
    fn finished(self: &Arc<Self>, lease: &Lease, ran_for: Duration, end: TaskEnd<'_>) {
        let owner = lease.owner();
        let mut state = self.state();
        let known = state.runs.get_mut(owner);
        let known = known.filter(|known| !known.is_lost);
        if let (TaskEnd::Succeeded, Some(known)) = (end, known) {
            known.succeeded = Some(Success {
                ran_for,
                is_recorded: false,
            });
            return;
        }
        let known = state.runs.remove(owner).map(|known| known.run);
        drop(state);
        let now = self.settings.clock.system_time();
        let run = known.unwrap_or_else(|| RunRecord::started(lease, now));
        self.push_end(run, ran_for, end);
    }

    fn lost(self: &Arc<Self>, lease: &Lease, reason: LostReason) {
        let owner = lease.owner();
        let mut state = self.state();
        let Some(known) = state.runs.get_mut(owner) else {
            return;
        };
        known.is_lost = true;
        let Some(success) = known.succeeded else {
            // Its end follows.
            return;
        };
        let run = known.run.clone();
        state.runs.remove(owner);
        drop(state);
        self.push_end(run, success.ran_for, reason.into());
    }
}

impl State {
    /// The next slot and the deadline of a run's job, if it succeeds.
    pub(super) fn next_after(&self, run: &RunRecord) -> Option<(Slot, SystemTime)> {
        let after = run.slot.map_or(run.started, Slot::instant);
        self.jobs.get(&run.job)?.next_after(after)
    }
}
