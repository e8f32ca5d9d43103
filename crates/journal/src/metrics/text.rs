//! The metrics as text.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::{Exposition, Kind};
use super::{Found, Jobs};
use crate::states::CurrentJob;
use shedlock_core::{Error, LockRecord, LockState, Recorder, RunOutcome, RunState};

/// Metrics of jobs in Prometheus's text format.
#[derive(Debug)]
#[must_use]
pub struct JobMetricsText {
    text: String,
    is_store_up: bool,
    has_journal: bool,
    error: Option<Error>,
}

impl JobMetricsText {
    /// The content type of the text.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// The header of a scrape with the time in seconds after which Prometheus gives up.
    pub const SCRAPE_TIMEOUT: &'static str = "x-prometheus-scrape-timeout-seconds";

    /// Creates the metrics of a store that cannot be reached, for this reason.
    pub fn unreachable(error: Error) -> Self {
        write(Err(error), None)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Returns whether the store could be read.
    pub fn is_store_up(&self) -> bool {
        self.is_store_up
    }

    /// Returns whether there is a journal, or none could be looked for because the store is down.
    pub fn has_journal(&self) -> bool {
        self.has_journal
    }

    /// Returns why the store or its journal could not be read.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}

impl fmt::Display for JobMetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The states that a lock which cannot be taken has.
const STATES: [(&str, LockState); 4] = [
    ("held", LockState::Held),
    ("taken", LockState::Taken),
    ("paused", LockState::Paused),
    ("at-least", LockState::AtLeast),
];

const NO_JOURNAL: &str = "There is no journal, so no job is reported.";

type Value = fn(&CurrentJob) -> Option<f64>;

/// The metrics that not every job has.
const VALUES: [(&str, &str, Value); 5] = [
    (
        "shedlock_job_deadline_timestamp_seconds",
        "By when a run of the job must have succeeded.",
        |it| match it.paused_until {
            Some(_) => None,
            None => it.job.deadline.map(seconds),
        },
    ),
    (
        "shedlock_job_last_start_timestamp_seconds",
        "When the latest run of the job started.",
        |it| it.job.last_run.as_ref().map(|run| seconds(run.started)),
    ),
    (
        "shedlock_job_last_success_timestamp_seconds",
        "When the latest successful run of the job ended.",
        |it| it.job.last_succeeded.map(seconds),
    ),
    (
        "shedlock_job_last_failure_timestamp_seconds",
        "When the latest failed run of the job ended.",
        |it| it.job.last_failed.map(seconds),
    ),
    (
        "shedlock_job_last_duration_seconds",
        "How long the latest successful run of the job took.",
        |it| it.job.last_duration.map(|took| took.as_secs_f64()),
    ),
];

type Is = fn(&CurrentJob) -> bool;

/// The metrics that are one or zero.
const FLAGS: [(&str, &str, Is); 4] = [
    (
        "shedlock_job_watched_elsewhere",
        "Whether Java watches the outcome of its runs of the job, as an operator has declared.",
        |it| it.job.is_watched_elsewhere,
    ),
    (
        "shedlock_job_end_unknown",
        "Whether the latest run of the job has no recorded end and its lease is over.",
        |it| it.last_run == Some(RunState::EndUnknown),
    ),
    (
        "shedlock_job_lock_lost",
        "Whether the latest run of the job lost its lock or may have been overlapped by another.",
        |it| it.last_run.is_some_and(has_lost_lock),
    ),
    (
        "shedlock_job_paused",
        "Whether an operator has paused the job.",
        |it| it.paused_until.is_some(),
    ),
];

pub(super) fn write(
    found: Result<Found, Error>,
    recorder: Option<&dyn Recorder>,
) -> JobMetricsText {
    let mut text = Exposition::default();
    let is_store_up = found.is_ok();
    text.add(
        "shedlock_store_up",
        Kind::Gauge,
        "Whether the store of the locks could be read.",
        [(Vec::new(), f64::from(u8::from(is_store_up)))],
    );
    let (has_journal, error) = match found {
        Err(why) => (true, Some(why)),
        Ok(Found { locks, jobs }) => {
            add_locks(&mut text, &locks);
            (jobs.is_some(), add_journal(&mut text, jobs))
        }
    };
    if let Some(recorder) = recorder {
        #[expect(
            clippy::cast_precision_loss,
            reason = "fewer than 2^52 are ever dropped"
        )]
        let dropped = recorder.dropped() as f64;
        text.add(
            "shedlock_journal_dropped_total",
            Kind::Counter,
            "Entries that this process could not write to the journal.",
            [(Vec::new(), dropped)],
        );
    }
    JobMetricsText {
        text: text.into_text(),
        is_store_up,
        has_journal,
        error,
    }
}

fn add_locks(text: &mut Exposition, locks: &[LockRecord]) {
    let count = |state| locks.iter().filter(|lock| lock.state == state).count();
    #[expect(
        clippy::cast_precision_loss,
        reason = "there are fewer locks than 2^52"
    )]
    let counts = STATES.map(|(word, state)| (vec![("state", word)], count(state) as f64));
    text.add(
        "shedlock_locks",
        Kind::Gauge,
        "Locks that cannot be taken now, by state.",
        counts,
    );
}

/// Returns why the journal could not be read, if it could not.
fn add_journal(text: &mut Exposition, jobs: Option<Result<Jobs, Error>>) -> Option<Error> {
    let Some(jobs) = jobs else {
        text.comment(NO_JOURNAL);
        return None;
    };
    text.add(
        "shedlock_journal_up",
        Kind::Gauge,
        "Whether the journal of jobs and runs could be read.",
        [(Vec::new(), f64::from(u8::from(jobs.is_ok())))],
    );
    jobs.map(|jobs| add_jobs(text, &jobs)).err()
}

fn add_jobs(text: &mut Exposition, found: &Jobs) {
    let Jobs { store, jobs, .. } = found;
    let sample = |job, value| (vec![("job_name", job), ("store", &**store)], value);
    text.add(
        "shedlock_read_timestamp_seconds",
        Kind::Gauge,
        "When the jobs were read, by the clock of the store.",
        [(vec![("store", &**store)], seconds(found.at))],
    );
    for (name, help, value) in VALUES {
        let samples = jobs.iter();
        let samples = samples.map(|it| &it.current);
        let samples = samples.filter_map(|it| Some(sample(&*it.job.job, value(it)?)));
        text.add(name, Kind::Gauge, help, samples);
    }
    let unverified = jobs.iter().map(|it| &it.current.job);
    let unverified = unverified.map(|job| {
        let slots = job.elsewhere.as_ref().map_or(0, |it| it.slots);
        sample(&*job.job, f64::from(slots))
    });
    text.add(
        "shedlock_job_unverified_slots",
        Kind::Gauge,
        "Slots that ShedLock for Java took since the last outcome of the job that is known.",
        unverified,
    );
    for (name, help, is) in FLAGS {
        let samples = jobs.iter().map(|it| &it.current);
        let samples = samples.map(|it| sample(&*it.job.job, f64::from(u8::from(is(it)))));
        text.add(name, Kind::Gauge, help, samples);
    }
    let missed = jobs.iter();
    let missed = missed.filter_map(|it| Some((&it.current.job, it.missed?)));
    let missed = missed.flat_map(|(job, missed)| {
        let counts = missed.by_reason().into_iter();
        counts.map(|(reason, count)| {
            let (mut labels, count) = sample(&*job.job, f64::from(count));
            labels.insert(1, ("reason", reason));
            (labels, count)
        })
    });
    text.add(
        "shedlock_job_missed_slots",
        Kind::Gauge,
        "Slots of the last 24 hours that had no run, by reason.",
        missed,
    );
    let forgotten = found.forgotten.iter();
    text.add(
        "shedlock_job_forgotten_timestamp_seconds",
        Kind::Gauge,
        "When an operator removed a job that the journal does not have any more.",
        forgotten.map(|(job, at)| sample(&**job, seconds(*at))),
    );
}

/// Whether another run may have run at the same time.
fn has_lost_lock(last: RunState) -> bool {
    let ended = |outcome| last == RunState::Ended(outcome);
    last == RunState::WithoutLock || ended(RunOutcome::Lost) || ended(RunOutcome::MaybeOverlapped)
}

fn seconds(instant: SystemTime) -> f64 {
    match instant.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
