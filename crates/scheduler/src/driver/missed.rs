//! The slots that were missed while no replica ran.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Error, ErrorKind, LockName, Slot};
use tokio::task::JoinSet;

use super::Shared;
use super::timers::JobId;
use crate::Job;
use shedlock_support::Backoff;

/// Reads the last slots of jobs from the store, a few at a time, round robin. A query that fails
/// goes to the end of the queue. There is a pause only if all fail.
pub(super) struct Questions {
    waiting: VecDeque<Question>,
    asked: JoinSet<(Question, Result<Option<LastSlot>, Error>)>,
    /// Failures since the last result or the last pause.
    failures: usize,
    backoff: Backoff,
    rest: Option<BoxFuture<'static, ()>>,
}

struct Question {
    id: JobId,
    job: Arc<Job>,
    /// When the next slot is due. From then on, slots missed before it no longer matter.
    until: Option<SystemTime>,
}

/// What the store has recorded for a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastSlot {
    /// The last slot that was taken.
    pub(super) slot: Slot,
    /// The slot must not be lost, and is not done.
    pub(super) is_open: bool,
}

const AT_ONCE: usize = 16;
const TIME_LIMIT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Default for Questions {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            asked: JoinSet::new(),
            failures: 0,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            rest: None,
        }
    }
}

impl Questions {
    pub(super) fn add(&mut self, shared: &Arc<Shared>, id: JobId, job: Arc<Job>) {
        let now = shared.clock.system_time();
        let until = job.schedule.next_after(now).map(Slot::instant);
        self.waiting.push_back(Question { id, job, until });
        self.ask(shared);
    }

    /// Adds a question in place of the one that waits for this job, if there is one.
    pub(super) fn renew(&mut self, shared: &Arc<Shared>, id: JobId, job: Arc<Job>) {
        self.waiting.retain(|question| question.id != id);
        self.add(shared, id, job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.waiting.is_empty()
    }

    /// Returns the next result: the last slot that was taken, if the job ever ran. May complete
    /// with `None` before there is a result. Cancellation safe.
    pub(super) async fn next(&mut self, shared: &Arc<Shared>) -> Option<(JobId, Option<LastSlot>)> {
        let rest = async {
            match &mut self.rest {
                Some(rest) => rest.await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            Some(asked) = self.asked.join_next() => match asked {
                Ok((question, answer)) => self.heard(shared, question, answer),
                // The query panicked in a provider and has no result.
                Err(error) => {
                    if let Ok(panic) = error.try_into_panic() {
                        shared.panicked(None, &*panic);
                    }
                    None
                }
            },
            () = rest => {
                self.rest = None;
                None
            }
        };
        self.ask(shared);
        answer
    }

    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        self.asked.abort_all();
    }

    fn ask(&mut self, shared: &Arc<Shared>) {
        while self.rest.is_none() && self.asked.len() < AT_ONCE {
            let Some(question) = self.waiting.pop_front() else {
                return;
            };
            let shared = shared.clone();
            self.asked.spawn(async move {
                let answer = ask(&shared, question.job.name()).await;
                (question, answer)
            });
        }
    }

    fn heard(
        &mut self,
        shared: &Shared,
        question: Question,
        answer: Result<Option<LastSlot>, Error>,
    ) -> Option<(JobId, Option<LastSlot>)> {
        let clock = &shared.clock;
        let job = question.job.name();
        let error = match answer {
            Ok(last) => {
                self.failures = 0;
                self.backoff.reset();
                return Some((question.id, last));
            }
            Err(error) => error,
        };
        let in_time = question
            .until
            .is_some_and(|until| clock.system_time() < until);
        if !error.is_retryable() || !in_time {
            tracing::error!(job, error = %format_args!("{error:#}"), "cannot determine whether a slot was missed");
            return Some((question.id, None));
        }
        tracing::warn!(job, error = %format_args!("{:#}", error.cause(job)),
            "cannot yet determine whether a slot was missed, retrying");
        self.waiting.push_back(question);
        self.failures += 1;
        if self.failures >= AT_ONCE.min(self.waiting.len() + self.asked.len()) {
            self.failures = 0;
            self.rest = Some(clock.sleep_until(clock.now() + self.backoff.take()));
        }
        None
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
            let late = "the store did not reply in time";
            Err(Error::new(ErrorKind::Unavailable, late).with_store(provider.store()))
        }
    }
}
