//! What a journal contains and the locks have lost: a table was dropped, a cache flushed, a backup restored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::{PAGE, all_locks, pages};
use shedlock_core::{
    AuditRecord, AuditRequest, Error, JobRecord, Journal, LockName, LockProvider, LockRecord,
    LockState, PauseRequest, Paused, ResetSlotRequest, RestoredSlot, RunOutcome, RunsRequest, Slot,
    SlotReset, admin, store_identity,
};

/// The slots and pauses that the locks have lost.
#[derive(Clone, Debug, Default)]
pub struct LostState {
    /// The identity of the locks' store, if it has one.
    pub store: Option<String>,
    /// The identities of other stores whose locks the journal has. If this store has none, it may be one of
    /// them, and have lost its records.
    pub others: BTreeSet<String>,
    /// The slots, in the order of the names of their locks.
    pub slots: Vec<LostSlot>,
    /// The pauses, in the same order.
    pub pauses: Vec<LostPause>,
}

/// The last slot of a lock, which its record does not have.
#[derive(Clone, Debug)]
pub struct LostSlot {
    /// The lock.
    pub name: String,
    /// The slot.
    pub slot: Slot,
    /// The identity of the store of that lock, if it had one.
    pub store: Option<String>,
    /// When its run started.
    started: SystemTime,
    /// How its run ended, if that was recorded.
    outcome: Option<RunOutcome>,
}

/// A pause that has not ended, of a lock that is not paused.
#[derive(Clone, Debug)]
pub struct LostPause {
    /// The pause.
    pub action: AuditRecord,
    /// When it ends.
    pub until: SystemTime,
}

impl LostState {
    /// Compares the locks with a journal, of which these are all jobs.
    ///
    /// # Errors
    /// Those of the store and the journal.
    pub async fn of_all(
        provider: &dyn LockProvider,
        journal: &dyn Journal,
        jobs: &[JobRecord],
        now: SystemTime,
    ) -> Result<Self, Error> {
        let locks = all_locks(provider).await?;
        let audit = |request: AuditRequest| async move { journal.audit(&request).await };
        let next = |request: AuditRequest, last: &AuditRecord| request.with_before(last.id.clone());
        let actions = pages(AuditRequest::new().with_limit(PAGE), audit, next).await?;
        let mut slots = Vec::new();
        for job in jobs {
            slots.extend(last_slots(journal, job).await?);
        }
        Self::compare(provider, locks, actions, slots, now).await
    }

    /// Compares one lock with its job in a journal.
    ///
    /// # Errors
    /// Those of the store and the journal.
    pub async fn of_lock(
        provider: &dyn LockProvider,
        journal: &dyn Journal,
        (job, name): (&str, &LockName),
        now: SystemTime,
    ) -> Result<Self, Error> {
        let locks = provider.inspect(name).await?.into_iter().collect();
        let request = AuditRequest::new().with_name(name.as_str());
        let actions = journal.audit(&request.with_limit(PAGE)).await?;
        let mut slots = match journal.job(job).await? {
            Some(job) => last_slots(journal, &job).await?,
            None => Vec::new(),
        };
        slots.retain(|slot| slot.name == name.as_str());
        Self::compare(provider, locks, actions, slots, now).await
    }

    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.pauses.is_empty()
    }

    /// Keeps what the store with this identity has lost.
    pub fn retain_of(&mut self, store: &str) {
        let is_it = |of: &Option<String>| of.as_deref() == Some(store);
        self.slots.retain(|slot| is_it(&slot.store));
        let is_its = |pause: &LostPause| is_it(&pause.action.lock_store);
        self.pauses.retain(is_its);
    }

    /// `actions` has the latest first.
    async fn compare(
        provider: &dyn LockProvider,
        locks: Vec<LockRecord>,
        actions: Vec<AuditRecord>,
        slots: Vec<LostSlot>,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let store = store_identity(provider).await?;
        let locks: BTreeMap<&str, &LockRecord> = locks
            .iter()
            .map(|lock| (lock.name.as_str(), lock))
            .collect();
        let of_slots = slots.iter().filter_map(|slot| slot.store.as_ref());
        let of_actions = actions.iter().filter_map(|it| it.lock_store.as_ref());
        let others = of_slots.chain(of_actions);
        let others = others
            .filter(|it| Some(*it) != store.as_ref())
            .cloned()
            .collect();
        // Records without an identity are older than that of the store, or than that of the journal.
        let is_of_another = |of: &Option<String>| store.is_some() && of.is_some() && *of != store;

        let here = actions.iter().filter(|it| !is_of_another(&it.lock_store));
        let pauses = latest(here.clone(), ["pause", "resume"]);
        // The last slot is what an operator has made of it.
        let set = latest(here, ["slot-reset", "prune"]);
        let has_slots = provider.capabilities().slots;
        let is_lost = |lost: &LostSlot| {
            let lock = locks.get(&*lost.name);
            let is_set = set.get(&*lost.name).is_some_and(|it| it.at >= lost.started);
            has_slots
                && !is_of_another(&lost.store)
                && !is_set
                && !lock.is_some_and(|lock| remembers(lock, lost.slot))
        };
        let mut slots: Vec<LostSlot> = slots.iter().filter(|slot| is_lost(slot)).cloned().collect();
        slots.sort_by(|a, b| a.name.cmp(&b.name));
        let is_paused = |name: &str| {
            let lock = locks.get(name);
            lock.is_some_and(|lock| lock.state == LockState::Paused)
        };
        let pauses = pauses.into_values().filter_map(|action| {
            let until = action.until.filter(|until| *until > now)?;
            (!is_paused(&action.name)).then(|| LostPause {
                action: action.clone(),
                until,
            })
        });
        Ok(Self {
            pauses: pauses.collect(),
            store,
            others,
            slots,
        })
    }
}

impl LostSlot {
    /// Whether its run is known to have succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.outcome == Some(RunOutcome::Succeeded)
    }

    /// What the journal knows about the slot.
    ///
    /// # Errors
    /// Those of the journal.
    pub async fn known(&self, journal: &dyn Journal) -> Result<RestoredSlot, Error> {
        let request = RunsRequest::new().with_name(&*self.name).with_limit(PAGE);
        let runs = journal.runs(&request).await?;
        let (mut has_succeeded, mut attempts) = (self.has_succeeded(), None);
        for run in runs.iter().filter(|run| run.slot == Some(self.slot)) {
            let outcome = run.end.as_ref().map(|end| end.outcome);
            has_succeeded |= outcome == Some(RunOutcome::Succeeded);
            attempts = attempts.max(run.attempt);
        }
        Ok(match attempts {
            _ if has_succeeded => RestoredSlot::Done,
            Some(attempts) => RestoredSlot::Open(attempts),
            None => RestoredSlot::UsedUp,
        })
    }

    /// Puts the slot into the record, unless that has a later one now. Returns whether it did.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn restore(
        &self,
        provider: &dyn LockProvider,
        known: RestoredSlot,
    ) -> Result<bool, Error> {
        let name = LockName::new(&*self.name)?;
        let known = match known {
            RestoredSlot::Open(_) if !provider.capabilities().completion => RestoredSlot::UsedUp,
            known => known,
        };
        let request = ResetSlotRequest::restoring(name, self.slot, known);
        let restored = admin::reset_slot(provider, &request).await?;
        Ok(matches!(restored, SlotReset::Reset { .. }))
    }
}

impl LostPause {
    /// Pauses the lock as it was. Returns false if a run holds it: its end is waited for by another attempt.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn restore(&self, provider: &dyn LockProvider) -> Result<bool, Error> {
        let name = LockName::new(&*self.action.name)?;
        // Only the name of `user@host`: the pause adds this host.
        let user = self.action.actor.user().split('@').next();
        let request = PauseRequest::new(name, user.unwrap_or_default())
            .with_reason(self.action.reason.as_deref().unwrap_or_default())
            .until(self.until);
        Ok(!matches!(
            admin::pause(provider, &request).await?,
            Paused::Held(_)
        ))
    }
}

/// The latest action of these kinds on each lock. `actions` has the latest first.
fn latest<'a>(
    actions: impl Iterator<Item = &'a AuditRecord>,
    kinds: [&str; 2],
) -> BTreeMap<&'a str, &'a AuditRecord> {
    let mut latest = BTreeMap::new();
    for action in actions.filter(|it| kinds.contains(&&*it.action)) {
        latest.entry(&*action.name).or_insert(action);
    }
    latest
}

/// Whether a record accounts for this slot. One that was given back leaves the instant before it.
fn remembers(lock: &LockRecord, slot: Slot) -> bool {
    let last = lock.last_slot.max(lock.skipped_slots.map(|it| it.until));
    last.is_some_and(|last| last >= slot.just_before())
}

/// The last slots of a job's locks, one for each.
async fn last_slots(journal: &dyn Journal, job: &JobRecord) -> Result<Vec<LostSlot>, Error> {
    let last = job.last_run.as_ref().filter(|run| run.name == job.job);
    if let Some((run, slot)) = last.and_then(|run| Some((run, run.slot?))) {
        return Ok(vec![LostSlot {
            name: run.name.clone(),
            slot,
            store: run.lock_store.clone(),
            started: run.started,
            outcome: run.outcome,
        }]);
    }
    if job.last_run.is_none() {
        return Ok(Vec::new());
    }
    let runs = RunsRequest::new().with_job(&*job.job).with_limit(PAGE);
    let mut names = BTreeSet::new();
    let runs = journal.runs(&runs).await?;
    // The record of a slot that ShedLock took does not have it.
    let ours = runs.into_iter().filter(|run| !run.is_elsewhere());
    let slots = ours.filter_map(|run| {
        let slot = run.slot.filter(|_| names.insert(run.name.clone()))?;
        Some(LostSlot {
            name: run.name,
            slot,
            store: run.lock_store,
            started: run.started,
            outcome: run.end.map(|end| end.outcome),
        })
    });
    Ok(slots.collect())
}
