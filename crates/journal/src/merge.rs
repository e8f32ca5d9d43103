//! How entries change what a journal knows: once, for every store.
//!
//! A store reads the rows that a [`Batch`] concerns, lets it work out what they become, and writes that, unless another
//! process has changed them meanwhile. Entries may arrive twice and in any order, so times only move forward, and what
//! describes the latest run, success or failure stays if a later one is known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    Actor, AuditRecord, Clock as _, Error, ErrorKind, JobChange, JobRecord, JournalEntry, LastRun,
    RunEnd, RunOutcome, RunRecord, Slot, SystemClock, TakenElsewhere,
};

/// How often a batch is tried while other processes change the same rows.
const TRIES: u32 = 10;

/// How much of a text a store keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of the name of a job or a lock.
    pub name: usize,
    /// Of an owner, a host, a schedule or a zone.
    pub text: usize,
    /// Of the first line of an error, and of what an audit record says.
    pub line: usize,
    /// Of the word for what an operator did.
    pub word: usize,
    /// Returns the start of a text that is not longer than this.
    pub cut: fn(&str, usize) -> &str,
}

/// Entries as a store keeps them: in whole microseconds since 1970, with no text longer than it allows, and with no empty
/// one in place of none.
#[derive(Debug)]
pub struct Batch {
    entries: Vec<JournalEntry>,
    limits: Limits,
}

/// What a store knows of the jobs and runs that a batch concerns.
#[derive(Debug, Default)]
pub struct Known {
    /// By their names.
    pub jobs: BTreeMap<String, JobRecord>,
    /// By their identities.
    pub runs: BTreeMap<String, RunRecord>,
}

/// The rows that a batch changes, as they are afterwards, in the order of their keys. All processes write them in that
/// order, so that none waits for a row of another one that waits for a row of its own.
#[derive(Debug, Default)]
pub struct Changes {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// The runs.
    pub runs: Vec<RunRecord>,
}

impl Batch {
    /// Creates a batch of these entries.
    pub fn new(entries: &[JournalEntry], limits: Limits) -> Self {
        let entries = entries.iter().map(|entry| limits.entry(entry)).collect();
        Self { entries, limits }
    }

    /// Returns the names of the jobs that it concerns.
    pub fn jobs(&self) -> BTreeSet<&str> {
        let names = self.entries.iter().filter_map(|entry| match entry {
            JournalEntry::Job(change) => Some(&*change.job),
            JournalEntry::Run { run, .. } => Some(&*run.job),
            JournalEntry::Watched { job, .. } => Some(&**job),
            _ => None,
        });
        names.collect()
    }

    /// Returns the identities of the runs that it concerns.
    pub fn runs(&self) -> BTreeSet<&str> {
        let runs = self.entries.iter().filter_map(|entry| match entry {
            JournalEntry::Run { run, .. } => Some(run.id.identity()),
            _ => None,
        });
        runs.collect()
    }

    /// Returns the audit records. One that is known stays as it is.
    pub fn audit(&self) -> impl Iterator<Item = &AuditRecord> {
        self.entries.iter().filter_map(|entry| match entry {
            JournalEntry::Audit(record) => Some(record),
            _ => None,
        })
    }

    /// Works out what changes. `now` is the time by the journal's clock.
    pub fn changes(&self, known: &Known, now: SystemTime) -> Changes {
        let (mut jobs, mut runs) = (known.jobs.clone(), known.runs.clone());
        for entry in &self.entries {
            match entry {
                JournalEntry::Job(change) => {
                    let job = jobs.entry(change.job.clone());
                    let job = job.or_insert_with(|| JobRecord::new(&*change.job, now));
                    register(job, change, now);
                }
                JournalEntry::Run { run, next } => {
                    let job = jobs.entry(run.job.clone());
                    let job = job.or_insert_with(|| JobRecord::new(&*run.job, now));
                    self.add_run(job, run, *next);
                    match runs.get_mut(run.id.identity()) {
                        Some(known) => end(known, run),
                        None => drop(runs.insert(run.id.identity().to_owned(), run.clone())),
                    }
                }
                JournalEntry::Watched { job, elsewhere } => {
                    if let Some(job) = jobs.get_mut(job) {
                        job.is_watched_elsewhere = *elsewhere;
                    }
                }
                _ => {}
            }
        }
        jobs.retain(|name, job| known.jobs.get(name) != Some(job));
        runs.retain(|identity, run| known.runs.get(identity) != Some(run));
        Changes {
            jobs: jobs.into_values().collect(),
            runs: runs.into_values().collect(),
        }
    }

    /// Adds a run to its job.
    fn add_run(&self, job: &mut JobRecord, run: &RunRecord, next: Option<(Slot, SystemTime)>) {
        if run.is_elsewhere() {
            return add_elsewhere(job, run, next);
        }
        let known = job.last_run.as_ref().map(|last| last.started);
        if known.is_none_or(|known| run.started > known) {
            let mut last = LastRun::new(&*run.name, &*run.owner, run.started);
            (last.lock_at_most_for, last.slot) = (run.lock_at_most_for, run.slot);
            last.lock_store.clone_from(&run.lock_store);
            job.last_run = Some(last);
        }
        let Some(end) = &run.end else { return };
        let is_known = end.outcome == RunOutcome::Succeeded || end.outcome.is_failure();
        let is_earlier = |it: &TakenElsewhere| it.at < run.started;
        if is_known && job.elsewhere.as_ref().is_some_and(is_earlier) {
            job.elsewhere = None;
        }
        let ended = whole(run.started + end.ran_for);
        let is_it = |last: &&mut LastRun| last.name == run.name && last.owner == run.owner;
        let last = job.last_run.as_mut().filter(is_it);
        if let Some(last) = last.filter(|last| replaces(last.outcome, end.outcome)) {
            last.outcome = Some(end.outcome);
        }
        if end.outcome == RunOutcome::Succeeded {
            if job.last_succeeded.is_none_or(|known| ended >= known) {
                job.last_succeeded = Some(ended);
                job.last_duration = Some(end.ran_for);
            }
            move_forward(job, next);
        }
        if end.outcome.is_failure() && job.last_failed.is_none_or(|known| ended >= known) {
            job.last_failed = Some(ended);
            let line = end.error.as_deref().and_then(|text| text.lines().next());
            job.last_error = self.limits.some(line, self.limits.line);
        }
    }
}

/// Returns a row that was read. One that cannot be understood is treated as absent, and replaced: it must not keep the
/// entries of other jobs from being recorded.
pub fn readable<T>(row: Result<T, Error>) -> Option<T> {
    match row {
        Ok(row) => Some(row),
        Err(error) => {
            tracing::warn!(%error, "a record of the journal cannot be read, and is replaced");
            None
        }
    }
}

/// Repeats what reads the rows of a batch, and writes their changes if what was read still stands, until it has done so.
/// The pauses differ from those of other processes, so that one of them comes first.
///
/// # Errors
/// If one try fails, or if there were too many.
pub async fn repeated<F>(record: impl Fn() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<bool, Error>>,
{
    for tries in 0..TRIES {
        if record().await? {
            return Ok(());
        }
        let pause = Duration::from_micros(SystemClock.random() % (1_000 << tries));
        SystemClock.sleep_until(SystemClock.now() + pause).await;
    }
    Err(Error::new(ErrorKind::Unavailable, "conflicting updates of the journal").retry())
}

/// Changes a job as this registration says.
fn register(job: &mut JobRecord, change: &JobChange, now: SystemTime) {
    if job.schedule != change.schedule || job.zone != change.zone {
        (job.registered, job.next_slot, job.deadline) = (now, None, None);
    }
    job.schedule.clone_from(&change.schedule);
    job.zone.clone_from(&change.zone);
    job.lock_at_most_for = change.lock_at_most_for;
    job.registered_by.clone_from(&change.by);
    job.replaced.clone_from(&change.replaced);
    move_forward(job, change.next);
}

/// Adds a slot that ShedLock took. It moves the deadline, as far as that slot goes.
fn add_elsewhere(job: &mut JobRecord, run: &RunRecord, next: Option<(Slot, SystemTime)>) {
    move_forward(job, next);
    let last = job.elsewhere.as_ref();
    let is_later = last.map(|it| it.slot) < run.slot;
    let our_last = job.last_run.as_ref();
    let is_latest = our_last.is_none_or(|it| it.started < run.started);
    if let Some(slot) = run.slot.filter(|_| is_later && is_latest) {
        let slots = last.map_or(0, |it| it.slots).saturating_add(1);
        let mut elsewhere = TakenElsewhere::new(slot, run.started, slots);
        elsewhere.by = Some(run.owner.clone()).filter(|host| !host.is_empty());
        job.elsewhere = Some(elsewhere);
    }
}

/// Moves the next slot and the deadline, but never back.
fn move_forward(job: &mut JobRecord, next: Option<(Slot, SystemTime)>) {
    let is_later = |(_, it): &(Slot, SystemTime)| job.deadline.is_none_or(|was| *it > was);
    if let Some((slot, deadline)) = next.filter(is_later) {
        (job.next_slot, job.deadline) = (Some(slot), Some(deadline));
    }
}

/// Adds the end of a run to what is known of it.
fn end(known: &mut RunRecord, run: &RunRecord) {
    let outcome = known.end.as_ref().map(|end| end.outcome);
    if let Some(end) = run
        .end
        .as_ref()
        .filter(|end| replaces(outcome, end.outcome))
    {
        known.end = Some(end.clone());
    }
}

/// Returns whether an outcome replaces the known one: none, or a success of which the unlock found that the lease had
/// been lost before, or may have been.
fn replaces(known: Option<RunOutcome>, outcome: RunOutcome) -> bool {
    match known {
        None => true,
        Some(known) => known == RunOutcome::Succeeded && outcome.corrects_success(),
    }
}

impl Limits {
    /// Returns as much of a job's or lock's name as is kept.
    pub fn name<'a>(&self, name: &'a str) -> &'a str {
        (self.cut)(name, self.name)
    }

    fn owned(&self, text: &str, longest: usize) -> String {
        (self.cut)(text, longest).to_owned()
    }

    fn some(&self, text: Option<&str>, longest: usize) -> Option<String> {
        let text = (self.cut)(text?, longest);
        Some(text.to_owned()).filter(|text| !text.is_empty())
    }

    fn text(&self, text: Option<&str>) -> Option<String> {
        self.some(text, self.text)
    }

    fn entry(&self, entry: &JournalEntry) -> JournalEntry {
        let mut entry = entry.clone();
        match &mut entry {
            JournalEntry::Job(change) => self.fit_change(change),
            JournalEntry::Run { run, next } => {
                self.fit_run(run);
                *next = next.map(|(slot, deadline)| (slot, whole(deadline)));
            }
            JournalEntry::Watched { job, .. } => *job = self.owned(job, self.name),
            JournalEntry::Audit(record) => self.fit_audit(record),
            _ => {}
        }
        entry
    }

    fn fit_change(&self, change: &mut JobChange) {
        change.job = self.owned(&change.job, self.name);
        change.schedule = self.text(change.schedule.as_deref());
        change.zone = self.text(change.zone.as_deref());
        change.lock_at_most_for = change.lock_at_most_for.map(whole_micros);
        change.by = self.text(change.by.as_deref());
        if let Some(replaced) = &mut change.replaced {
            replaced.by = self.owned(&replaced.by, self.text);
            replaced.at = whole(replaced.at);
            replaced.schedule = self.text(replaced.schedule.as_deref());
            replaced.zone = self.text(replaced.zone.as_deref());
            replaced.lock_at_most_for = replaced.lock_at_most_for.map(whole_micros);
        }
        change.next = change.next.map(|(slot, deadline)| (slot, whole(deadline)));
    }

    fn fit_run(&self, run: &mut RunRecord) {
        run.job = self.owned(&run.job, self.name);
        run.name = self.owned(&run.name, self.name);
        run.owner = self.owned(&run.owner, self.text);
        run.started = whole(run.started);
        run.lock_at_most_for = run.lock_at_most_for.map(whole_micros);
        run.fencing_token = run.fencing_token.filter(|it| i64::try_from(*it).is_ok());
        run.lock_store = self.text(run.lock_store.as_deref());
        if let Some(end) = &mut run.end {
            end.ran_for = whole_micros(end.ran_for);
            end.error = self.some(end.error.as_deref(), RunEnd::LONGEST_ERROR);
        }
    }

    fn fit_audit(&self, record: &mut AuditRecord) {
        record.at = whole(record.at);
        let user = self.owned(record.actor.user(), self.text);
        record.actor = Actor::from_stored(user, record.actor.is_authenticated());
        record.action = self.owned(&record.action, self.word);
        record.name = self.owned(&record.name, self.name);
        record.detail = self.owned(&record.detail, self.line);
        record.reason = self.some(record.reason.as_deref(), self.line);
        record.until = record.until.map(whole);
        record.lock_store = self.text(record.lock_store.as_deref());
    }
}

/// An instant in whole microseconds. What was before 1970 is 1970.
fn whole(instant: SystemTime) -> SystemTime {
    UNIX_EPOCH + whole_micros(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// As many microseconds as 64 bits hold.
fn whole_micros(duration: Duration) -> Duration {
    let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    Duration::from_micros(micros.unsigned_abs())
}
