//! One tick from its first attempt to its end.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use shedlock_core::{
    BoxFuture, CurrentLock, Error, ErrorKind, LockConfig, Moment, Outcome, Release, Skip,
    SkipReason, Slot, blocking, current_lock, with_executor, with_executor_blocking,
};
use tokio::sync::watch;

use super::Shared;
use super::due::{Due, Phase};
use crate::job::{BoxError, Task};
use crate::{Job, JobRun, MissedReason, TickEnd};
use shedlock_support::Backoff;

/// The shortest, first and longest pause between attempts of one tick. A pause never exceeds the
/// share below of the time between two slots, but is no shorter than the shortest pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const PAUSES_PER_PERIOD: u32 = 20;

/// Tries until the lock is won, the slot is taken, the tick is too late, or it must give up.
///
/// If the slot is taken but its lock is still held, it is tried once more, since the holder may
/// have given the slot back.
pub(super) async fn run(
    shared: Arc<Shared>,
    job: Arc<Job>,
    due: Due,
    mut phase: watch::Receiver<Phase>,
) -> TickEnd {
    let config = match due.slot {
        Some(slot) => job.config.clone().slot(slot),
        None => job.config.clone(),
    };
    let mut pauses = Pauses::of(&job, due.slot);
    let mut comes_back = true;
    loop {
        let unsuccessful = match attempt(&shared, &job, &config, &due, &phase).await {
            Attempted::End(end) | Attempted::Open(end) => return end,
            Attempted::Taken(skip) => {
                let may_be_given_back = std::mem::take(&mut comes_back)
                    && skip.last_slot == due.slot
                    && is_locked(&skip, shared.clock.system_time());
                if !may_be_given_back {
                    return TickEnd::Taken;
                }
                tokio::select! {
                    biased;
                    // Whatever the phase is then, the slot belongs to another replica.
                    _ = phase.wait_for(|phase| *phase != Phase::Go) => return TickEnd::Taken,
                    () = shared.clock.sleep_until(pauses.once(&shared, &job, &due)) => {}
                }
                if !shared.allows(&job, &due) {
                    return TickEnd::Taken;
                }
                continue;
            }
            Attempted::NotYet(end) => end,
        };
        tracing::debug!(job = job.name(), "{unsuccessful}, retrying");
        let wake = pauses.next(&shared, &unsuccessful);
        tokio::select! {
            biased;
            told = told_to_end(&mut phase) => return ended_by(told, unsuccessful),
            () = shared.clock.sleep_until(wake) => {}
        }
        if !shared.allows(&job, &due) {
            return unsuccessful;
        }
    }
}

/// The pauses between the attempts of one tick.
pub(super) struct Pauses(Backoff);

impl Pauses {
    pub(super) fn of(job: &Job, slot: Option<Slot>) -> Self {
        Self(Backoff::new(FIRST_PAUSE, longest_pause(job, slot)))
    }

    pub(super) fn reset(&mut self) {
        self.0.reset();
    }

    /// Returns when to try again after this attempt.
    pub(super) fn next(&mut self, shared: &Shared, unsuccessful: &TickEnd) -> Moment {
        let clock = &shared.clock;
        let free = time_until_free(unsuccessful, clock.system_time());
        clock.now() + self.0.take().min(free)
    }

    /// Returns when to try once more for a slot that is taken: late enough for a holder to find
    /// that it cannot run, and within the late limit.
    fn once(&self, shared: &Shared, job: &Job, due: &Due) -> Moment {
        let longest = self.0.longest();
        let oldest = shared.oldest_in_time(job);
        let left = oldest.map(|oldest| due.scheduled_at.duration_since(oldest).unwrap_or_default());
        let pause = left.map_or(longest, |left| longest.min(left / 2));
        shared.clock.now() + pause
    }
}

/// Returns whether the lock of a taken slot is still held according to this clock. If so, the slot
/// may still be given back.
fn is_locked(skip: &Skip, now: SystemTime) -> bool {
    skip.until.is_some_and(|until| until > now)
}

fn longest_pause(job: &Job, slot: Option<Slot>) -> Duration {
    let to_next = slot.and_then(|slot| {
        let next = job.schedule.next_after(slot.instant())?;
        next.instant().duration_since(slot.instant()).ok()
    });
    to_next.map_or(LONGEST_PAUSE, |to_next| {
        (to_next / PAUSES_PER_PERIOD).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    })
}

/// Returns how long the lock stays taken at most, as far as known. The clock is not fully trusted:
/// if it is ahead of the store's, it treats a future time as past, and then nothing is known.
fn time_until_free(unsuccessful: &TickEnd, now: SystemTime) -> Duration {
    match unsuccessful {
        TickEnd::Busy(Skip {
            until: Some(until), ..
        }) => until
            .duration_since(now)
            .map_or(Duration::MAX, |left| left.max(FIRST_PAUSE)),
        _ => Duration::MAX,
    }
}

/// Returns how a tick ends in this phase, if it has to end.
pub(super) fn end_by(phase: Phase) -> Option<TickEnd> {
    match phase {
        Phase::Go | Phase::MakeRoom => None,
        Phase::GiveUp(reason) => Some(TickEnd::Missed(reason)),
        Phase::Cut => Some(TickEnd::Missed(MissedReason::Shutdown)),
    }
}

async fn told_to_end(phase: &mut watch::Receiver<Phase>) -> TickEnd {
    let told = phase.wait_for(|phase| end_by(*phase).is_some()).await;
    // Without a driver there is nothing more to wait for.
    let told = told.map_or(Phase::Cut, |phase| *phase);
    end_by(told).unwrap_or(TickEnd::Missed(MissedReason::Shutdown))
}

/// Returns how a tick ends that has to end after this attempt. If a newer slot is due, the store has
/// failed as long as the tick could wait.
fn ended_by(told: TickEnd, unsuccessful: TickEnd) -> TickEnd {
    match (told, unsuccessful) {
        (TickEnd::Missed(MissedReason::Superseded), TickEnd::Failed(error)) => {
            TickEnd::Failed(error)
        }
        (told, _) => told,
    }
}

pub(super) enum Attempted {
    End(TickEnd),
    /// Another replica has taken the slot, or a later one.
    Taken(Skip),
    /// The task has returned and marked its slot as not done.
    Open(TickEnd),
    NotYet(TickEnd),
}

pub(super) async fn attempt(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    config: &LockConfig,
    due: &Due,
    phase: &watch::Receiver<Phase>,
) -> Attempted {
    let executor = &shared.executor;
    let outcome = match &job.task {
        Task::Future(task) => {
            let body = future_body(shared, job, due, phase.clone(), |started_at| {
                task(job_run(job, due, started_at))
            });
            executor.execute(config, body).await
        }
        Task::Blocking(_) => {
            let has_started = Arc::new(AtomicBool::new(false));
            let started = has_started.clone();
            let body = blocking_body(shared.clone(), job.clone(), *due, phase.clone(), started);
            tokio::select! {
                biased;
                () = cut(phase.clone()) => {
                    return Attempted::End(if has_started.load(Ordering::SeqCst) {
                        // The closure continues in the background, and keeps its lock until it
                        // ends.
                        TickEnd::Cut { unlocked: false }
                    } else {
                        TickEnd::Missed(MissedReason::Shutdown)
                    });
                }
                outcome = executor.execute_blocking(config, body) => outcome,
            }
        }
    };
    let attempted = attempted(outcome, job, due.slot);
    match &attempted {
        Attempted::NotYet(TickEnd::Failed(error)) => shared.warn_of(job, due, error),
        Attempted::End(TickEnd::Failed(_)) => {}
        _ => shared.failing.forget(job.name()),
    }
    attempted
}

/// Returns what the outcome means for the slot of the tick.
fn attempted(outcome: Result<Outcome<Body>, Error>, job: &Job, slot: Option<Slot>) -> Attempted {
    Attempted::End(match outcome {
        Ok(Outcome::Executed { value, release, .. }) if value.left_open() => {
            return Attempted::Open(ran(value, release));
        }
        Ok(Outcome::Executed { value, release, .. }) => ran(value, release),
        Ok(Outcome::Lost { value, reason, .. }) => TickEnd::Lost {
            reason,
            result: value.and_then(Body::result),
        },
        Ok(Outcome::Skipped(skip)) if needs_an_operator(&skip) => TickEnd::GivenUp(skip),
        Ok(Outcome::Skipped(skip)) if is_taken(job, &skip, slot) => {
            return Attempted::Taken(skip);
        }
        Ok(Outcome::Skipped(skip)) if slot.is_some() => {
            return Attempted::NotYet(TickEnd::Busy(skip));
        }
        Ok(Outcome::Skipped(skip)) => TickEnd::Busy(skip),
        Err(error) if slot.is_some() && may_pass(&error) => {
            return Attempted::NotYet(TickEnd::Failed(error));
        }
        Err(error) => TickEnd::Failed(error),
        Ok(_) => TickEnd::Failed(Error::new(
            ErrorKind::Internal,
            "the executor returned an outcome unknown to this scheduler",
        )),
    })
}

/// Returns true if no replica will run this slot, however often it is tried.
fn needs_an_operator(skip: &Skip) -> bool {
    matches!(
        skip.reason,
        SkipReason::SlotGivenUp | SkipReason::LastSlotAhead
    )
}

/// Returns true if the slot is taken. A later slot that was taken decides; the same slot may be
/// open.
fn is_taken(job: &Job, skip: &Skip, slot: Option<Slot>) -> bool {
    let passed = if job.runs_in_order() {
        skip.last_slot > slot
    } else {
        skip.last_slot >= slot
    };
    skip.reason == SkipReason::SlotTaken || (slot.is_some() && passed)
}

/// Returns true if the error may pass: if this clock is ahead of the store's, waiting helps, or
/// another replica takes the slot.
fn may_pass(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::SlotAhead
}

/// How the task itself ended, inside its lock.
enum Body {
    Ended {
        lateness: Duration,
        result: Result<(), BoxError>,
        /// The task has marked its slot as not done.
        left_open: bool,
    },
    Cut,
    /// An open slot was taken over after its late limit, and is given up.
    TooLate,
}

impl Body {
    /// Marks the slot of a failed task as failed, if it must not be lost.
    fn ended(lateness: Duration, result: Result<(), BoxError>) -> Self {
        let lock = current_lock();
        if let (Some(lock), Err(error)) = (&lock, &result) {
            lock.fail_with(Chain(&**error));
        }
        Self::Ended {
            lateness,
            result,
            left_open: lock.is_some_and(|lock| lock.leaves_slot_open()),
        }
    }

    /// Whether the task has marked its slot as not done.
    fn left_open(&self) -> bool {
        matches!(
            self,
            Self::Ended {
                left_open: true,
                ..
            }
        )
    }

    fn result(self) -> Option<Result<(), BoxError>> {
        match self {
            Self::Ended { result, .. } => Some(result),
            Self::Cut | Self::TooLate => None,
        }
    }
}

/// Runs the task, which a shutdown can cut from inside the lock. The lock is then given back in the
/// foreground, so that the shutdown can wait for it.
async fn future_body(
    shared: &Shared,
    job: &Job,
    due: &Due,
    phase: watch::Receiver<Phase>,
    task: impl FnOnce(SystemTime) -> BoxFuture<'static, Result<(), BoxError>>,
) -> Body {
    let started_at = shared.clock.system_time();
    if is_too_late(shared, job, due) {
        return Body::TooLate;
    }
    let lateness = lateness(due, started_at);
    let executor = shared.executor.clone();
    let has_started = AtomicBool::new(false);
    let task = with_executor(executor, async {
        has_started.store(true, Ordering::Relaxed);
        task(started_at).await
    });
    let task = shared.fate.inside(task);
    tokio::select! {
        biased;
        () = cut(phase) => {
            match current_lock() {
                Some(lock) if has_started.load(Ordering::Relaxed) => lock.leave_slot_open(),
                Some(lock) => lock.give_slot_back(),
                None => {}
            }
            Body::Cut
        }
        result = task => {
            Body::ended(lateness, result)
        }
    }
}

/// Runs a blocking task on a separate thread. Once it has started, nothing can cut it.
fn blocking_body(
    shared: Arc<Shared>,
    job: Arc<Job>,
    due: Due,
    phase: watch::Receiver<Phase>,
    has_started: Arc<AtomicBool>,
) -> impl FnOnce() -> Body + Send {
    move || {
        // In this order, so that a shutdown that sees no start can rely on it.
        has_started.store(true, Ordering::SeqCst);
        if *phase.borrow() == Phase::Cut {
            if let Some(lock) = current_lock() {
                lock.give_slot_back();
            }
            return Body::Cut;
        }
        let started_at = shared.clock.system_time();
        if is_too_late(&shared, &job, &due) {
            return Body::TooLate;
        }
        let run = job_run(&job, &due, started_at);
        let task = || match &job.task {
            Task::Blocking(task) => task(run),
            Task::Future(_) => Ok(()),
        };
        // This thread may block, so the task may also call locked blocking functions.
        let task = || with_executor_blocking(shared.executor.clone(), task);
        let result = shared.fate.inside_blocking(|| blocking::allow(task));
        Body::ended(lateness(&due, started_at), result)
    }
}

fn job_run(job: &Job, due: &Due, started_at: SystemTime) -> JobRun {
    describe(job, due);
    let lock = current_lock();
    JobRun {
        job: job.name().to_owned(),
        slot: due.slot,
        scheduled_at: due.scheduled_at,
        started_at,
        trigger: due.trigger,
        fencing_token: lock.as_ref().and_then(CurrentLock::fencing_token),
        slot_attempt: lock.as_ref().and_then(CurrentLock::slot_attempt),
    }
}

/// Adds what the scheduler knows to the span of the run, under OpenTelemetry's names.
fn describe(job: &Job, due: &Due) {
    if due.is_asked_for() {
        return;
    }
    let span = tracing::Span::current();
    span.record("faas.trigger", "timer");
    if let Some(expression) = job.schedule.cron_expression() {
        span.record("faas.cron", expression);
    }
}

fn lateness(due: &Due, started_at: SystemTime) -> Duration {
    let late = started_at.duration_since(due.scheduled_at);
    late.unwrap_or_default()
}

/// Only slots of jobs that run in order can be taken over after their limit.
fn is_too_late(shared: &Shared, job: &Job, due: &Due) -> bool {
    job.runs_in_order() && due.slot.is_some() && !shared.allows(job, due)
}

async fn cut(mut phase: watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::Cut).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn ran(body: Body, release: Release) -> TickEnd {
    match (body, release) {
        (Body::TooLate, _) => TickEnd::Missed(MissedReason::TooLate),
        (Body::Cut, release) => TickEnd::Cut {
            unlocked: matches!(release, Release::Released | Release::Reentrant),
        },
        (
            Body::Ended {
                lateness, result, ..
            },
            release,
        ) => TickEnd::Ran {
            lateness,
            result,
            unlock_error: match release {
                Release::Failed(error) => Some(error),
                _ => None,
            },
        },
    }
}

/// Shows an error together with its causes.
struct Chain<'a>(&'a (dyn StdError + Send + Sync));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}
