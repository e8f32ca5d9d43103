//! The single task that holds all jobs and fires those that are due.

mod clocks;
mod command;
mod drain;
mod due;
mod ended;
mod entry;
mod failing;
mod in_order;
mod isolation;
mod missed;
mod panics;
mod run;
mod shared;
mod timers;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Error, ErrorKind, Moment, Slot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{self, JoinSet};

pub(crate) use command::Command;
use due::{Due, Phase};
use entry::{Active, Entry, Plan};
pub(crate) use failing::Failing;
use missed::{LastSlot, Questions};
pub(crate) use shared::Shared;
use timers::{JobId, Timers};

use crate::{Job, MissedReason, ShutdownReport, TickEnd, Trigger};

pub(crate) struct Driver {
    shared: Arc<Shared>,
    entries: Vec<Entry>,
    /// Jobs sorted by name.
    by_name: Box<[JobId]>,
    timers: Timers,
    sleep: Option<(Moment, BoxFuture<'static, ()>)>,
    /// A run has no end if it yielded to a requested run and continues after it.
    runs: JoinSet<Option<(Due, TickEnd)>>,
    jobs_of_runs: HashMap<task::Id, JobId>,
    questions: Questions,
    commands: mpsc::UnboundedReceiver<Command>,
    has_handles: bool,
    /// The readings of both clocks when they were last read.
    seen: (Moment, SystemTime),
    unstarted: std::ops::Range<JobId>,
    panics_in_a_row: u32,
}

/// How many timers of each kind are handled in one round. This limits how long other events (a
/// command, a run that has ended) wait, however many timers are due.
const ROUND: usize = 128;

/// How many slots that a newer one supersedes after a long sleep are reported as separate ticks.
const MOST_SUPERSEDED: usize = 100;

/// The resolution of slots.
const MICRO: Duration = Duration::from_micros(1);

impl Driver {
    pub(crate) fn new(
        shared: Shared,
        jobs: Vec<Job>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Result<Self, Error> {
        let count = JobId::try_from(jobs.len()).map_err(|_| {
            let many = "too many jobs for one scheduler";
            Error::new(ErrorKind::InvalidInput, many)
        })?;
        let entries: Vec<Entry> = jobs.into_iter().map(Entry::new).collect();
        let mut by_name: Box<[JobId]> = (0..count).collect();
        by_name.sort_by(|a, b| name_of(&entries, *a).cmp(name_of(&entries, *b)));
        let seen = (shared.clock.now(), shared.clock.system_time());
        Ok(Self {
            shared: Arc::new(shared),
            entries,
            by_name,
            timers: Timers::default(),
            sleep: None,
            runs: JoinSet::new(),
            jobs_of_runs: HashMap::new(),
            questions: Questions::default(),
            commands,
            has_handles: true,
            seen,
            unstarted: 0..count,
            panics_in_a_row: 0,
        })
    }

    /// Drives the jobs until a shutdown is requested.
    async fn drive(&mut self) -> (Duration, oneshot::Sender<ShutdownReport>) {
        while let Some(id) = self.unstarted.next() {
            self.isolated(id, |driver| driver.start(id));
        }
        loop {
            self.look_at_clocks();
            let is_more_due = self.fire();
            self.set_sleep();
            self.panics_in_a_row = 0;
            let sleep = self.sleep.as_mut().map(|(_, sleep)| sleep);
            tokio::select! {
                biased;
                command = self.commands.recv(), if self.has_handles => match command {
                    Some(Command::Shutdown { grace, reply }) => return (grace, reply),
                    Some(command) => self.obey(command),
                    None => self.has_handles = false,
                },
                Some(ended) = self.runs.join_next_with_id() => self.ended(ended),
                answer = self.questions.next(&self.shared), if !self.questions.is_empty() => {
                    if let Some((id, last)) = answer {
                        self.isolated(id, |driver| driver.answered(id, last));
                    }
                }
                () = tokio::task::yield_now(), if is_more_due => {}
                () = sleep_or_never(sleep), if !is_more_due => self.sleep = None,
            }
        }
    }

    /// Plans a job for the first time.
    fn start(&mut self, id: JobId) {
        match self.entry(id).job.initial_delay {
            Some(delay) if !delay.is_zero() => {
                let at = self.shared.clock.now() + delay;
                self.entry(id).plan = Plan::Begin(at);
                self.timers.set_running(at, id);
            }
            delay => self.begin(id, delay.is_some()),
        }
    }

    /// Begins a job after its initial delay, or at once if it has none.
    fn begin(&mut self, id: JobId, was_delayed: bool) {
        let now = self.shared.clock.system_time();
        let entry = self.entry(id);
        let job = entry.job.clone();
        let trigger = if job.run_at_start {
            Trigger::Start
        } else {
            Trigger::Schedule
        };
        if job.schedule.delay().is_some() {
            if job.run_at_start || was_delayed {
                self.tick(id, Due::without_slot(now, trigger));
            } else {
                self.plan_delay(id);
            }
            return;
        }
        // A slot at this very instant is not in the past.
        self.plan_slot(id, earlier(now, MICRO));
        let Some(newest) = job.schedule.slot_at(now, Duration::ZERO) else {
            return;
        };
        if job.run_at_start {
            self.tick(id, Due::of_slot(newest, trigger));
        } else if job.runs_in_order() || job.late.allows(newest, now, job.jitter) {
            self.questions.add(&self.shared, id, job);
        }
    }

    /// Handles the last slot that the store reported. A job that never ran has missed none.
    fn answered(&mut self, id: JobId, last: Option<LastSlot>) {
        let now = self.shared.clock.system_time();
        let entry = self.entry(id);
        let used_up = last.filter(|last| {
            // A slot far ahead comes from a wrong clock, and an operator will reset it in the
            // store.
            let is_ahead = last.slot.instant() > later(now, Slot::DEFAULT_TOLERANCE);
            let is_open = last.is_open && entry.job.runs_in_order();
            !is_ahead && !is_open
        });
        entry.decide(used_up.map(|last| last.slot));
        if last.is_none() || entry.paused {
            return;
        }
        let job = entry.job.clone();
        let Some(newest) = job.schedule.slot_at(now, Duration::ZERO) else {
            return;
        };
        // A slot that its timer is already set for is late only by jitter.
        let planned = matches!(entry.plan, Plan::Slot { slot, .. } if slot <= newest);
        if !planned {
            self.tick(id, Due::of_slot(newest, Trigger::Missed));
        }
    }

    /// Fires what is due according to the last clock readings. Returns true if there may be more.
    fn fire(&mut self) -> bool {
        let (now, calendar) = self.seen;
        for _ in 0..ROUND {
            let running = self.timers.pop_running(now);
            let by_calendar = self.timers.pop_calendar(calendar);
            if running.is_none() && by_calendar.is_none() {
                return false;
            }
            if let Some((at, id)) = running {
                self.isolated(id, |driver| driver.moment_has_come(id, at));
            }
            if let Some((at, id)) = by_calendar {
                self.isolated(id, |driver| match driver.entry(id).plan {
                    Plan::Slot { slot, at: planned } if planned == at => {
                        driver.slot_is_due(id, slot);
                    }
                    _ => {}
                });
            }
        }
        true
    }

    fn moment_has_come(&mut self, id: JobId, at: Moment) {
        let entry = self.entry(id);
        match entry.plan {
            // It begins when it is resumed.
            Plan::Begin(_) if entry.paused => {}
            Plan::Begin(planned) if planned == at => {
                entry.plan = Plan::Nothing;
                self.begin(id, true);
            }
            Plan::Again(planned) if planned == at => {
                entry.plan = Plan::Nothing;
                self.plan_again(id);
            }
            Plan::Delay {
                at: planned,
                calendar,
            } if planned == at => {
                entry.plan = Plan::Nothing;
                self.tick(id, Due::without_slot(calendar, Trigger::Schedule));
            }
            _ => {}
        }
    }

    fn slot_is_due(&mut self, id: JobId, slot: Slot) {
        let (_, now) = self.seen;
        let job = self.entry(id).job.clone();
        match job.schedule.slot_at(now, Duration::ZERO) {
            Some(newest) if newest > slot => {
                // This node slept past one or more slots. The newest one counts. A job that must
                // not lose any begins with the oldest.
                if !job.runs_in_order() {
                    self.tell_superseded(&job, slot, newest);
                }
                self.plan_slot(id, earlier(newest.instant(), MICRO));
            }
            _ => {
                self.plan_slot(id, slot.instant());
                self.tick(id, Due::of_slot(slot, Trigger::Schedule));
            }
        }
    }

    /// Reports each slot from the first to the newest one that is due, up to the limit for
    /// observers.
    fn tell_superseded(&self, job: &Job, first: Slot, newest: Slot) {
        let mut slot = first;
        for _ in 0..MOST_SUPERSEDED {
            let due = Due::of_slot(slot, Trigger::Schedule);
            let missed = TickEnd::Missed(MissedReason::Superseded);
            self.shared.tell(job, &due, &missed);
            match job.schedule.next_after(slot.instant()) {
                Some(next) if next < newest => slot = next,
                _ => return,
            }
        }
        tracing::warn!(
            job = job.name(),
            after = tracing::field::display(slot),
            until = tracing::field::display(newest),
            "skipped more slots in favor of the newest one"
        );
    }

    /// Handles a tick that is due: runs it, or lets it wait for the run in progress.
    fn tick(&mut self, id: JobId, due: Due) {
        let shared = self.shared.clone();
        let entry = self.entry(id);
        let job = entry.job.clone();
        if due.slot.is_some_and(|slot| entry.is_decided(slot)) {
            return;
        }
        if !shared.allows(&job, &due) {
            shared.tell(&job, &due, &TickEnd::Missed(MissedReason::TooLate));
            return;
        }
        let Some(active) = &mut entry.active else {
            self.launch(id, due);
            return;
        };
        let is_newer = |than: &Due| due.slot.is_none() || due.slot > than.slot;
        // A tick that has been made to give up may still have a request in progress, and its slot
        // can come again.
        let comes_again = due.slot == active.due.slot && *active.phase.borrow() != Phase::Go;
        let is_newest = active.pending.as_ref().is_none_or(is_newer);
        if !is_newest || !(is_newer(&active.due) || comes_again) {
            return;
        }
        let older = active.pending.replace(due);
        if job.runs_in_order() {
            // The active tick continues to the newest one when its own slot is done.
            return;
        }
        if let Some(older) = older {
            shared.tell(&job, &older, &TickEnd::Missed(MissedReason::Superseded));
        }
        entry.give_up(MissedReason::Superseded);
    }

    fn launch(&mut self, id: JobId, due: Due) {
        let (phase, heard) = watch::channel(Phase::Go);
        let shared = self.shared.clone();
        let entry = self.entry(id);
        let job = entry.job.clone();
        if job.schedule.delay().is_some() {
            // The delay counts from the end of this run.
            entry.plan = Plan::Nothing;
        }
        entry.active = Some(Box::new(Active {
            due,
            phase,
            pending: None,
            run_now: false,
        }));
        let run: BoxFuture<'static, _> = if job.runs_in_order() && due.slot.is_some() {
            Box::pin(in_order::run(shared, job, due, heard))
        } else {
            let run = run::run(shared, job, due, heard);
            Box::pin(async move { Some((due, run.await)) })
        };
        let handle = self.runs.spawn(run);
        self.jobs_of_runs.insert(handle.id(), id);
    }

    /// Runs a job outside its schedule.
    fn run_now(&mut self, id: JobId) {
        let now = self.shared.clock.system_time();
        match &mut self.entry(id).active {
            Some(active) => {
                active.run_now = true;
                active.phase.send_if_modified(|phase| {
                    let goes = *phase == Phase::Go;
                    if goes {
                        *phase = Phase::MakeRoom;
                    }
                    goes
                });
            }
            None => self.launch(id, Due::without_slot(now, Trigger::Now)),
        }
    }

    /// Sets a job's timer for its first slot after this instant.
    fn plan_slot(&mut self, id: JobId, after: SystemTime) {
        let shared = self.shared.clone();
        let entry = self.entry(id);
        let Some(slot) = entry.job.schedule.next_after(after) else {
            entry.plan = Plan::Nothing;
            return;
        };
        let at = shared.start_of(&entry.job, slot);
        entry.plan = Plan::Slot { slot, at };
        self.timers.set_calendar(at, id);
        self.forget_stale_timers();
    }

    /// Sets a job's timer to one delay from now.
    fn plan_delay(&mut self, id: JobId) {
        let clock = self.shared.clock.clone();
        let entry = self.entry(id);
        let delay = entry.job.schedule.delay().unwrap_or_default();
        let at = clock.now() + delay;
        entry.plan = Plan::Delay {
            at,
            calendar: later(clock.system_time(), delay),
        };
        self.timers.set_running(at, id);
        self.forget_stale_timers();
    }

    /// Plans a job that has begun, from now on. What is left of a job that must not be lost is not
    /// left until its next slot.
    fn plan_again(&mut self, id: JobId) {
        let now = self.shared.clock.system_time();
        let entry = self.entry(id);
        let job = entry.job.clone();
        if job.schedule.delay().is_none() {
            self.plan_slot(id, now);
        } else if entry.active.is_none() {
            self.plan_delay(id);
        }
        if job.runs_in_order() {
            self.questions.renew(&self.shared, id, job);
        }
    }

    /// Rebuilds the timers when most of them are stale. This only happens if a caller triggers
    /// planning repeatedly.
    fn forget_stale_timers(&mut self) {
        if self.timers.len() <= 2 * self.entries.len() + 64 {
            return;
        }
        self.timers.clear();
        for (id, entry) in (0..).zip(&self.entries) {
            match entry.plan {
                Plan::Nothing => {}
                Plan::Begin(at) | Plan::Again(at) | Plan::Delay { at, .. } => {
                    self.timers.set_running(at, id);
                }
                Plan::Slot { at, .. } => self.timers.set_calendar(at, id),
            }
        }
    }

    fn set_sleep(&mut self) {
        let clock = &self.shared.clock;
        let wake = self
            .timers
            .next_wake(clock.now(), clock.system_time(), self.shared.clock_check);
        let Some(wake) = wake else {
            self.sleep = None;
            return;
        };
        if self
            .sleep
            .as_ref()
            .is_none_or(|(set_for, _)| *set_for != wake)
        {
            self.sleep = Some((wake, clock.sleep_until(wake)));
        }
    }

    fn entry(&mut self, id: JobId) -> &mut Entry {
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        &mut self.entries[index]
    }
}

fn name_of(entries: &[Entry], id: JobId) -> &str {
    let index = usize::try_from(id).unwrap_or(usize::MAX);
    entries[index].job.name()
}

async fn sleep_or_never(sleep: Option<&mut BoxFuture<'static, ()>>) {
    match sleep {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// Adds the duration, or returns the instant unchanged if the result is beyond the calendar.
fn later(instant: SystemTime, by: Duration) -> SystemTime {
    instant.checked_add(by).unwrap_or(instant)
}

/// Subtracts the duration, or returns the instant unchanged if the result is before the calendar.
fn earlier(instant: SystemTime, by: Duration) -> SystemTime {
    instant.checked_sub(by).unwrap_or(instant)
}
