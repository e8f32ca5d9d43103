//! A client in another process that executes the calls that a case sends to it.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ExtendRequest, Extension, Lease, LockName, Owner, Slot, Unlock,
    UnlockRequest,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::child::{Opener, command};
use crate::harness::BoxError;
use crate::wait::{PATIENCE, bounded};
use crate::{Provider, Stop, TestContext};

/// The name of its role in child processes.
pub(crate) const ROLE: &str = "remote_client";

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Attempt(Request),
    Withdraw(Request),
    Extend { owner: String, at_most: Duration },
    Unlock { owner: String },
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    name: String,
    owner: String,
    at_most: Duration,
    at_least: Duration,
    slot: Option<i64>,
}

/// The outcome of a call in the other process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Ready,
    Acquired,
    Skipped(String),
    Extended,
    Unlocked,
    Lost,
    Withdrawn(bool),
    Failed(String),
}

/// A handle to the other process, which is killed when the handle is dropped.
#[derive(Debug)]
pub(crate) struct RemoteClient {
    process: Child,
    spec: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl RemoteClient {
    /// Starts the process over the context's namespace and waits until its provider is open.
    pub(crate) async fn start(context: &TestContext) -> Result<Self, Stop> {
        let mut process = command(context, &context.child_spec()?, ROLE, &())?.spawn()?;
        let (Some(spec), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Stop::failed("a child process without pipes"));
        };
        let mut remote_client = Self {
            process,
            spec,
            answers: BufReader::new(answers).lines(),
        };
        remote_client.answered(Answer::Ready).await?;
        Ok(remote_client)
    }

    /// Makes the process acquire the lock.
    pub(crate) async fn acquires(&mut self, request: &AttemptRequest) -> Result<(), Stop> {
        self.order(&Order::Attempt(request.into())).await?;
        self.answered(Answer::Acquired).await
    }

    /// Makes the process attempt the lock; the attempt must be skipped.
    pub(crate) async fn is_skipped(&mut self, request: &AttemptRequest) -> Result<(), Stop> {
        self.order(&Order::Attempt(request.into())).await?;
        match self.answer().await? {
            Answer::Skipped(_) => Ok(()),
            answer => Err(unexpected("an attempt should be skipped", &answer)),
        }
    }

    /// Makes the process withdraw an attempt; returns whether there was a lease.
    pub(crate) async fn withdraws(&mut self, request: &AttemptRequest) -> Result<bool, Stop> {
        self.order(&Order::Withdraw(request.into())).await?;
        match self.answer().await? {
            Answer::Withdrawn(there_was) => Ok(there_was),
            answer => Err(unexpected("a withdrawal should work", &answer)),
        }
    }

    /// Makes the process extend the lease that it got from this attempt.
    pub(crate) async fn extends(
        &mut self,
        request: &AttemptRequest,
        at_most: Duration,
        expected: Answer,
    ) -> Result<(), Stop> {
        let owner = request.owner.to_string();
        self.order(&Order::Extend { owner, at_most }).await?;
        self.answered(expected).await
    }

    /// Makes the process unlock the lease that it got from this attempt.
    pub(crate) async fn unlocks(
        &mut self,
        request: &AttemptRequest,
        expected: Answer,
    ) -> Result<(), Stop> {
        let owner = request.owner.to_string();
        self.order(&Order::Unlock { owner }).await?;
        self.answered(expected).await
    }

    /// Kills the process without any cleanup.
    pub(crate) async fn kill(mut self) -> Result<(), Stop> {
        Ok(self.process.kill().await?)
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    async fn order(&mut self, order: &Order) -> Result<(), Stop> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.spec.write_all(&line).await?;
        Ok(self.spec.flush().await?)
    }

    async fn answer(&mut self) -> Result<Answer, Stop> {
        let line = bounded(PATIENCE, self.answers.next_line())
            .await
            .ok_or_else(|| {
                Stop::failed(format!(
                    "a child process did not answer within {PATIENCE:?}"
                ))
            })??
            .ok_or_else(|| Stop::failed("a child process ended early"))?;
        Ok(serde_json::from_str(&line)?)
    }

    async fn answered(&mut self, expected: Answer) -> Result<(), Stop> {
        let answer = self.answer().await?;
        if answer == expected {
            return Ok(());
        }
        Err(unexpected(&format!("expected {expected:?}"), &answer))
    }
}

fn unexpected(expected: &str, answer: &Answer) -> Stop {
    Stop::failed(format!(
        "in another process: {expected}, but it returned {answer:?}"
    ))
}

/// The child's side: executes calls until its standard input ends.
pub(crate) async fn play(opener: Opener) -> Result<(), BoxError> {
    let provider = opener.open().await?;
    let mut spec = BufReader::new(tokio::io::stdin()).lines();
    let mut leases = HashMap::new();
    say(&Answer::Ready)?;
    while let Some(line) = spec.next_line().await? {
        let answer = obey(&provider, &mut leases, serde_json::from_str(&line)?).await?;
        say(&answer.unwrap_or_else(|error| Answer::Failed(format!("{error:?}"))))?;
    }
    Ok(())
}

async fn obey(
    provider: &Provider,
    leases: &mut HashMap<String, Lease>,
    order: Order,
) -> Result<Result<Answer, Error>, BoxError> {
    Ok(match order {
        Order::Attempt(request) => {
            let request = AttemptRequest::try_from(request)?;
            provider.attempt(&request).await.map(|answer| match answer {
                Attempt::Acquired(lease) => {
                    leases.insert(request.owner.to_string(), lease);
                    Answer::Acquired
                }
                Attempt::Skipped(skip) => Answer::Skipped(skip.to_string()),
                other => Answer::Failed(format!("unknown answer {other:?}")),
            })
        }
        Order::Withdraw(request) => {
            let request = AttemptRequest::try_from(request)?;
            provider.withdraw(&request).await.map(Answer::Withdrawn)
        }
        Order::Extend { owner, at_most } => {
            let lease = leases.get(&owner).ok_or("no lease of this owner")?;
            let request = ExtendRequest::new(at_most);
            let answer = provider.extend(lease, &request).await;
            answer.map(|answer| match answer {
                Extension::Extended(lease) => {
                    leases.insert(owner, lease);
                    Answer::Extended
                }
                Extension::Lost => Answer::Lost,
                other => Answer::Failed(format!("unknown answer {other:?}")),
            })
        }
        Order::Unlock { owner } => {
            let lease = leases.get(&owner).ok_or("no lease of this owner")?;
            provider
                .unlock(lease, &UnlockRequest::new())
                .await
                .map(|answer| match answer {
                    Unlock::Unlocked => Answer::Unlocked,
                    Unlock::Lost => Answer::Lost,
                    other => Answer::Failed(format!("unknown answer {other:?}")),
                })
        }
    })
}

fn say(answer: &Answer) -> Result<(), BoxError> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

impl From<&AttemptRequest> for Request {
    fn from(request: &AttemptRequest) -> Self {
        Self {
            name: request.name.to_string(),
            owner: request.owner.to_string(),
            at_most: request.lock_at_most_for,
            at_least: request.lock_at_least_for,
            slot: request.slot.map(Slot::as_micros),
        }
    }
}

impl TryFrom<Request> for AttemptRequest {
    type Error = Error;

    fn try_from(request: Request) -> Result<Self, Error> {
        let name = LockName::new(&request.name)?;
        let owner = Owner::parse(&request.owner)?;
        let mut attempt =
            Self::new(name, owner, request.at_most).with_lock_at_least_for(request.at_least);
        if let Some(micros) = request.slot {
            attempt = attempt.with_slot(Slot::from_micros(micros)?);
        }
        Ok(attempt)
    }
}
