//! The one task that holds all jobs and fires what is due.

mod command;
mod drain;
mod due;
mod entry;
mod in_order;
mod missed;
mod panics;
mod run;
mod shared;
mod timers;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Error, ErrorKind, Moment, Slot};
use tokio::sync::{mpsc, watch};
use tokio::task::{self, JoinError, JoinSet};

pub(crate) use command::Command;
use due::{Due, Phase};
use entry::{Active, Entry, Plan};
use missed::{LastSlot, Questions};
pub(crate) use shared::Shared;
use timers::{JobId, Timers};

use crate::{Job, MissedReason, Overlap, ShutdownReport, TickEnd, Trigger};

pub(crate) struct Driver {
    shared: Arc<Shared>,
    entries: Vec<Entry>,
    /// Jobs in the order of their names.
    by_name: Box<[JobId]>,
    timers: Timers,
    sleep: Option<(Moment, BoxFuture<'static, ()>)>,
    runs: JoinSet<TickEnd>,
    jobs_of_runs: HashMap<task::Id, JobId>,
    questions: Questions,
    commands: mpsc::UnboundedReceiver<Command>,
    report: Arc<OnceLock<ShutdownReport>>,
    /// What both clocks showed when they were last looked at.
    seen: (Moment, SystemTime),
}

/// A calendar that falls behind the running clock by more than this, between two looks, was set
/// back. Falling behind more slowly is what time servers do to clocks that run fast.
const SET_BACK: Duration = Duration::from_millis(100);

impl Driver {
    pub(crate) fn new(
        shared: Shared,
        jobs: Vec<Job>,
        commands: mpsc::UnboundedReceiver<Command>,
        report: Arc<OnceLock<ShutdownReport>>,
    ) -> Result<Self, Error> {
        let count = JobId::try_from(jobs.len()).map_err(|_| {
            let many = "there are more jobs than this scheduler can count";
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
            report,
            seen,
        })
    }

    pub(crate) async fn run(mut self) {
        for id in 0..self.entries.len() {
            self.start(JobId::try_from(id).unwrap_or(JobId::MAX));
        }
        let mut has_handles = true;
        loop {
            self.look_at_clocks();
            self.fire();
            self.set_sleep();
            let sleep = self.sleep.as_mut().map(|(_, sleep)| sleep);
            tokio::select! {
                biased;
                command = self.commands.recv(), if has_handles => match command {
                    Some(Command::Shutdown { grace, reply }) => {
                        return self.drain(grace, reply).await;
                    }
                    Some(command) => self.obey(command),
                    None => has_handles = false,
                },
                Some(ended) = self.runs.join_next_with_id() => self.ended(ended),
                answer = self.questions.next(&self.shared), if !self.questions.is_empty() => {
                    if let Some((id, last)) = answer {
                        self.answered(id, last);
                    }
                }
                () = sleep_or_never(sleep) => self.sleep = None,
            }
        }
    }

    /// Plans a job for the first time.
    fn start(&mut self, id: JobId) {
        match self.entry(id).job.first_delay() {
            Some(delay) if !delay.is_zero() => {
                let at = self.shared.clock.now() + delay;
                self.entry(id).plan = Plan::Begin(at);
                self.timers.set_running(at, id);
            }
            delay => self.begin(id, delay.is_some()),
        }
    }

    /// The initial delay is over, or there was none.
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
        // A slot of this very instant is not in the past.
        self.plan_slot(id, now - Duration::from_micros(1));
        let Some(newest) = job.schedule.slot_at(now, Duration::ZERO) else {
            return;
        };
        if job.run_at_start {
            self.tick(id, Due::of_slot(newest, trigger));
        } else if job.runs_in_order() || job.late.allows(newest, now, job.jitter_or_zero()) {
            self.questions.add(&self.shared, id, job);
        }
    }

    /// The store has told which slot was the last; a job that never ran has missed none.
    fn answered(&mut self, id: JobId, last: Option<LastSlot>) {
        let now = self.shared.clock.system_time();
        let entry = self.entry(id);
        let used_up = last.filter(|last| {
            // A slot far ahead is a wrong clock's, which somebody will reset in the store.
            let is_ahead = last.slot.instant() > now + Slot::DEFAULT_TOLERANCE;
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
        // What its timer is set for is late by jitter only.
        let planned = matches!(entry.plan, Plan::Slot { slot, .. } if slot <= newest);
        if !planned {
            self.tick(id, Due::of_slot(newest, Trigger::Missed));
        }
    }

    /// Notices a calendar that was set back, and plans the slots that come again.
    ///
    /// They may have run already: then their slots are taken, and known to be. Or the store refused
    /// them as too far ahead: then this is their time. A calendar that was set forward needs
    /// nothing: what has passed is due.
    fn look_at_clocks(&mut self) {
        let clock = &self.shared.clock;
        let (now, calendar) = (clock.now(), clock.system_time());
        let (then, calendar_then) = self.seen;
        self.seen = (now, calendar);
        let expected = calendar_then + now.saturating_since(then);
        if calendar + SET_BACK >= expected {
            return;
        }
        tracing::warn!("the system's calendar was set back: planning anew");
        for id in 0..self.entries.len() {
            let id = JobId::try_from(id).unwrap_or(JobId::MAX);
            self.drop_future_ticks(id, calendar);
            let entry = self.entry(id);
            let Plan::Slot { slot: planned, .. } = entry.plan else {
                continue;
            };
            let from = entry
                .decided
                .map_or(calendar, |slot| slot.instant().max(calendar));
            let next = entry.job.schedule.next_after(from);
            if next.is_some_and(|next| next < planned) {
                self.plan_slot(id, from);
            }
        }
    }

    /// Gives up ticks that still wait, and whose time is now to come again.
    fn drop_future_ticks(&mut self, id: JobId, calendar: SystemTime) {
        let shared = self.shared.clone();
        let entry = self.entry(id);
        let is_future = |due: &Due| due.slot.is_some_and(|slot| slot.instant() > calendar);
        let Some(active) = &mut entry.active else {
            return;
        };
        if let Some(pending) = active.pending.take_if(|due| is_future(due)) {
            let set_back = TickEnd::Missed(MissedReason::SetBack);
            shared.tell(&entry.job, &pending, &set_back);
        }
        if is_future(&active.due) {
            entry.give_up(MissedReason::SetBack);
        }
    }

    /// Fires all that is due.
    fn fire(&mut self) {
        while let Some((at, id)) = self.timers.pop_running(self.shared.clock.now()) {
            let entry = self.entry(id);
            match entry.plan {
                Plan::Begin(planned) if planned == at => {
                    entry.plan = Plan::Nothing;
                    self.begin(id, true);
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
        while let Some((at, id)) = self.timers.pop_calendar(self.shared.clock.system_time()) {
            match self.entry(id).plan {
                Plan::Slot { slot, at: planned } if planned == at => self.slot_is_due(id, slot),
                _ => {}
            }
        }
    }

    fn slot_is_due(&mut self, id: JobId, slot: Slot) {
        let now = self.shared.clock.system_time();
        let job = self.entry(id).job.clone();
        let due = Due::of_slot(slot, Trigger::Schedule);
        match job.schedule.slot_at(now, Duration::ZERO) {
            Some(newest) if newest > slot => {
                // This node slept over a slot, or more: the newest one counts, and where none may be
                // lost, it begins with the oldest.
                if !job.runs_in_order() {
                    let missed = TickEnd::Missed(MissedReason::Superseded);
                    self.shared.tell(&job, &due, &missed);
                }
                self.plan_slot(id, newest.instant() - Duration::from_micros(1));
            }
            _ => {
                self.plan_slot(id, slot.instant());
                self.tick(id, due);
            }
        }
    }

    /// A tick has come: it is run, or waits for the run that is going on.
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
        // A tick that was told to give up may still be asking the store: its slot can come again.
        let comes_again = due.slot == active.due.slot && *active.phase.borrow() != Phase::Go;
        let is_newest = active.pending.as_ref().is_none_or(is_newer);
        if !is_newest || !(is_newer(&active.due) || comes_again) {
            return;
        }
        let older = active.pending.replace(due);
        if job.runs_in_order() {
            // It goes on to the newest one when it is done with its own.
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
            // It counts from the end of this run.
            entry.plan = Plan::Nothing;
        }
        entry.active = Some(Box::new(Active {
            due,
            phase,
            pending: None,
            run_now: false,
        }));
        let handle = if job.runs_in_order() && due.slot.is_some() {
            self.runs.spawn(in_order::run(shared, job, due, heard))
        } else {
            self.runs.spawn(run::run(shared, job, due, heard))
        };
        self.jobs_of_runs.insert(handle.id(), id);
    }

    /// A run is over: its pending tick follows.
    fn ended(&mut self, ended: Result<(task::Id, TickEnd), JoinError>) {
        let Some((id, active, end)) = self.conclude(ended) else {
            return;
        };
        let entry = self.entry(id);
        let job = entry.job.clone();
        let paused = entry.paused;
        if job.schedule.delay().is_some() && !paused {
            self.plan_delay(id);
        }
        if active.run_now {
            self.run_now(id);
        }
        let Some(pending) = active.pending else {
            return;
        };
        let entry = self.entry(id);
        let is_over = pending.slot.is_some_and(|slot| entry.is_decided(slot));
        let skips = job.overlap == Overlap::Skip && !job.runs_in_order();
        if end.has_started() && skips && !is_over {
            let missed = TickEnd::Missed(MissedReason::Overlap);
            self.shared.tell(&job, &pending, &missed);
        } else {
            self.tick(id, pending);
        }
    }

    /// Takes a run that is over off the table, and tells what became of it.
    fn conclude(
        &mut self,
        ended: Result<(task::Id, TickEnd), JoinError>,
    ) -> Option<(JobId, Active, TickEnd)> {
        let (task, end) = match ended {
            Ok((task, end)) => (task, end),
            Err(error) if error.is_panic() => (error.id(), TickEnd::Panicked),
            Err(error) => (error.id(), TickEnd::Cut { unlocked: false }),
        };
        let id = self.jobs_of_runs.remove(&task)?;
        let shared = self.shared.clone();
        let entry = self.entry(id);
        let active = *entry.active.take()?;
        if end.is_decided() {
            entry.decide(active.due.slot);
        }
        shared.tell(&entry.job, &active.due, &end);
        Some((id, active, end))
    }

    /// Runs a job outside its schedule.
    fn run_now(&mut self, id: JobId) {
        let now = self.shared.clock.system_time();
        match &mut self.entry(id).active {
            Some(active) => active.run_now = true,
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

    /// Sets a job's timer for one delay from now.
    fn plan_delay(&mut self, id: JobId) {
        let clock = self.shared.clock.clone();
        let entry = self.entry(id);
        let delay = entry.job.schedule.delay().unwrap_or_default();
        let at = clock.now() + delay;
        entry.plan = Plan::Delay {
            at,
            calendar: clock.system_time() + delay,
        };
        self.timers.set_running(at, id);
        self.forget_stale_timers();
    }

    /// Rebuilds the timers when most of them are stale, which only planning anew by hand, again and
    /// again, brings about.
    fn forget_stale_timers(&mut self) {
        if self.timers.len() <= 2 * self.entries.len() + 64 {
            return;
        }
        self.timers.clear();
        for (id, entry) in (0..).zip(&self.entries) {
            match entry.plan {
                Plan::Nothing => {}
                Plan::Begin(at) | Plan::Delay { at, .. } => self.timers.set_running(at, id),
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
