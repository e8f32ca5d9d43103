//! A task that logs all of its steps.

use std::time::Duration;

use shedlock_conformance::BoxError;
use shedlock_conformance::wait::{now, sleep};
use shedlock_core::{CurrentLock, ErrorKind, Owner, current_lock};

use super::journal::Journal;
use shedlock_proof::history::What;

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) journal: Journal,
    pub(super) takes: Duration,
    /// The pause between two of its steps.
    pub(super) pause: Duration,
}

impl Task {
    /// Runs inside the executor; if `spawned`, in a separate task that shares the lock. Returns the owner.
    pub(super) async fn run(self, spawned: bool) -> Result<Owner, BoxError> {
        let lock = current_lock().ok_or("a task of the executor's has no current lock")?;
        let owner = lock.owner().clone();
        self.run_under(lock, spawned).await.map(|()| owner)
    }

    async fn run_under(self, lock: CurrentLock, spawned: bool) -> Result<(), BoxError> {
        if !spawned {
            return self.steps(lock).await;
        }
        let inside = lock.clone();
        let inside = match lock.spawn(async move { self.steps(inside).await }) {
            Err(error) if error.kind() == ErrorKind::Lost => return Ok(()),
            spawned => spawned?,
        };
        match inside.await {
            // The lease has ended.
            Err(error) if error.is_cancelled() => Ok(()),
            ended => ended?,
        }
    }

    async fn steps(self, lock: CurrentLock) -> Result<(), BoxError> {
        let until = now() + self.takes;
        loop {
            // The moment of the step, whenever it is written.
            let moment = now();
            self.journal
                .write_at(moment, lock.name(), lock.owner().as_str(), What::Step)?;
            if moment >= until {
                return Ok(());
            }
            sleep(self.pause).await;
        }
    }
}
