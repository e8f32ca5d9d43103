//! What was missed while no replica ran.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{Error, ErrorKind, LockName, Slot};
use tokio::task::JoinSet;

use super::Shared;
use super::timers::JobId;
use crate::Job;

/// Asks the store for the last slots of jobs, a few at a time.
#[derive(Default)]
pub(super) struct Questions {
    waiting: VecDeque<(JobId, Arc<Job>)>,
    asked: JoinSet<(JobId, Option<LastSlot>)>,
}

/// What the store knows of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastSlot {
    /// The last slot that was taken.
    pub(super) slot: Slot,
    /// It must not be lost, and is not done.
    pub(super) is_open: bool,
}

const AT_ONCE: usize = 16;
const TIME_LIMIT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Questions {
    pub(super) fn add(&mut self, shared: &Arc<Shared>, id: JobId, job: Arc<Job>) {
        self.waiting.push_back((id, job));
        self.ask(shared);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The next answer: the last slot that was taken, where the job ever ran.
    pub(super) async fn next(&mut self, shared: &Arc<Shared>) -> Option<(JobId, Option<LastSlot>)> {
        let answer = self.asked.join_next().await;
        self.ask(shared);
        // A question that panicked, in a provider, has no answer.
        answer?.ok()
    }

    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        self.asked.abort_all();
    }

    fn ask(&mut self, shared: &Arc<Shared>) {
        while self.asked.len() < AT_ONCE
            && let Some((id, job)) = self.waiting.pop_front()
        {
            let shared = shared.clone();
            self.asked
                .spawn(async move { (id, last_slot(&shared, &job).await) });
        }
    }
}

/// Asked again while the store fails, until the next slot is due and this one is over anyway.
async fn last_slot(shared: &Shared, job: &Job) -> Option<LastSlot> {
    let clock = &shared.clock;
    let until: Option<SystemTime> = job
        .schedule
        .next_after(clock.system_time())
        .map(Slot::instant);
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match ask(shared, job.name()).await {
            Ok(slot) => return slot,
            Err(error) => error,
        };
        let in_time = until.is_some_and(|until| clock.system_time() < until);
        if !error.is_retryable() || !in_time {
            tracing::error!(job = job.name(), error = %error,
                "could not find out whether a slot was missed");
            return None;
        }
        tracing::warn!(job = job.name(), error = %error,
            "could not find out yet whether a slot was missed");
        clock.sleep_until(clock.now() + pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn ask(shared: &Shared, name: &str) -> Result<Option<LastSlot>, Error> {
    let name = LockName::new(name)?;
    let clock = &shared.clock;
    let provider = shared.executor.provider();
    tokio::select! {
        biased;
        record = provider.inspect(&name) => Ok(record?.and_then(|record| {
            Some(LastSlot {
                slot: record.last_slot?,
                is_open: record.slot_attempts.is_some(),
            })
        })),
        () = clock.sleep_until(clock.now() + TIME_LIMIT) => {
            let late = "the store did not answer in time";
            Err(Error::new(ErrorKind::Unavailable, late).with_store(provider.store()))
        }
    }
}
