//! Runs, as a journal keeps them.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::contract::{
    AttemptRequest, Lease, LockRecord, LockState, LostReason, Skip, Slot, TaskEnd,
};

/// The identity of a run in a journal, after the time of its start: ids sort by the start of their
/// runs.
///
/// Two ids with the same [`identity`](Self::identity) are of one run, although the times of its start
/// may differ: not every store reports them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(String);

impl RunId {
    /// Returns the id of the run that this owner started at this instant.
    pub(super) fn new(started: SystemTime, name: &str, owner: &str) -> Self {
        let micros = Slot::at(started).map_or(0, Slot::as_micros);
        // FNV-1a. An owner is different for each acquisition, so it only has to be spread.
        let bytes = name.bytes().chain([0]).chain(owner.bytes());
        let hash = bytes.fold(
            0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
            |hash, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
            },
        );
        Self::of_parts(micros, &format!("{hash:032x}"))
    }

    /// Returns the id of a run with this start and [identity](Self::identity), for journals.
    pub fn of(started: SystemTime, identity: &str) -> Self {
        Self::of_parts(Slot::at(started).map_or(0, Slot::as_micros), identity)
    }

    fn of_parts(micros: i64, identity: &str) -> Self {
        Self(format!("{micros:014x}-{identity}"))
    }

    /// Returns the start of the run, in whole microseconds; 1970 if this is no id of a run.
    pub fn started(&self) -> SystemTime {
        let micros = self.0.split_once('-').map_or("", |(micros, _)| micros);
        let micros = u64::from_str_radix(micros, 16).unwrap_or_default();
        let started = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros));
        started.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns what identifies the run: a hash of its lock's name and its owner.
    pub fn identity(&self) -> &str {
        self.0.split_once('-').map_or(&*self.0, |(_, hash)| hash)
    }

    /// Returns the id with this text, as [`as_str`](Self::as_str) returned it.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

/// A run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct RunRecord {
    /// Its identity.
    pub id: RunId,
    /// The job: the template of the lock's name, or the name itself
    /// ([`LockConfig::job`](crate::LockConfig::job)).
    pub job: String,
    /// The lock's name.
    pub name: String,
    /// The owner of the lease.
    pub owner: String,
    /// The slot, if the run belongs to one.
    pub slot: Option<Slot>,
    /// The number of the attempt at the slot, if the slot must not be lost.
    pub attempt: Option<u32>,
    /// The fencing token, if the store has them.
    pub fencing_token: Option<u64>,
    /// When the lock was acquired, by the store's clock if the store reports it.
    pub started: SystemTime,
    /// How long the lease lasts unless it is extended.
    pub lock_at_most_for: Option<Duration>,
    /// The identity of the store of its lock, if it has one ([`store_identity`](crate::store_identity)).
    pub lock_store: Option<String>,
    /// How it ended; `None` while it runs, and for good if that was never recorded.
    pub end: Option<RunEnd>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEnd {
    /// How long the task ran.
    pub ran_for: Duration,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The error, without the passwords of URLs, cut to [`RunEnd::LONGEST_ERROR`].
    pub error: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The task returned without an error.
    Succeeded,
    /// The task returned an error, or its command failed.
    Failed,
    /// The lease ended, or may have ended, before the task.
    Lost,
    /// The task returned without an error, but its run may have been overlapped: the reply to its unlock was lost, and
    /// the lock had another owner when it was repeated. Neither a success nor a failure.
    MaybeOverlapped,
    /// The task panicked.
    Panicked,
    /// The task was interrupted.
    Cancelled,
    /// Not one of our runs: ShedLock for Java took the slot, and how its task ended is not known.
    Elsewhere,
}

/// What is known about a run: its recorded end, or what follows from its lock if there is none. It
/// is computed when it is read, and never recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// It ended.
    Ended(RunOutcome),
    /// It holds its lock, or has just given it back and its end is about to be recorded.
    Running,
    /// It does not hold its lock any more, although its lease would last longer: the lock was freed
    /// by force, paused at once, or deleted, and the task may still run.
    WithoutLock,
    /// Its lease is over, and no end was recorded: its process or host died, or could not reach the
    /// journal. It may have succeeded.
    EndUnknown,
}

impl RunRecord {
    /// Creates a run that starts with this lease. `now` is used if the store does not report when
    /// it granted the lease.
    pub fn started(lease: &Lease, now: SystemTime) -> Self {
        let started = lease.acquired_at().unwrap_or(now);
        let (name, owner) = (lease.name().as_str(), lease.owner().as_str());
        Self {
            slot: lease.slot(),
            attempt: lease.slot_attempt(),
            fencing_token: lease.fencing_token(),
            lock_at_most_for: Some(lease.lock_at_most_for()),
            ..Self::new(lease.job(), name, owner, started)
        }
    }

    /// Creates the record of a slot that an attempt found taken by ShedLock for Java at this instant
    /// ([`Skip::taken_elsewhere`]). Each slot has one, however many attempts find it so.
    pub fn elsewhere(request: &AttemptRequest, slot: Slot, skip: &Skip, at: SystemTime) -> Self {
        let host = skip.owner.as_deref().unwrap_or_default();
        let name = request.name.as_str();
        let lasts = skip.until.and_then(|until| until.duration_since(at).ok());
        Self {
            // ShedLock's owner is the same for all that a host acquires.
            id: RunId::new(at, name, &format!("{host} {slot}")),
            slot: Some(slot),
            lock_at_most_for: lasts,
            end: Some(RunEnd::new(Duration::ZERO, RunOutcome::Elsewhere, None)),
            ..Self::new(request.job(), name, host, at)
        }
    }

    /// Returns whether it is a slot that ShedLock for Java took.
    pub fn is_elsewhere(&self) -> bool {
        let outcome = self.end.as_ref().map(|end| end.outcome);
        outcome == Some(RunOutcome::Elsewhere)
    }

    /// Creates a run without an end, for journals.
    pub fn new(
        job: impl Into<String>,
        name: impl Into<String>,
        owner: impl Into<String>,
        started: SystemTime,
    ) -> Self {
        let (name, owner) = (name.into(), owner.into());
        Self {
            id: RunId::new(started, &name, &owner),
            job: job.into(),
            name,
            owner,
            slot: None,
            attempt: None,
            fencing_token: None,
            started,
            lock_at_most_for: None,
            lock_store: None,
            end: None,
        }
    }

    /// Returns what is known about the run at this instant. `lock` is the record of its lock as it is
    /// now; none if there is no such record, or the lock is free.
    pub fn state(&self, lock: Option<&LockRecord>, now: SystemTime) -> RunState {
        let outcome = self.end.as_ref().map(|end| end.outcome);
        let lease = (self.started, self.lock_at_most_for);
        state_of(outcome, &self.owner, lease, lock, now)
    }
}

/// The state of a run with this outcome, if it is recorded, and with this lease: its start, and how
/// long it lasts unless it is extended.
pub(super) fn state_of(
    outcome: Option<RunOutcome>,
    owner: &str,
    (started, lock_at_most_for): (SystemTime, Option<Duration>),
    lock: Option<&LockRecord>,
    now: SystemTime,
) -> RunState {
    let own = lock.filter(|lock| lock.owner.as_deref() == Some(owner));
    let is_holder = own.is_some_and(|lock| lock.state == LockState::Held);
    // It has given the lock back by itself, and its end is about to be recorded.
    let is_ending = own.is_some_and(|lock| lock.is_unlocked && !lock.is_freed);
    let end = started.checked_add(lock_at_most_for.unwrap_or_default());
    match outcome {
        Some(outcome) => RunState::Ended(outcome),
        None if is_holder => RunState::Running,
        None if end.is_some_and(|end| end <= now) => RunState::EndUnknown,
        None if is_ending => RunState::Running,
        None => RunState::WithoutLock,
    }
}

impl RunEnd {
    /// The most bytes of an error that a journal keeps.
    pub const LONGEST_ERROR: usize = 2_048;

    /// Creates the end of a run.
    pub fn new(ran_for: Duration, outcome: RunOutcome, error: Option<String>) -> Self {
        Self {
            ran_for,
            outcome,
            error,
        }
    }
}

impl RunOutcome {
    /// All outcomes.
    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Failed,
        Self::Lost,
        Self::MaybeOverlapped,
        Self::Panicked,
        Self::Cancelled,
        Self::Elsewhere,
    ];

    /// Returns one word for the outcome: `succeeded`, `failed`, `lost`, `maybe_overlapped`, `panicked`, `cancelled`
    /// or `elsewhere`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::MaybeOverlapped => "maybe_overlapped",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
            Self::Elsewhere => "elsewhere",
        }
    }

    /// Returns the outcome of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// Returns whether an unlock finds this out after the task has succeeded, so that it replaces the success. For
    /// providers.
    pub fn corrects_success(self) -> bool {
        matches!(self, Self::Lost | Self::MaybeOverlapped)
    }

    /// Returns whether the job did not do its work, although it was not interrupted on purpose.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Lost | Self::Panicked)
    }
}

impl From<TaskEnd<'_>> for RunOutcome {
    fn from(end: TaskEnd<'_>) -> Self {
        match end {
            TaskEnd::Succeeded => Self::Succeeded,
            TaskEnd::Failed { .. } => Self::Failed,
            TaskEnd::Lost {
                reason: LostReason::MaybeOverlapped,
            } => Self::MaybeOverlapped,
            TaskEnd::Lost { .. } => Self::Lost,
            TaskEnd::Panicked { .. } => Self::Panicked,
            TaskEnd::Cancelled => Self::Cancelled,
        }
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RunState {
    /// Returns the words for the state: those of an [outcome](RunOutcome::as_str), `running`, `without
    /// its lock` or `end unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ended(outcome) => outcome.as_str(),
            Self::Running => "running",
            Self::WithoutLock => "without its lock",
            Self::EndUnknown => "end unknown",
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
