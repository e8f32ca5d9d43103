//! A process that acquires and releases locks on its own until it is stopped or killed.

mod cut_ends;
mod journal;
mod operator;
mod spec;
mod task;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use shedlock_conformance::child::Opener;
use shedlock_conformance::wait::{PATIENCE, bounded, now, sleep};
use shedlock_conformance::{BoxError, Provider};
use shedlock_core::{
    Attempt, AttemptRequest, ClockSource, Copies, Error, ErrorKind, Executor, ExtendRequest,
    Extension, Lease, LockConfig, LockName, Outcome, Owner, Release, Skip, SkipReason, Slot,
    SlotEnd, UnlockRequest,
};
use tokio::io::AsyncReadExt;

use crate::wall_clock;
use shedlock_proof::history::{What, nanos};
use shedlock_proof::{Mistaken, Recorded, Recorder as _, SeededRng, Surroundings};

use cut_ends::CutEnds;
use journal::Journal;
pub(crate) use spec::{Grid, Job, Slots, WorkerSpec};
use task::Task;

/// The pause after a failed call.
const PAUSE: Duration = Duration::from_millis(20);

/// The name of its role in child processes.
pub(crate) const ROLE: &str = "worker";

/// How long a worker waits for its connection before it starts over: a connection that has fallen
/// silent reports no error.
const CONNECTING: Duration = Duration::from_secs(10);

/// A worker may start while the store has crashed and is not back yet, or while the connection to
/// it is cut.
async fn open_while_it_may_be_down(opener: &Opener) -> Result<Provider, BoxError> {
    let started = now();
    loop {
        let opened = bounded(CONNECTING, opener.open()).await;
        let may_wait = now().saturating_since(started) < PATIENCE;
        match opened {
            Some(Ok(provider)) => return Ok(provider),
            _ if may_wait => sleep(Duration::from_millis(100)).await,
            Some(refused) => return refused,
            None => return Err("the store could not be reached in time".into()),
        }
    }
}

/// Works until its standard input ends.
pub(crate) async fn play(opener: Opener, spec: Value) -> Result<(), BoxError> {
    let spec: WorkerSpec = serde_json::from_value(spec)?;
    let provider = open_while_it_may_be_down(&opener).await?;
    let journal = Journal::open(&spec.log)?;
    let provider = Arc::new(CutEnds::new(provider, spec.seed));
    let mistaken = Mistaken::new(spec.wrong, provider, Surroundings::new(spec.seed));
    let clock = mistaken.clock();
    let patience = operator::LONGEST * spec.patience;
    let recorded = Recorded::new(Arc::new(mistaken), journal.clone(), patience);
    let recorded = Arc::new(recorded);
    let provider: Provider = recorded.clone();
    let mut executor = Executor::new(Arc::clone(&provider)).store_timeout(spec.patience);
    if let Some(clock) = clock {
        executor = executor.clock(clock);
    }
    let capabilities = provider.capabilities();
    let clients_skew = match capabilities.clock {
        ClockSource::Clients { tolerated_skew } => tolerated_skew,
        _ => Duration::ZERO,
    };
    let executes = spec.at_most > 2 * (clients_skew + capabilities.server_skew);
    let mut worker = Worker {
        recorded,
        provider,
        executor,
        executes,
        journal,
        rng: SeededRng::new(spec.seed),
        wall_clock: None,
        spec,
    };
    let mut stop = [0];
    let mut input = tokio::io::stdin();
    tokio::select! {
        _ = input.read(&mut stop) => Ok(()),
        result = worker.work() => result,
    }
}

struct Worker {
    /// Logs the calls to it.
    recorded: Arc<Recorded<Journal>>,
    /// The same.
    provider: Provider,
    executor: Executor,
    /// Whether leases are as long as the executor requires if clients' clocks judge.
    executes: bool,
    journal: Journal,
    rng: SeededRng,
    /// By how much its wall clock was ahead of the clock by which histories are judged, in
    /// nanoseconds.
    wall_clock: Option<u64>,
    spec: WorkerSpec,
}

impl Worker {
    async fn work(&mut self) -> Result<(), BoxError> {
        if self.spec.operates {
            return self.operate().await;
        }
        if self.spec.slots.is_empty() {
            loop {
                self.turn().await?;
            }
        }
        for slot in self.spec.slots.clone() {
            let job = self.rng.pick(&self.spec.jobs).clone();
            self.by_hand(&job, Some(Slot::from_micros(slot)?)).await?;
        }
        // The logs are complete; wait to be stopped.
        std::future::pending().await
    }

    async fn turn(&mut self) -> Result<(), BoxError> {
        self.look_at_the_wall_clock()?;
        let job = self.rng.pick(&self.spec.jobs).clone();
        let slot = match (&self.spec.grid, job.slots) {
            // Sometimes a late one.
            (Some(grid), Slots::WhenTaken | Slots::UntilDone) => {
                let before = u64::from(self.rng.one_in(4));
                Some(grid.slot(before)?)
            }
            _ => None,
        };
        if self.executes && self.rng.one_in(3) {
            self.through_the_executor(&job, slot).await
        } else {
            self.by_hand(&job, slot).await
        }?;
        sleep(self.rng.up_to(self.spec.rest)).await;
        Ok(())
    }

    /// Logs the wall clock if it was set since the last reading.
    fn look_at_the_wall_clock(&mut self) -> Result<(), BoxError> {
        let (moment, shows) = wall_clock::read();
        let ahead = shows.saturating_sub(nanos(moment.since_origin()));
        let is_as_before = |before: u64| before.abs_diff(ahead) < nanos(wall_clock::NOTICED);
        if !self.wall_clock.is_some_and(is_as_before) {
            self.wall_clock = Some(ahead);
            self.journal
                .write_of_all(moment, What::WallClock { shows })?;
        }
        Ok(())
    }

    /// Makes each call itself, as a direct user of the contract does.
    async fn by_hand(&mut self, job: &Job, mut slot: Option<Slot>) -> Result<(), BoxError> {
        // An open slot blocks later ones: a worker that is skipped because of one runs it.
        while let Some((answer, copies)) = self.attempt(job, slot).await? {
            match answer {
                Attempt::Acquired(lease) => {
                    let held = self.hold(job, lease).await;
                    copies.withdraw(true);
                    return held;
                }
                Attempt::Skipped(Skip {
                    reason: SkipReason::SlotPending,
                    last_slot: Some(open),
                    ..
                }) if slot != Some(open) => {
                    slot = Some(open);
                    copies.withdraw(false);
                }
                _ => {
                    copies.withdraw(false);
                    break;
                }
            }
        }
        Ok(())
    }

    async fn attempt(
        &mut self,
        job: &Job,
        slot: Option<Slot>,
    ) -> Result<Option<(Attempt, Copies)>, BoxError> {
        let name = LockName::new(&job.name)?;
        let mut request = AttemptRequest::new(name, Owner::generate(), self.spec.at_most)
            .with_lock_at_least_for(job.at_least)
            .with_timeout(self.spec.patience);
        if let Some(slot) = slot {
            request = request.with_slot(slot).with_completion(job.completion());
        }
        self.ask(&request).await
    }

    /// Attempts the lock, and sometimes repeats an attempt with an unknown outcome. An attempt that
    /// is given up is withdrawn, as the runtime does.
    async fn ask(
        &mut self,
        request: &AttemptRequest,
    ) -> Result<Option<(Attempt, Copies)>, BoxError> {
        let mut copies = self.executor.copies_of(request);
        let mut may_have_won = false;
        loop {
            match self.answer(self.provider.attempt(request)).await {
                Ok(answer) => return Ok(Some((answer, copies))),
                // What an earlier copy had won was freed by force.
                Err(error)
                    if error.kind() == ErrorKind::Lost
                        && (may_have_won || self.comes_of_the_mistake(&error)) =>
                {
                    copies.give_up();
                    return Ok(None);
                }
                Err(error) if !error.is_retryable() => return Err(error.into()),
                Err(error) => {
                    if error.is_outcome_unknown() {
                        copies.add_unanswered();
                        may_have_won = true;
                    }
                    sleep(PAUSE).await;
                    if !error.is_outcome_unknown() || self.rng.one_in(2) {
                        copies.give_up();
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The store tells owners apart, and a wrong protocol shares one. What it does to the lock is what must be found out.
    fn comes_of_the_mistake(&self, error: &Error) -> bool {
        self.spec.wrong.is_some() && error.kind() == ErrorKind::Lost
    }

    async fn hold(&mut self, job: &Job, mut lease: Lease) -> Result<(), BoxError> {
        sleep(self.rng.up_to(self.spec.hold)).await;
        if self.rng.one_in(4) {
            lease = match self.extend(lease).await? {
                Some(lease) => lease,
                None => return Ok(()),
            };
            sleep(self.rng.up_to(self.spec.hold)).await;
        }
        if self.is_too_long(40) {
            // Too long: the next holder must not be affected.
            sleep(self.spec.at_most + self.spec.at_most / 4).await;
            if self.rng.one_in(2) {
                lease = match self.extend(lease).await? {
                    Some(lease) => lease,
                    None => return Ok(()),
                };
                sleep(self.rng.up_to(self.spec.hold)).await;
            }
        }
        let unlock = self.last_word(job);
        loop {
            match self.answer(self.provider.unlock(&lease, &unlock)).await {
                Ok(_) => return Ok(()),
                Err(error) if self.comes_of_the_mistake(&error) => return Ok(()),
                Err(error) if !error.is_retryable() => return Err(error.into()),
                Err(_) => {
                    if self.rng.one_in(2) {
                        return Ok(());
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// What the unlock reports about the slot. Sometimes it reports that nothing ran or that a
    /// shutdown cut the run. If the slot stays open until it is done, it usually reports that it is
    /// done.
    fn last_word(&mut self, job: &Job) -> UnlockRequest {
        let unlock = UnlockRequest::new();
        if self.rng.one_in(8) {
            unlock.with_slot_end(SlotEnd::NotStarted)
        } else if self.rng.one_in(8) {
            unlock.with_slot_end(SlotEnd::Cut)
        } else if job.slots != Slots::UntilDone || self.rng.one_in(6) {
            unlock
        } else if self.rng.one_in(4) {
            unlock.with_slot_end(SlotEnd::Failed {
                retry_after: Duration::ZERO,
            })
        } else {
            unlock.with_slot_end(SlotEnd::done(true))
        }
    }

    async fn extend(&mut self, lease: Lease) -> Result<Option<Lease>, BoxError> {
        let request = ExtendRequest::new(self.spec.at_most);
        match self.answer(self.provider.extend(&lease, &request)).await {
            Ok(Extension::Extended(lease)) => Ok(Some(lease)),
            Ok(_) => Ok(None),
            Err(error) if self.comes_of_the_mistake(&error) => Ok(None),
            Err(error) if error.is_retryable() => Ok(Some(lease)),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a task that must be stopped before its lease ends; sometimes one that hangs.
    async fn through_the_executor(
        &mut self,
        job: &Job,
        slot: Option<Slot>,
    ) -> Result<(), BoxError> {
        let at_most = self.spec.at_most;
        let mut config = LockConfig::new(&job.name)
            .lock_at_most_for(at_most)
            .lock_at_least_for(job.at_least);
        if let Some(slot) = slot {
            config = config.slot(slot).completion(job.completion());
        }
        if self.rng.one_in(2) {
            config = config.keep_alive();
        }
        let takes = if self.is_too_long(6) {
            at_most + at_most / 2
        } else {
            self.rng.up_to(self.spec.hold)
        };
        let task = Task {
            journal: self.journal.clone(),
            takes,
            pause: at_most / 60,
        };
        let task = task.run(self.rng.one_in(4));
        match self.executor.execute(&config, task).await {
            Ok(Outcome::Executed { value, release, .. }) => {
                let (name, owner) = (LockName::new(&job.name)?, value?);
                // If no unlock got a reply, the runtime says so instead.
                if !matches!(release, Release::Failed(_)) {
                    self.journal.write(&name, owner.as_str(), What::Succeeded)?;
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if self.comes_of_the_mistake(&error) => Ok(()),
            Err(error) if error.is_retryable() => {
                sleep(PAUSE).await;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this lock is held for too long: once in `once_in` times on average, and more often
    /// if the run has to show a mistake.
    fn is_too_long(&mut self, once_in: u64) -> bool {
        let once_in = if self.spec.wrong.is_some() {
            once_in.div_ceil(4)
        } else {
            once_in
        };
        self.rng.one_in(once_in)
    }

    /// Returns the result of the call if it arrives in time; otherwise drops the call, as the
    /// runtime does.
    async fn answer<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let answer = bounded(self.spec.patience, call).await;
        answer.unwrap_or_else(|| Err(no_reply()))
    }
}

fn no_reply() -> Error {
    Error::new(ErrorKind::OutcomeUnknown, "no reply in time")
}
