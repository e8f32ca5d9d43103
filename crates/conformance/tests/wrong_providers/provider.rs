//! The in-memory provider, made wrong in one way.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Clock, Error, ErrorKind, ExtendRequest,
    Extension, ForceUnlockRequest, ForcedUnlock, KeepReason, Lease, ListRequest, LockName,
    LockProvider, LockRecord, LockState, ManualClock, MemoryProvider, Migration, MigrationStep,
    PauseRequest, Paused, ProviderIdentity, PruneRequest, Pruned, ResetSlotRequest, ResumeRequest,
    Resumed, Skip, SkipReason, Slot, SlotReset, Unlock, UnlockRequest,
};

use crate::fault::Fault;

/// What all providers over one namespace share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) records: MemoryProvider,
    pub(crate) is_gone: AtomicBool,
    clock: ManualClock,
    slots: Mutex<HashMap<LockName, Slot>>,
    tokens: Mutex<HashMap<LockName, u64>>,
    unlocked: Mutex<HashSet<String>>,
}

impl Store {
    pub(crate) fn new(records: MemoryProvider, clock: ManualClock) -> Self {
        Self {
            records,
            is_gone: AtomicBool::new(false),
            clock,
            slots: Mutex::default(),
            tokens: Mutex::default(),
            unlocked: Mutex::default(),
        }
    }
}

pub(crate) struct WrongProvider {
    fault: Fault,
    store: Arc<Store>,
    acquisitions: AtomicU64,
    known: Mutex<HashSet<LockName>>,
    identity: ProviderIdentity,
}

impl fmt::Debug for WrongProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrongProvider({:?})", self.fault)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WrongProvider {
    pub(crate) fn new(fault: Fault, store: Arc<Store>) -> Self {
        Self {
            fault,
            store,
            acquisitions: AtomicU64::new(0),
            known: Mutex::default(),
            identity: ProviderIdentity::unique(),
        }
    }

    /// The store's records, if there is a container.
    fn records(&self) -> Result<&MemoryProvider, Error> {
        if self.store.is_gone.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Configuration,
                "there is no container",
            ));
        }
        Ok(&self.store.records)
    }

    /// The name under which the record is stored.
    fn stored(&self, name: &LockName) -> Result<LockName, Error> {
        let text = name.as_str();
        match self.fault {
            Fault::NamesFoldCase => LockName::new(text.to_lowercase()),
            Fault::NamesArePaths => LockName::new(text.replace("//", "/")),
            Fault::NamesAreCut => {
                let end = (0..=text.len().min(64))
                    .rev()
                    .find(|i| text.is_char_boundary(*i));
                LockName::new(&text[..end.unwrap_or_default()])
            }
            _ => Ok(name.clone()),
        }
    }

    async fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let records = match self.records() {
            Err(_) if self.fault == Fault::ErrorIsSkip => {
                return Ok(Attempt::Skipped(Skip::new(SkipReason::Held)));
            }
            records => records?,
        };
        let name = self.stored(request.name())?;
        let mut inner = request.clone().with_name(name.clone());
        let before = records.inspect(&name).await?;
        match self.fault {
            Fault::AttemptNotIdempotent => {
                if let Some(record) = &before
                    && record.state == LockState::Held
                {
                    return Ok(Attempt::Skipped(record.as_skip()));
                }
            }
            Fault::RemembersRecords => {
                if before.is_none() && locked(&self.known).contains(&name) {
                    return Ok(Attempt::Skipped(Skip::new(SkipReason::Contended)));
                }
                locked(&self.known).insert(name.clone());
            }
            Fault::SlotAheadGranted => {
                inner = inner.with_slot_tolerance(Duration::from_secs(1_000 * 86_400));
            }
            Fault::SlotInTwoSteps => {
                if let Some(slot) = request.slot() {
                    if locked(&self.store.slots).get(&name) >= Some(&slot) {
                        return Ok(Attempt::Skipped(Skip::new(SkipReason::SlotTaken)));
                    }
                    between_the_steps().await;
                    inner = self.again(request, &name, request.lock_at_most_for());
                }
            }
            Fault::AttemptsForgottenAtTakeover => {
                if let Some(last) = open_and_free(before.as_ref())
                    && request.slot() == Some(last)
                {
                    let just_before = Slot::from_micros(last.as_micros() - 1)?;
                    let reset = ResetSlotRequest::new(name.clone()).with_slot(just_before);
                    records.reset_slot(&reset).await?;
                }
            }
            Fault::OpenSlotIsPassed => {
                if let Some(last) = open_and_free(before.as_ref())
                    && request.slot() > Some(last)
                {
                    let reset = ResetSlotRequest::new(name.clone()).with_slot(last);
                    records.reset_slot(&reset).await?;
                }
            }
            Fault::EndsEarly => {
                inner = self.again(request, &name, request.lock_at_most_for() * 9 / 10);
                if let Some(slot) = request.slot() {
                    inner = inner.with_slot(slot).with_completion(request.completion());
                }
            }
            _ => {}
        }
        let Attempt::Acquired(lease) = records.attempt(&inner).await? else {
            return records.attempt(&inner).await;
        };
        let lease = self.granted(request, &lease, before.is_some());
        Ok(Attempt::Acquired(lease))
    }

    /// The same attempt for this long, without its slot.
    fn again(
        &self,
        request: &AttemptRequest,
        name: &LockName,
        at_most: Duration,
    ) -> AttemptRequest {
        AttemptRequest::new(name.clone(), request.owner().clone(), at_most)
            .with_lock_at_least_for(request.lock_at_least_for().min(at_most))
    }

    /// The lease that the caller gets for the lease that the store granted.
    fn granted(&self, request: &AttemptRequest, stored: &Lease, was_there: bool) -> Lease {
        let mut lease = Lease::granted(request).with_slot_attempt(stored.slot_attempt());
        let mut token = stored.fencing_token();
        match self.fault {
            Fault::TokenPerClient => {
                token = Some(self.acquisitions.fetch_add(1, Ordering::SeqCst) + 1);
            }
            Fault::TokenForgottenWithRecord => {
                let mut tokens = locked(&self.store.tokens);
                let last = tokens.entry(request.name().clone()).or_default();
                *last = if was_there { *last + 1 } else { 1 };
                token = Some(*last);
            }
            Fault::SlotInTwoSteps => {
                if let Some(slot) = request.slot() {
                    locked(&self.store.slots).insert(request.name().clone(), slot);
                }
            }
            _ => {}
        }
        if let Some(token) = token {
            lease = lease.with_fencing_token(token);
        }
        if let Some(at) = stored.acquired_at() {
            lease = lease.with_acquired_at(at);
        }
        if let Some(until) = stored.locked_until() {
            lease = lease.with_locked_until(until);
        }
        lease
    }

    async fn try_extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension, Error> {
        let records = self.records()?;
        let name = self.stored(lease.name())?;
        let inner = lease.clone().with_name(name.clone());
        let answer = records.extend(&inner, request).await?;
        if self.fault == Fault::ExtendRevivesExpired
            && let Extension::Lost = answer
            && let Some(record) = records.inspect(&name).await?
            && record.owner.as_deref() == Some(lease.owner().as_str())
        {
            let now = self.store.clock.system_time();
            let until = now + request.lock_at_most_for();
            records.write_as_shedlock(&name, lease.owner().as_str(), now, until);
            return Ok(Extension::Extended(lease.extended(request)));
        }
        Ok(match answer {
            Extension::Extended(extended) => {
                Extension::Extended(extended.with_name(lease.name().clone()))
            }
            answer => answer,
        })
    }

    async fn try_unlock(&self, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let records = self.records()?;
        let name = self.stored(lease.name())?;
        let inner = lease.clone().with_name(name.clone());
        match self.fault {
            Fault::UnlockIgnoresOwner => {
                records.force_unlock(&ForceUnlockRequest::new(name)).await?;
                return Ok(Unlock::Unlocked);
            }
            Fault::AtLeastForgotten => {
                return records
                    .unlock(&inner, &UnlockRequest::new().ignoring_at_least())
                    .await;
            }
            Fault::SecondUnlockIsLost => {
                let owner = lease.owner().to_string();
                if !locked(&self.store.unlocked).insert(owner) {
                    return Ok(Unlock::Lost);
                }
            }
            _ => {}
        }
        let answer = records.unlock(&inner, request).await?;
        let record = records.inspect(&name).await?;
        match (self.fault, answer) {
            (Fault::UnlockOfExpiredIsOk, Unlock::Lost) => return Ok(Unlock::Unlocked),
            (Fault::SlotForgottenAtUnlock, Unlock::Unlocked) => {
                records.remove(&name);
            }
            (Fault::AtLeastFromUnlock, Unlock::Unlocked) => {
                let now = self.store.clock.system_time();
                let from = record.and_then(|record| record.locked_at).unwrap_or(now);
                let until = now + request.at_least_of(lease.lock_at_least_for());
                records.write_as_shedlock(&name, &lease.owner().released(), from, until);
            }
            _ => {}
        }
        Ok(answer)
    }

    async fn try_inspect(&self, name: &LockName) -> Result<Option<LockRecord>, Error> {
        let found = self.records()?.inspect(&self.stored(name)?).await?;
        Ok(found.map(|mut record| {
            record.name = name.clone();
            record
        }))
    }

    async fn try_list(&self, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        if self.fault == Fault::OnePage && request.after().is_some() {
            return Ok(Vec::new());
        }
        self.records()?.list(request).await
    }

    async fn try_prune(&self, request: &PruneRequest) -> Result<Pruned, Error> {
        let records = self.records()?;
        let name = request.name();
        let found = records.inspect(name).await?;
        let Some(record) = found.filter(|_| request.validate().is_ok()) else {
            return records.prune(request).await;
        };
        let refusal = request.refusal(&record, self.store.clock.system_time());
        let is_overlooked = match refusal {
            Some(KeepReason::Taken) => self.fault == Fault::PruneRemovesHeldLocks,
            Some(KeepReason::SlotOpen) => self.fault == Fault::PruneIgnoresSlots,
            Some(KeepReason::UsedRecently) => match self.fault {
                Fault::PruneIgnoresTime => true,
                Fault::PruneIgnoresSlots => record.last_slot.is_some(),
                _ => false,
            },
            None => self.fault == Fault::PruneInTwoSteps,
            _ => false,
        };
        if is_overlooked {
            between_the_steps().await;
            records.remove(name);
            return Ok(Pruned::Removed(record));
        }
        if self.fault == Fault::PruneKeepsTheRecord && refusal.is_none() {
            return Ok(Pruned::Removed(record));
        }
        records.prune(request).await
    }

    async fn try_withdraw(&self, request: &AttemptRequest) -> Result<bool, Error> {
        if self.fault == Fault::WithdrawDoesNothing {
            return Ok(true);
        }
        let inner = request.clone().with_name(self.stored(request.name())?);
        self.records()?.withdraw(&inner).await
    }
}

impl LockProvider for WrongProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(self.try_attempt(request))
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.try_withdraw(request))
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(self.try_extend(lease, request))
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(self.try_unlock(lease, request))
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(self.try_inspect(name))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(self.try_list(request))
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForcedUnlock, Error>> {
        Box::pin(async move {
            let records = self.records()?;
            if self.fault == Fault::ForcedUnlockEndsPauses {
                let resume = ResumeRequest::new(request.name().clone());
                if let Resumed::Resumed(before) = records.resume(&resume).await? {
                    return Ok(ForcedUnlock::Freed(before));
                }
            }
            records.force_unlock(request).await
        })
    }

    fn reset_slot<'a>(
        &'a self,
        request: &'a ResetSlotRequest,
    ) -> BoxFuture<'a, Result<SlotReset, Error>> {
        Box::pin(async move { self.records()?.reset_slot(request).await })
    }

    fn pause<'a>(&'a self, request: &'a PauseRequest) -> BoxFuture<'a, Result<Paused, Error>> {
        Box::pin(async move {
            let records = self.records()?;
            let request = match self.fault {
                Fault::PauseTakesHeldLocks => request.clone().replacing_holder(),
                Fault::PauseIsNotIdempotent => {
                    let again = PauseRequest::new(request.name().clone(), "alice");
                    again.with_reason("the mail server is down")
                }
                _ => request.clone(),
            };
            records.pause(&request).await
        })
    }

    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> BoxFuture<'a, Result<Resumed, Error>> {
        Box::pin(async move {
            let records = self.records()?;
            let name = request.name().clone();
            if self.fault == Fault::PauseForgetsSlots {
                return records
                    .resume(&ResumeRequest::new(name).catching_up())
                    .await;
            }
            let answer = records.resume(request).await?;
            match answer {
                Resumed::NotPaused(Some(record))
                    if self.fault == Fault::ResumeFreesHeldLocks
                        && record.state == LockState::Held =>
                {
                    records.force_unlock(&ForceUnlockRequest::new(name)).await?;
                    Ok(Resumed::Resumed(record))
                }
                answer => Ok(answer),
            }
        })
    }

    fn prune<'a>(&'a self, request: &'a PruneRequest) -> BoxFuture<'a, Result<Pruned, Error>> {
        Box::pin(self.try_prune(request))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { self.records().map(drop) })
    }

    fn capabilities(&self) -> Capabilities {
        self.store.records.capabilities()
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        "wrong"
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async {
            self.store.is_gone.store(false, Ordering::SeqCst);
            self.records()?.migrate().await
        })
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(async {
            let is_wrong = self.fault == Fault::PlansWhatIsThere;
            let step = is_wrong.then(|| MigrationStep::new("create the records"));
            Ok(step.into_iter().collect())
        })
    }
}

/// The last slot of this record, if it is open and could be taken over.
fn open_and_free(record: Option<&LockRecord>) -> Option<Slot> {
    let record = record.filter(|record| record.state == LockState::Free)?;
    record.slot_attempts.and(record.last_slot)
}

/// Long enough for the other contenders to take their first step too.
#[expect(
    clippy::disallowed_methods,
    reason = "this store runs on the real clock"
)]
async fn between_the_steps() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
