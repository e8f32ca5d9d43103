//! A process of real ShedLock among the workers, which executes one command after another.
//!
//! Its log is written here, before a call is sent and after its reply is read, because a JVM cannot
//! read the clock by which histories are judged. The times written are slightly too early or too
//! late, which makes the judge more lenient, never stricter.

mod answer;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use shedlock_conformance::wait::{bounded, now, sleep};
use shedlock_conformance::{BoxError, Stop};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::worker::{Job, Slots, WorkerSpec};
use answer::Answer;
use shedlock_proof::SeededRng;
use shedlock_proof::history::{Event, Log, What, millis, nanos};

/// The pause after a failed call.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the process may take to open its store.
const STARTING: Duration = Duration::from_secs(120);

/// How much longer it holds a lock than our own workers do: its calls take longer.
const HOLDS_LONGER: u32 = 10;

/// How long an unanswered statement of ShedLock may keep its row locked, until the client gives up
/// its connection; see [`TortureNamespace::shedlock`](crate::TortureNamespace::shedlock).
pub(crate) const KEEPS_ROWS: Duration = Duration::from_secs(5);

/// Sends commands to one process as long as it lives.
pub(crate) struct Driver {
    /// `None` once its last output was read.
    work: Option<JoinHandle<Result<(), BoxError>>>,
    is_ready: Arc<AtomicBool>,
}

impl Driver {
    /// Starts the process as this host, with this spec.
    pub(crate) fn start(
        command: Command,
        host: String,
        spec: WorkerSpec,
    ) -> Result<(Child, Self), Stop> {
        let mut process = tokio::process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.id());
        let (Some(input), Some(output), Some(number)) = pipes else {
            return Err(Stop::failed(
                "a process of ShedLock ended immediately after its start",
            ));
        };
        let is_ready = Arc::new(AtomicBool::new(false));
        let jobs = spec.jobs.iter();
        let hand = Hand {
            input,
            answers: BufReader::new(output),
            log: Log::open(&spec.log)?,
            process: number,
            host,
            rng: SeededRng::new(spec.seed),
            // ShedLock does not support slots.
            jobs: jobs
                .filter(|job| job.slots == Slots::None)
                .cloned()
                .collect(),
            spec,
            asked: 0,
        };
        let work = Some(tokio::spawn(hand.work(Arc::clone(&is_ready))));
        Ok((process, Self { work, is_ready }))
    }

    /// Whether its store is open.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Whether commands are no longer sent to it although it lives.
    pub(crate) fn has_ended(&self) -> bool {
        self.work.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Waits until everything that a dead process had output is written to the log. Fails if its
    /// output was invalid.
    pub(crate) async fn last_word(&mut self) -> Result<(), Stop> {
        let Some(mut work) = self.work.take() else {
            return Ok(());
        };
        match bounded(Duration::from_secs(10), &mut work).await {
            None => {
                work.abort();
                Ok(())
            }
            Some(done) => done?.map_err(|error| Stop::failed(error.to_string())),
        }
    }
}

impl Drop for Driver {
    /// The process ends when its input ends.
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

struct Hand {
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
    log: Log,
    process: u32,
    host: String,
    jobs: Vec<Job>,
    spec: WorkerSpec,
    rng: SeededRng,
    /// The number of attempts so far.
    asked: u64,
}

/// One attempt with everything that follows from it, like one `SimpleLock` of ShedLock.
struct Attempt {
    job: Job,
    owner: String,
}

impl Hand {
    /// Works until the process ends.
    async fn work(mut self, is_ready: Arc<AtomicBool>) -> Result<(), BoxError> {
        match bounded(STARTING, self.line()).await {
            None => return Err("ShedLock did not open its store in time".into()),
            Some(None) => return Ok(()),
            Some(Some(_)) => is_ready.store(true, Ordering::Relaxed),
        }
        while self.turn().await?.is_some() {
            sleep(self.rng.up_to(self.spec.rest)).await;
        }
        Ok(())
    }

    /// Does what a scheduled task does: locks, holds and unlocks. Returns `None`, as the functions
    /// below do, once the process has ended.
    async fn turn(&mut self) -> Result<Option<()>, BoxError> {
        self.asked += 1;
        let attempt = Attempt {
            job: self.rng.pick(&self.jobs).clone(),
            owner: format!("{}/{}", self.host, self.asked),
        };
        let asked = What::Asked {
            at_most: nanos(self.spec.at_most),
            at_least: nanos(attempt.job.at_least),
            slot: None,
            slot_attempts: None,
            host: Some(self.host.clone()),
            // No timeout bounds it.
            timeout: u64::MAX,
        };
        let command = self.lock(&attempt.job, json!({ "do": "lock" }));
        let Some(answer) = self.call(&attempt, asked, command, Answer::to_lock).await? else {
            return Ok(None);
        };
        if answer.is_error {
            sleep(PAUSE).await;
        }
        match answer.handle {
            Some(handle) => self.hold(&attempt, handle).await,
            None => Ok(Some(())),
        }
    }

    async fn hold(&mut self, attempt: &Attempt, mut handle: u64) -> Result<Option<()>, BoxError> {
        let longest = HOLDS_LONGER * self.spec.hold;
        sleep(self.rng.up_to(longest)).await;
        if self.rng.one_in(4) {
            let command = self.lock(&attempt.job, json!({ "do": "extend", "handle": handle }));
            let asked = What::RenewAsked {
                at_most: nanos(self.spec.at_most),
            };
            match self
                .call(attempt, asked, command, Answer::to_extend)
                .await?
            {
                None => return Ok(None),
                Some(answer) if answer.is_error => sleep(PAUSE).await,
                Some(answer) => match answer.handle {
                    Some(extended) => handle = extended,
                    None => return Ok(Some(())),
                },
            }
            sleep(self.rng.up_to(longest)).await;
        }
        let too_long = if self.spec.wrong.is_some() { 5 } else { 20 };
        if self.rng.one_in(too_long) {
            // Too long, as tasks in Java may take: ShedLock does not stop a task.
            sleep(self.spec.at_most + self.spec.at_most / 4).await;
        }
        let command = json!({ "do": "unlock", "handle": handle });
        let answer = self
            .call(attempt, What::ReleaseAsked, command, Answer::to_unlock)
            .await?;
        Ok(answer.map(drop))
    }

    fn lock(&self, job: &Job, mut command: Value) -> Value {
        command["name"] = job.name.clone().into();
        command["at_most"] = millis(self.spec.at_most).into();
        command["at_least"] = millis(job.at_least).into();
        command
    }

    /// Logs the call and its result.
    async fn call(
        &mut self,
        attempt: &Attempt,
        asked: What,
        command: Value,
        told: fn(&Answer) -> What,
    ) -> Result<Option<Answer>, BoxError> {
        self.note(attempt, asked)?;
        let line = format!("{command}\n");
        if self.input.write_all(line.as_bytes()).await.is_err() {
            return Ok(None);
        }
        let Some(line) = self.line().await else {
            return Ok(None);
        };
        let answer = Answer::read(&line)?;
        self.note(attempt, told(&answer))?;
        Ok(Some(answer))
    }

    /// Returns the next line; a line that a kill cut short is ignored.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).await;
        (read.is_ok() && line.ends_with('\n')).then_some(line)
    }

    fn note(&mut self, attempt: &Attempt, what: What) -> std::io::Result<()> {
        self.log.append(&Event {
            at: nanos(now().since_origin()),
            process: self.process,
            name: attempt.job.name.clone(),
            owner: attempt.owner.clone(),
            what,
        })
    }
}
