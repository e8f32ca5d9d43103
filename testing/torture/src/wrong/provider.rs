//! Adds one mistake to a correct provider.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use shedlock_conformance::Provider;
use shedlock_conformance::wait::{now, sleep};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Clock as _, Error, ErrorKind, ExtendRequest, Extension,
    ForceUnlockRequest, ForcedUnlock, Lease, LockName, LockProvider, LockState, Moment, Owner,
    PauseRequest, Paused, ResetSlotRequest, ResumeRequest, Resumed, SkipReason, SlotEnd,
    SystemClock, Unlock, UnlockRequest,
};

use super::clock::WrongClock;
use super::{Wrong, late};
use shedlock_proof::SeededRng;

pub(super) struct WrongProvider {
    wrong: Wrong,
    inner: Provider,
    clock: Arc<WrongClock>,
    rng: Mutex<SeededRng>,
    acquisitions: AtomicU64,
    /// The last attempt, and when it was made.
    asked: Mutex<Option<(Owner, Moment)>>,
}

impl fmt::Debug for WrongProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrongProvider({:?}, {:?})", self.wrong, self.inner)
    }
}

impl WrongProvider {
    pub(super) fn new(
        wrong: Wrong,
        inner: Provider,
        clock: Arc<WrongClock>,
        rng: SeededRng,
    ) -> Self {
        Self {
            wrong,
            inner,
            clock,
            rng: Mutex::new(rng),
            acquisitions: AtomicU64::new(0),
            asked: Mutex::new(None),
        }
    }

    fn one_in(&self, n: u64) -> bool {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        rng.one_in(n)
    }

    async fn try_attempt(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let at_most = request.lock_at_most_for();
        match self.wrong {
            Wrong::OwnerIsHost => self.as_host(request).await,
            Wrong::ReadThenWrite => self.read_then_write(request).await,
            Wrong::EndsEarly => {
                let shorter = again(request, request.owner(), at_most * 2 / 3);
                self.inner.attempt(&shorter).await
            }
            Wrong::EndsLate => {
                let longer = again(request, request.owner(), at_most * 2);
                self.inner.attempt(&longer).await
            }
            Wrong::AtLeastTooEarly => {
                let at_least = request.lock_at_least_for() / 3;
                let less = request.clone().with_lock_at_least_for(at_least);
                self.inner.attempt(&less).await
            }
            Wrong::DeadlineFromReply => {
                let asked = now();
                let answer = self.inner.attempt(request).await?;
                if matches!(answer, Attempt::Acquired(_)) && self.one_in(2) {
                    sleep(at_most / 3).await;
                }
                self.clock.stood_still_since(asked);
                Ok(answer)
            }
            Wrong::DeadlineFromLastAsk => self.lose_the_first_answer(request).await,
            Wrong::SlotOfLeaseOnly => {
                let without = again(request, request.owner(), at_most);
                self.inner.attempt(&without).await
            }
            Wrong::SlotsAnyOrder => self.any_other_slot(request).await,
            Wrong::ClockAhead => self.ahead(request).await,
            Wrong::PauseIgnored => {
                let answer = self.inner.attempt(request).await?;
                match &answer {
                    Attempt::Skipped(skip) if skip.reason == SkipReason::Paused => {
                        self.end_pause(request.name()).await?;
                        self.inner.attempt(request).await
                    }
                    _ => Ok(answer),
                }
            }
            Wrong::LateAttempt if self.one_in(4) => {
                late::attempt(Arc::clone(&self.inner), request.clone());
                Err(Error::new(
                    ErrorKind::OutcomeUnknown,
                    "it is still on its way",
                ))
            }
            _ => self.inner.attempt(request).await,
        }
    }

    /// Attempts as the one owner that all processes share. The store refuses an owner that has
    /// released the lock, so this erases the mark that the release left.
    async fn as_host(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let at_most = request.lock_at_most_for();
        let attempt = again(request, &host()?, at_most);
        match self.inner.attempt(&attempt).await {
            Err(error) if error.kind() == ErrorKind::Lost => {
                late::another_lease(&*self.inner, request.name(), at_most).await?;
                self.inner.attempt(&attempt).await
            }
            answer => answer,
        }
    }

    /// Reads and writes in two steps, and overwrites whatever happened in between.
    async fn read_then_write(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let read = self.inner.inspect(request.name()).await?;
        if let Some(record) = read
            && record.state != LockState::Free
        {
            return Ok(Attempt::Skipped(record.as_skip()));
        }
        // As far apart as two statements.
        sleep(Duration::from_millis(2)).await;
        let answer = self.inner.attempt(request).await?;
        if let Attempt::Skipped(skip) = &answer
            && skip.reason == SkipReason::Held
        {
            self.force(request.name()).await?;
            return self.inner.attempt(request).await;
        }
        Ok(answer)
    }

    /// Imitates a network that sometimes loses the reply to a won attempt, and a clock that counts
    /// from the last repetition.
    async fn lose_the_first_answer(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let before = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.replace((request.owner().clone(), now()))
        };
        if let Some((owner, moment)) = before
            && owner == *request.owner()
        {
            self.clock.stood_still_since(moment);
            return self.inner.attempt(request).await;
        }
        let answer = self.inner.attempt(request).await?;
        if matches!(answer, Attempt::Acquired(_)) && self.one_in(2) {
            sleep(request.lock_at_most_for() / 4).await;
            return Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"));
        }
        Ok(answer)
    }

    /// Treats only the last slot itself as taken.
    async fn any_other_slot(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let answer = self.inner.attempt(request).await?;
        if let Attempt::Skipped(skip) = &answer
            && skip.reason == SkipReason::SlotTaken
            && skip.last_slot > request.slot()
        {
            let without = again(request, request.owner(), request.lock_at_most_for());
            return self.inner.attempt(&without).await;
        }
        Ok(answer)
    }

    /// Treats a lease that ends within half a lease as expired.
    async fn ahead(&self, request: &AttemptRequest) -> Result<Attempt, Error> {
        let record = self.inner.inspect(request.name()).await?;
        if let Some(record) = record
            && record.state == LockState::Held
            && let Some(until) = record.locked_until
        {
            let read_at = record.read_at.unwrap_or_else(|| SystemClock.system_time());
            if until < read_at + request.lock_at_most_for() / 2 {
                self.force(request.name()).await?;
            }
        }
        self.inner.attempt(request).await
    }

    async fn force(&self, name: &LockName) -> Result<(), Error> {
        let request = ForceUnlockRequest::new(name.clone());
        self.inner.force_unlock(&request).await.map(drop)
    }

    /// The lease that the caller gets.
    fn told(&self, request: &AttemptRequest, lease: Lease) -> Result<Lease, Error> {
        let number = self.acquisitions.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(match self.wrong {
            Wrong::TokensOfProcess => lease.with_fencing_token(number),
            Wrong::TokensStand => {
                let since = SystemClock.system_time().duration_since(UNIX_EPOCH);
                lease.with_fencing_token(since.unwrap_or_default().as_secs())
            }
            // The caller sees its own name as owner; the state that the store needs is passed
            // along.
            Wrong::OwnerIsHost => {
                let mut told = Lease::granted(request).with_raw_state(lease.raw_state().cloned());
                if let Some(token) = lease.fencing_token() {
                    told = told.with_fencing_token(token);
                }
                told
            }
            _ => lease,
        })
    }

    /// The lease as the store has it.
    fn stored(&self, lease: &Lease) -> Result<Lease, Error> {
        if self.wrong != Wrong::OwnerIsHost {
            return Ok(lease.clone());
        }
        let request = AttemptRequest::new(lease.name().clone(), host()?, lease.lock_at_most_for())
            .with_lock_at_least_for(lease.lock_at_least_for());
        Ok(Lease::granted(&request).with_raw_state(lease.raw_state().cloned()))
    }

    async fn try_extend(&self, lease: &Lease, request: &ExtendRequest) -> Result<Extension, Error> {
        let extended = self.inner.extend(&self.stored(lease)?, request).await?;
        if self.wrong == Wrong::LateExtension && matches!(extended, Extension::Extended(_)) {
            late::take_again(&*self.inner, lease, request.lock_at_most_for() / 4).await?;
        }
        let holder = match (&extended, self.wrong) {
            (Extension::Lost, Wrong::ExtendWithoutOwner) => {
                let record = self.inner.inspect(lease.name()).await?;
                let held = record.filter(|record| record.state == LockState::Held);
                held.and_then(|record| record.owner)
            }
            (Extension::Lost, Wrong::ExtendRevives) => Some(lease.owner().to_string()),
            _ => None,
        };
        let Some(holder) = holder else {
            return Ok(extended);
        };
        // As that owner: the attempt finds the existing lease or creates a new one.
        let name = lease.name().clone();
        let theirs = AttemptRequest::new(name, Owner::parse(&holder)?, request.lock_at_most_for());
        Ok(match self.inner.attempt(&theirs).await? {
            Attempt::Acquired(_) => Extension::Extended(lease.extended(request)),
            _ => Extension::Lost,
        })
    }

    async fn try_unlock(&self, lease: &Lease, request: &UnlockRequest) -> Result<Unlock, Error> {
        let request = request.clone();
        match self.wrong {
            Wrong::UnlockForgotten => Ok(Unlock::Unlocked),
            Wrong::UnlockWithoutOwner => {
                let unlock = self.inner.unlock(lease, &request).await?;
                if unlock == Unlock::Lost {
                    self.force(lease.name()).await?;
                }
                Ok(Unlock::Unlocked)
            }
            Wrong::PauseFreedByUnlock => {
                let unlock = self.inner.unlock(lease, &request).await?;
                if unlock == Unlock::Lost {
                    self.end_pause(lease.name()).await?;
                }
                Ok(unlock)
            }
            Wrong::AtLeastForgotten => {
                let request = request.ignoring_at_least();
                self.inner.unlock(lease, &request).await
            }
            Wrong::OwnerReturns => {
                let unlock = self.inner.unlock(lease, &request).await?;
                let is_free = lease.lock_at_least_for().is_zero();
                if unlock == Unlock::Unlocked && is_free && self.one_in(3) {
                    late::take_again(&*self.inner, lease, lease.lock_at_most_for()).await?;
                }
                Ok(unlock)
            }
            Wrong::SlotGivenBackTwice if request.slot_end() == SlotEnd::NotStarted => {
                let unlock = self.inner.unlock(lease, &request).await?;
                sleep(lease.lock_at_most_for() / 8).await;
                self.give_back(lease).await?;
                Ok(unlock)
            }
            _ => self.inner.unlock(&self.stored(lease)?, &request).await,
        }
    }

    async fn try_pause(&self, request: &PauseRequest) -> Result<Paused, Error> {
        match self.wrong {
            Wrong::PauseTakesTheLock => {
                let taking = request.clone().replacing_holder();
                self.inner.pause(&taking).await
            }
            Wrong::PauseEndsEarly => {
                let longest = self.inner.capabilities().longest_lock_at_most_for;
                let lasts = request.duration(SystemClock.system_time(), longest)?;
                let shorter = request.clone().lasting(lasts / 2);
                self.inner.pause(&shorter).await
            }
            Wrong::PauseForgetsSlots => {
                let paused = self.inner.pause(request).await?;
                if let Paused::Done { before, .. } = &paused
                    && let Some(last) = before.as_ref().and_then(|before| before.last_slot)
                {
                    let name = request.name().clone();
                    let reset = ResetSlotRequest::new(name).with_slot(last);
                    self.inner.reset_slot(&reset).await?;
                }
                Ok(paused)
            }
            _ => self.inner.pause(request).await,
        }
    }

    async fn try_resume(&self, request: &ResumeRequest) -> Result<Resumed, Error> {
        match self.wrong {
            Wrong::PauseForgetsSlots => self.inner.resume(&request.clone().catching_up()).await,
            Wrong::ResumeForgotten => {
                let record = self.inner.inspect(request.name()).await?;
                Ok(match record {
                    Some(record) if record.state == LockState::Paused => Resumed::Resumed(record),
                    record => Resumed::NotPaused(record),
                })
            }
            _ => self.inner.resume(request).await,
        }
    }

    async fn try_force(&self, request: &ForceUnlockRequest) -> Result<ForcedUnlock, Error> {
        match self.inner.force_unlock(request).await? {
            ForcedUnlock::Paused(record) if self.wrong == Wrong::PauseForced => {
                self.end_pause(request.name()).await?;
                Ok(ForcedUnlock::Freed(record))
            }
            answer => Ok(answer),
        }
    }

    async fn end_pause(&self, name: &LockName) -> Result<(), Error> {
        let request = ResumeRequest::new(name.clone());
        self.inner.resume(&request).await.map(drop)
    }

    /// Gives back the slot of this lease if it is the last one, in two steps and regardless of its
    /// holder.
    async fn give_back(&self, lease: &Lease) -> Result<(), Error> {
        let Some(record) = self.inner.inspect(lease.name()).await? else {
            return Ok(());
        };
        if let Some(slot) = lease.slot()
            && record.last_slot == Some(slot)
        {
            let request = ResetSlotRequest::new(lease.name().clone()).with_slot(slot.just_before());
            self.inner.reset_slot(&request).await?;
        }
        Ok(())
    }
}

fn host() -> Result<Owner, Error> {
    Owner::parse("host/0/0")
}

/// The same attempt for another owner, for this long and without its slot.
fn again(request: &AttemptRequest, owner: &Owner, at_most: Duration) -> AttemptRequest {
    let at_least = request.lock_at_least_for().min(at_most);
    AttemptRequest::new(request.name().clone(), owner.clone(), at_most)
        .with_lock_at_least_for(at_least)
}

impl LockProvider for WrongProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            Ok(match self.try_attempt(request).await? {
                Attempt::Acquired(lease) => Attempt::Acquired(self.told(request, lease)?),
                answer => answer,
            })
        })
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

    fn pause<'a>(&'a self, request: &'a PauseRequest) -> BoxFuture<'a, Result<Paused, Error>> {
        Box::pin(self.try_pause(request))
    }

    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> BoxFuture<'a, Result<Resumed, Error>> {
        Box::pin(self.try_resume(request))
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForcedUnlock, Error>> {
        Box::pin(self.try_force(request))
    }

    shedlock_core::delegate!(inner except attempt, extend, unlock, pause, resume, force_unlock);
}
