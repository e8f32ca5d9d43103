//! What a writer does in the background: it writes what waits in its queue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Error, ErrorKind, JOURNAL_VERSION, JournalEntry, RunEnd, RunOutcome, RunRecord, TaskEnd, within,
};
use shedlock_support::Backoff;

use super::{Locks, Pending, Shared};
use crate::lock_store::lock_store;
use crate::registered;

/// How many entries are written at once.
const BATCH: usize = 64;

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(250);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often entries that the journal refuses, although it can be reached, are tried together. Then each is tried once alone.
const TRIES: u32 = 3;

/// How often a process that records runs looks for old ones, however few it records.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);

impl Shared {
    pub(super) fn push_end(
        self: &Arc<Self>,
        mut run: RunRecord,
        ran_for: Duration,
        end: TaskEnd<'_>,
    ) {
        let error = self.settings.errors.of(end);
        run.end = Some(RunEnd::new(ran_for, end.into(), error));
        self.push_run(run);
    }

    /// Adds a run. One that still waits to be written is replaced, so that a short run is written
    /// once.
    pub(super) fn push_run(self: &Arc<Self>, run: RunRecord) {
        let state = self.state();
        let outcome = run.end.as_ref().map(|end| end.outcome);
        let moves = matches!(outcome, Some(RunOutcome::Succeeded | RunOutcome::Elsewhere));
        let next = state.next_after(&run).filter(|_| moves);
        drop(state);
        let id = run.id.clone();
        let entry = JournalEntry::Run { run, next };
        let mut queue = self.queue.state();
        let mut waiting = queue.waiting.iter_mut().rev();
        match waiting.find(|pending| pending.is_of(&id)) {
            Some(waiting) => *waiting = Pending::Entry(Box::new(entry)),
            None => {
                drop(queue);
                return self.push(entry);
            }
        }
        drop(queue);
        self.wake();
    }

    pub(super) fn push_registration(self: &Arc<Self>, job: &str) {
        if self.state().is_off {
            return;
        }
        let registration = Pending::Registration(job.to_owned());
        self.queue.state().waiting.push_back(registration);
        self.wake();
    }

    pub(super) fn push(self: &Arc<Self>, entry: JournalEntry) {
        let mut state = self.state();
        if state.is_off {
            return;
        }
        // Each job may wait with its registration and a run: all of them start at once, or go on after an outage.
        let most = self.settings.queue + 2 * state.jobs.len();
        let mut queue = self.queue.state();
        if queue.waiting.len() < most {
            queue.waiting.push_back(Pending::Entry(Box::new(entry)));
            drop((queue, state));
            return self.wake();
        }
        if !state.is_dropping {
            tracing::warn!(
                dropped = state.dropped,
                "the journal does not keep up: entries are dropped, so the history is incomplete"
            );
        }
        state.is_dropping = true;
        state.dropped += 1;
        count_dropped(1);
    }

    /// Starts the background task unless it runs.
    pub(super) fn wake(self: &Arc<Self>) {
        self.queue.wake(|| {
            let shared = self.clone();
            async move { shared.write().await }
        });
    }

    /// Writes until nothing is left.
    async fn write(&self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut refusals = 0;
        // How many entries are written alone, because the journal refuses one of them.
        let mut alone = 0_usize;
        loop {
            let (most, tries) = if alone == 0 { (BATCH, TRIES) } else { (1, 1) };
            let Some(batch) = self.queue.take(most) else {
                return;
            };
            let error = match self.write_batch(&batch).await {
                Ok(()) => {
                    if !backoff.is_fresh() {
                        tracing::info!("the journal is available again");
                    }
                    backoff.reset();
                    refusals = 0;
                    alone = alone.saturating_sub(1);
                    let is_more = self.queue.done();
                    self.state().is_dropping &= is_more;
                    continue;
                }
                Err(error) => error,
            };
            if backoff.is_fresh() {
                tracing::warn!(error = %format_args!("{:#}", error.cause("")),
                    "cannot write to the journal, retrying");
            }
            // An entry that the journal refuses must neither keep the others waiting nor be dropped with them.
            let may_pass = matches!(
                error.kind(),
                ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Configuration
            );
            refusals += u32::from(!may_pass);
            if refusals >= tries {
                refusals = 0;
                if batch.len() > 1 {
                    self.queue.put_back();
                    alone = batch.len();
                    continue;
                }
                self.queue.done();
                self.state().dropped += 1;
                count_dropped(1);
                alone = alone.saturating_sub(1);
                continue;
            }
            let clock = &self.settings.clock;
            let until = clock.now() + backoff.take();
            tokio::select! {
                () = clock.sleep_until(until) => {}
                () = self.hurry.notified() => {}
            }
        }
    }

    async fn write_batch(&self, batch: &[Pending]) -> Result<(), Error> {
        let clock = &*self.settings.clock;
        let written = within(clock, PATIENCE, self.write_all(batch)).await;
        let late = || Error::new(ErrorKind::Unavailable, "the journal did not reply in time");
        let jobs = written.unwrap_or_else(|| Err(late()))?;
        // What is not removed now is removed after a later run.
        let _ = within(clock, PATIENCE, self.prune(jobs)).await;
        Ok(())
    }

    /// Returns the jobs whose old runs are to be removed.
    async fn write_all(&self, batch: &[Pending]) -> Result<BTreeSet<String>, Error> {
        let mut jobs = BTreeSet::new();
        if !self.check().await? {
            return Ok(jobs);
        }
        let lock_store = self.lock_store().await;
        let mut entries = Vec::with_capacity(batch.len());
        for pending in batch {
            match pending {
                Pending::Entry(entry) => {
                    let mut entry = (**entry).clone();
                    match &mut entry {
                        JournalEntry::Run { run, .. } => {
                            if self.is_followed_by_prune(run) {
                                jobs.insert(run.job.clone());
                            }
                            run.lock_store.clone_from(&lock_store);
                        }
                        JournalEntry::Audit(record) => record.lock_store.clone_from(&lock_store),
                        _ => {}
                    }
                    entries.push(entry);
                }
                Pending::Registration(job) => {
                    let known = self.journal.job(job).await?;
                    let registration = self.state().jobs.get(job).cloned();
                    if let (Some(known), Some(registration)) = (&known, &registration) {
                        registered::warn_of_drift(registration, known);
                    }
                    let now = self.settings.clock.system_time();
                    let change =
                        registration.map(|it| registered::change(&it, known.as_ref(), now));
                    entries.extend(change.map(JournalEntry::Job));
                }
            }
        }
        self.journal.record(&entries).await?;
        Ok(jobs)
    }

    async fn prune(&self, jobs: BTreeSet<String>) {
        for job in jobs {
            match self.journal.prune(&job, &self.settings.retention).await {
                Ok(_) => self.state().looked = Some(self.settings.clock.now()),
                Err(error) => {
                    tracing::debug!(job, %error, "cannot remove old runs from the journal");
                }
            }
        }
    }

    /// Whether old runs of the job are removed after this one: after one of 32, chosen by its id, if so many are kept that a
    /// few more do not matter, and after an hour without. Looking for them costs as much as writing a few runs.
    fn is_followed_by_prune(&self, run: &RunRecord) -> bool {
        if run.end.is_none() {
            return false;
        }
        let last = run.id.identity().get(30..).unwrap_or_default();
        let number = usize::from_str_radix(last, 16).unwrap_or_default();
        let of = (self.settings.retention.runs_per_job / 32).clamp(1, 32);
        let now = self.settings.clock.now();
        let looked = *self.state().looked.get_or_insert(now);
        number % of == 0 || now.saturating_since(looked) >= LOOK_EVERY
    }

    /// Returns the identity of the locks' store, which is read once.
    async fn lock_store(&self) -> Option<String> {
        let provider = match &self.state().locks {
            Locks::Read(_, identity) => return identity.clone(),
            Locks::Unread(provider) => provider.clone(),
            Locks::None | Locks::Several => return None,
        };
        // It is tried again with the next entries.
        let identity = lock_store(&*provider, &*self.settings.clock).await?;
        let mut state = self.state();
        if matches!(state.locks, Locks::Unread(_)) {
            state.locks = Locks::Read(provider.identity(), identity.clone());
        }
        identity
    }

    /// Checks once that there is a journal. Returns false if there is none and none is required.
    async fn check(&self) -> Result<bool, Error> {
        if self.state().identity.is_some() {
            return Ok(true);
        }
        let found = match self.journal.version().await {
            Err(error) if self.settings.is_optional => {
                let kind = error.kind();
                let error = format!("{error:#}");
                match kind {
                    // It may be there, and is meant to be used.
                    ErrorKind::Configuration => tracing::warn!(%error, "runs are not recorded"),
                    _ => tracing::debug!(%error, "cannot look for a journal"),
                }
                None
            }
            found => found?,
        };
        if let Some(newer) = found.filter(|version| *version > JOURNAL_VERSION) {
            return Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "the journal has version {newer}, and this release writes version {JOURNAL_VERSION}"
                ),
            )
            .advise("upgrade this program"));
        }
        if found.is_some() {
            let identity = self.journal.identity().await?;
            self.state().identity = Some(identity.unwrap_or_default());
            return Ok(true);
        }
        if self.settings.is_optional {
            self.state().is_off = true;
            drop(self.queue.clear());
            return Ok(false);
        }
        Err(Error::new(
            ErrorKind::Configuration,
            self.settings.absent.clone(),
        ))
    }
}

#[cfg(feature = "metrics")]
fn count_dropped(count: u64) {
    ::metrics::counter!("shedlock.journal.dropped").increment(count);
}

#[cfg(not(feature = "metrics"))]
fn count_dropped(_: u64) {}
