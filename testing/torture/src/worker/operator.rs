//! An operator, who pauses locks, resumes them and frees them by force, at random.

use shedlock_conformance::BoxError;
use shedlock_conformance::wait::{now, sleep};
use shedlock_core::{
    Error, ErrorKind, ForceUnlockRequest, ForcedUnlock, LockName, LockState, PauseRequest, Paused,
    ResumeRequest, admin,
};

use shedlock_proof::Recorder as _;

use super::{PAUSE, Worker};
use shedlock_proof::history::What;

/// How many times the patience a request may take, which may wait for a task.
pub(super) const LONGEST: u32 = 2;

impl Worker {
    /// Operates until the process ends.
    pub(super) async fn operate(&mut self) -> Result<(), BoxError> {
        loop {
            self.look_at_the_wall_clock()?;
            let job = self.rng.pick(&self.spec.jobs).clone();
            match self.operate_on(LockName::new(&job.name)?).await {
                Err(error) if !error.is_retryable() => return Err(error.into()),
                Err(_) => sleep(PAUSE).await,
                Ok(()) => {}
            }
            let rest = self.spec.rest.max(self.spec.at_most / 3);
            sleep(self.rng.up_to(rest)).await;
        }
    }

    async fn operate_on(&mut self, name: LockName) -> Result<(), Error> {
        let Some(record) = self.answer(self.provider.inspect(&name)).await? else {
            // The pause would create the record as an owner that is in no log.
            return Ok(());
        };
        let (state, owner) = (record.state, record.owner.unwrap_or_default());
        let pause = match state {
            LockState::Paused => owner,
            LockState::Held if self.rng.one_in(2) => return self.free(name, &owner).await,
            _ => return self.pause(name).await,
        };
        match self.rng.number() % 6 {
            // It may end by itself.
            0 => Ok(()),
            1 => self.pause(name).await,
            2 => self.force(name, &pause).await,
            _ => self.resume(name).await,
        }
    }

    /// Pauses the lock: for a while or until it is resumed, after the running task or instead of it.
    async fn pause(&mut self, name: LockName) -> Result<(), Error> {
        let mut request = PauseRequest::new(name, "torturer").with_reason("to see who obeys");
        if !self.rng.one_in(4) {
            let at_most = self.spec.at_most;
            request = request.lasting(at_most / 2 + self.rng.up_to(at_most));
        }
        // Until when it waits for a running task.
        let mut until = None;
        if self.rng.one_in(2) {
            until = Some(now() + self.rng.up_to(self.spec.at_most));
        } else {
            request = request.replacing_holder();
        }
        loop {
            match (self.answer(self.recorded.pause(&request)).await, until) {
                (Err(error), None) if error.is_outcome_unknown() && self.rng.one_in(2) => {}
                (Err(error), Some(until)) if error.is_retryable() && now() < until => {}
                (Ok(Paused::Held(_)), Some(until)) if now() < until => {}
                (Ok(Paused::Held(found)), None) => {
                    let wrong = format!("a pause that replaces the holder was refused: {found:?}");
                    return Err(Error::new(ErrorKind::Internal, wrong));
                }
                (answer, _) => return answer.map(drop),
            }
            sleep(PAUSE).await;
        }
    }

    async fn resume(&mut self, name: LockName) -> Result<(), Error> {
        let mut request = ResumeRequest::new(name);
        if self.rng.one_in(3) {
            request = request.catching_up();
        }
        self.answer(self.recorded.resume(&request)).await.map(drop)
    }

    /// Frees the lock of a holder that still runs.
    async fn free(&mut self, name: LockName, holder: &str) -> Result<(), Error> {
        let request = ForceUnlockRequest::new(name).with_expected_owner(holder);
        self.journal
            .write(&request.name, holder, What::ForceAsked)?;
        self.answer(admin::force_unlock(&*self.provider, &request))
            .await
            .map(drop)
    }

    /// A forced unlock must refuse the pause.
    async fn force(&mut self, name: LockName, pause: &str) -> Result<(), Error> {
        let request = ForceUnlockRequest::new(name).with_expected_owner(pause);
        let answer = self
            .answer(admin::force_unlock(&*self.provider, &request))
            .await?;
        if matches!(answer, ForcedUnlock::Freed(_)) {
            self.journal.write(&request.name, pause, What::Forced)?;
        }
        Ok(())
    }
}
