//! A provider that logs its calls and their results.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Clock as _, Error, ExtendRequest, Extension, Lease,
    LockName, LockProvider, Owner, Pause, PauseRequest, Paused, ResumeRequest, Resumed, SlotEnd,
    SystemClock, Unlock, UnlockRequest, admin,
};

use crate::history::{What, nanos};

/// The longest pause.
const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Where the events of one process go.
pub trait Recorder: Send + Sync + 'static {
    /// Records what happens at the current moment.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&self, name: &LockName, owner: &str, what: What) -> Result<(), Error>;
}

/// Logs a call that was dropped before its reply arrived: its outcome is unknown.
struct Call<'a, R: Recorder> {
    recorder: &'a R,
    name: &'a LockName,
    owner: &'a str,
    /// What is logged if there is no reply; `None` once there is one.
    unanswered: Option<What>,
}

impl<R: Recorder> Call<'_, R> {
    fn answered(mut self, what: What) -> Result<(), Error> {
        self.unanswered = None;
        self.recorder.write(self.name, self.owner, what)
    }
}

impl<R: Recorder> Drop for Call<'_, R> {
    fn drop(&mut self) {
        if let Some(what) = self.unanswered.take() {
            // If the log cannot be written, the next call reports it.
            let _ = self.recorder.write(self.name, self.owner, what);
        }
    }
}

/// Records all calls to a provider that change a lock, and their results.
pub struct Recorded<R> {
    inner: Arc<dyn LockProvider>,
    recorder: R,
    /// How long the caller of an operator's request waits for a reply.
    longest_call: Duration,
}

impl<R: Recorder> Recorded<R> {
    /// A provider whose calls are recorded here. The caller of an operator's request waits at most
    /// this long for a reply.
    pub fn new(inner: Arc<dyn LockProvider>, recorder: R, longest_call: Duration) -> Self {
        Self {
            inner,
            recorder,
            longest_call,
        }
    }

    /// Starts a call, with the event to log if it gets no reply.
    fn call<'a>(
        &'a self,
        name: &'a LockName,
        owner: &'a str,
        sent: What,
        unanswered: What,
    ) -> Result<Call<'a, R>, Error> {
        self.recorder.write(name, owner, sent)?;
        Ok(Call {
            recorder: &self.recorder,
            name,
            owner,
            unanswered: Some(unanswered),
        })
    }

    /// Pauses a lock ([`admin::pause`]).
    ///
    /// # Errors
    /// As there, and if it cannot be recorded.
    pub async fn pause(&self, request: &PauseRequest) -> Result<Paused, Error> {
        let longest = self.inner.capabilities().longest_lock_at_most_for;
        let lasts = request.duration(SystemClock.system_time(), longest.min(HUNDRED_YEARS))?;
        let owner = request.owner();
        let id = Pause::parse(&owner).map_or(&*owner, |pause| pause.id());
        let sent = What::pause_asked(request, lasts, self.longest_call);
        let call = self.call(&request.name, id, sent, What::Unknown)?;
        let answer = admin::pause(&*self.inner, request).await;
        call.answered(match &answer {
            Ok(paused) => What::paused(paused),
            Err(error) if error.is_outcome_unknown() => What::Unknown,
            Err(_) => What::Failed,
        })?;
        answer
    }

    /// Ends the pause of a lock ([`admin::resume`]).
    ///
    /// # Errors
    /// As there, and if it cannot be recorded.
    pub async fn resume(&self, request: &ResumeRequest) -> Result<Resumed, Error> {
        let call = Owner::generate();
        let sent = What::ResumeAsked {
            catches_up: request.catches_up,
            timeout: nanos(self.longest_call),
        };
        let call = self.call(&request.name, call.as_str(), sent, What::Unknown)?;
        let answer = admin::resume(&*self.inner, request).await;
        call.answered(match &answer {
            Ok(resumed) => What::resumed(resumed),
            Err(error) if error.is_outcome_unknown() => What::Unknown,
            Err(_) => What::Failed,
        })?;
        answer
    }
}

impl<R> fmt::Debug for Recorded<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded({:?})", self.inner)
    }
}

impl<R: Recorder> LockProvider for Recorded<R> {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            let sent = What::asked(request);
            let call = self.call(&request.name, request.owner.as_str(), sent, What::Unknown)?;
            let answer = self.inner.attempt(request).await;
            call.answered(match &answer {
                Ok(Attempt::Acquired(lease)) => What::acquired(lease),
                Ok(Attempt::Skipped(skip)) => What::skipped(skip),
                Ok(_) => What::Unknown,
                Err(error) if error.is_outcome_unknown() => What::Unknown,
                Err(_) => What::Failed,
            })?;
            answer
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let (name, owner) = (&request.name, request.owner.as_str());
            if request.slot.is_some() {
                let unused = true;
                self.recorder
                    .write(name, owner, What::SlotGivenBack { unused })?;
            }
            let call = self.call(name, owner, What::Withdrawn, What::CallFailed)?;
            let answer = self.inner.withdraw(request).await;
            call.answered(match &answer {
                Ok(_) => What::Withdrew,
                Err(_) => What::CallFailed,
            })?;
            answer
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            let sent = What::RenewAsked {
                at_most: nanos(request.lock_at_most_for),
            };
            let call = self.call(lease.name(), lease.owner().as_str(), sent, What::CallFailed)?;
            let answer = self.inner.extend(lease, request).await;
            call.answered(match &answer {
                Ok(Extension::Extended(lease)) => What::renewed(lease),
                Ok(_) => What::RenewLost,
                Err(_) => What::CallFailed,
            })?;
            answer
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            let (name, owner) = (lease.name(), lease.owner().as_str());
            let said = match request.slot_end {
                SlotEnd::Done { .. } => Some(What::SlotDone),
                SlotEnd::NotStarted => Some(What::SlotGivenBack { unused: true }),
                SlotEnd::Cut => Some(What::SlotGivenBack { unused: false }),
                _ => None,
            };
            if let Some(said) = said {
                self.recorder.write(name, owner, said)?;
            }
            let call = self.call(name, owner, What::ReleaseAsked, What::CallFailed)?;
            let answer = self.inner.unlock(lease, request).await;
            call.answered(match &answer {
                Ok(Unlock::Unlocked) => What::Released,
                Ok(_) => What::ReleaseLost,
                Err(_) => What::CallFailed,
            })?;
            answer
        })
    }

    shedlock_core::delegate!(inner except attempt, withdraw, extend, unlock);
}
