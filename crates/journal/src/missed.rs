//! The slots of a job that had no run.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    AuditRecord, AuditRequest, Error, JobRecord, Journal, RunRecord, RunsRequest, Slot,
};

/// How many slots of a job had no run of ours in the journal, by reason.
///
/// ```
/// use shedlock::{JobRecord, MemoryJournal, missed_slots};
/// use std::time::{Duration, SystemTime};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let journal = MemoryJournal::new();
/// let now = SystemTime::now();
/// let job = JobRecord::new("payroll", now);
/// let hourly = |_: &JobRecord, after: SystemTime| after.checked_add(Duration::from_secs(3_600));
/// // It has no schedule, so it has no slots.
/// assert_eq!(missed_slots(&journal, &job, now, hourly).await?, None);
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedSlots {
    /// An operator had paused the job.
    pub paused: u32,
    /// An earlier run still had the lock.
    pub held: u32,
    /// ShedLock for Java took the slot: how its run ended is not known.
    pub elsewhere: u32,
    /// No replica was running, or none started it within its late limit.
    pub not_started: u32,
}

impl MissedSlots {
    /// Returns the number for each reason, as metrics and JSON name it.
    pub fn by_reason(&self) -> [(&'static str, u32); 4] {
        [
            ("paused", self.paused),
            ("held", self.held),
            ("elsewhere", self.elsewhere),
            ("not_started", self.not_started),
        ]
    }
}

/// Slots before that are not counted.
const WINDOW: Duration = Duration::from_secs(86_400);

/// How many of the latest runs are read. If there are more, only slots since the first of them count.
const RUNS: usize = 100;

/// More slots without a run are not counted.
const SLOTS: usize = 1_000;

/// Counts the slots of the last 24 hours that had no run, at most those since the job's 100th latest
/// run. Returns `None` if the job has no schedule. A slot counts once a run of it would be overdue.
///
/// `next` returns the first slot after an instant. The scheduler has such a function:
/// `shedlock::scheduler::next_slot`. Nothing is written: a slot without a run has no entry.
///
/// # Errors
/// Those of the journal.
pub async fn missed_slots(
    journal: &dyn Journal,
    job: &JobRecord,
    now: SystemTime,
    next: impl Fn(&JobRecord, SystemTime) -> Option<SystemTime>,
) -> Result<Option<MissedSlots>, Error> {
    let (Some(slot), Some(deadline)) = (job.next_slot, job.deadline) else {
        return Ok(None);
    };
    if job.schedule.is_none() || job.expected_period().is_some() {
        return Ok(None);
    }
    let allowance = deadline.duration_since(slot.instant()).unwrap_or_default();
    let (Some(until), Some(start)) = (now.checked_sub(allowance), now.checked_sub(WINDOW)) else {
        return Ok(None);
    };
    let request = RunsRequest::new().with_job(&job.job).with_limit(RUNS);
    let runs = journal.runs(&request).await?;
    let mut since = start.max(job.registered);
    if let Some(first) = runs.last().filter(|_| runs.len() == RUNS) {
        since = since.max(first.slot.map_or(first.started, Slot::instant));
    }
    let slots_of = |is_elsewhere: bool| -> BTreeSet<SystemTime> {
        let of = runs.iter().filter(|run| run.is_elsewhere() == is_elsewhere);
        of.filter_map(|run| Some(run.slot?.instant())).collect()
    };
    let (taken, elsewhere) = (slots_of(false), slots_of(true));
    let mut counts = MissedSlots::default();
    let mut missed = Vec::new();
    while let Some(slot) = next(job, since).filter(|slot| *slot > since && *slot <= until) {
        match taken.contains(&slot) {
            true => {}
            false if elsewhere.contains(&slot) => counts.elsewhere += 1,
            false => missed.push(slot),
        }
        if missed.len() == SLOTS {
            break;
        }
        since = slot;
    }
    if missed.is_empty() {
        return Ok(Some(counts));
    }
    let request = AuditRequest::new().with_name(&job.job).with_limit(RUNS);
    let actions = journal.audit(&request).await?;
    for slot in missed {
        let count = if was_paused(&actions, &runs, slot) {
            &mut counts.paused
        } else if runs.iter().any(|run| was_running(run, job, slot)) {
            &mut counts.held
        } else {
            &mut counts.not_started
        };
        *count += 1;
    }
    Ok(Some(counts))
}

/// Whether an operator had paused the job at this instant. `actions` has the latest first.
fn was_paused(actions: &[AuditRecord], runs: &[RunRecord], at: SystemTime) -> bool {
    let mut before = actions.iter().filter(|it| it.at <= at);
    let action = before.find(|it| ["pause", "resume"].contains(&&*it.action));
    let paused_at = action.filter(|it| it.action == "pause").map(|it| it.at);
    // A run shows that the pause had ended by itself.
    paused_at.is_some_and(|since| {
        let has_run = |run: &RunRecord| run.started > since && run.started <= at;
        !runs.iter().any(has_run)
    })
}

/// Whether a run had the lock at this instant. Without an end, it had it for one lease.
fn was_running(run: &RunRecord, job: &JobRecord, at: SystemTime) -> bool {
    let lease = || job.lock_at_most_for.unwrap_or_default();
    let lasted = match &run.end {
        // Until when ShedLock had it, as far as is known.
        Some(_) if run.is_elsewhere() => run.lock_at_most_for.unwrap_or_default(),
        Some(end) => end.ran_for,
        None => lease(),
    };
    let end = run.started.checked_add(lasted);
    run.started < at && end.is_none_or(|end| at < end)
}
