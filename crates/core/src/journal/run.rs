//! Runs, as a journal keeps them.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::{Lease, LockRecord, LockState, Slot, TaskEnd};

/// The identity of a run in a journal. Ids sort by the start of their runs.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(String);

impl RunId {
    /// Returns the id of the run that this owner started at this instant. The same run always has
    /// the same id, so recording it twice is harmless.
    pub(super) fn new(started: SystemTime, name: &str, owner: &str) -> Self {
        let micros = Slot::at(started).map_or(0, Slot::as_micros);
        // FNV-1a. An owner is different for each acquisition, so it only has to be spread.
        let bytes = name.bytes().chain([0]).chain(owner.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(format!("{micros:014x}-{hash:016x}"))
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
    /// The task panicked.
    Panicked,
    /// The task was interrupted.
    Cancelled,
    /// Its process ended, or lost its store, without unlocking: the lease expired.
    Died,
}

/// What is known about a run: its end, or what its lock's record says about a run without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// It ended.
    Ended(RunOutcome),
    /// The lock's record names its owner.
    Running,
    /// Its lease expired without an unlock.
    Died,
    /// It has ended, but how was not recorded: the journal was unavailable, or its process ended
    /// right after the run.
    EndNotRecorded,
}

impl RunRecord {
    /// Creates a run that starts with this lease. `now` is used if the store does not report when
    /// it granted the lease.
    pub fn started(lease: &Lease, now: SystemTime) -> Self {
        let started = lease.acquired_at().unwrap_or(now);
        let (name, owner) = (lease.name().as_str(), lease.owner().as_str());
        Self {
            id: RunId::new(started, name, owner),
            slot: lease.slot(),
            attempt: lease.slot_attempt(),
            fencing_token: lease.fencing_token(),
            ..Self::new(lease.job(), name, owner, started)
        }
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
            end: None,
        }
    }

    /// Returns what is known about the run. `record` is the record of its lock as it is now.
    pub fn state(&self, record: Option<&LockRecord>) -> RunState {
        if let Some(end) = &self.end {
            return RunState::Ended(end.outcome);
        }
        let of_owner = record.filter(|record| record.owner.as_deref() == Some(&*self.owner));
        match of_owner {
            Some(record) if record.state == LockState::Held => RunState::Running,
            Some(record) if record.has_expired() => RunState::Died,
            _ => RunState::EndNotRecorded,
        }
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
    pub const ALL: [Self; 6] = [
        Self::Succeeded,
        Self::Failed,
        Self::Lost,
        Self::Panicked,
        Self::Cancelled,
        Self::Died,
    ];

    /// Returns one word for the outcome: `succeeded`, `failed`, `lost`, `panicked`, `cancelled` or
    /// `died`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
            Self::Died => "died",
        }
    }

    /// Returns the outcome of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// Returns whether the job did not do its work, although it was not interrupted on purpose.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Succeeded | Self::Cancelled)
    }
}

impl From<TaskEnd<'_>> for RunOutcome {
    fn from(end: TaskEnd<'_>) -> Self {
        match end {
            TaskEnd::Succeeded => Self::Succeeded,
            TaskEnd::Failed { .. } => Self::Failed,
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

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended(outcome) => outcome.as_str(),
            Self::Running => "running",
            Self::Died => RunOutcome::Died.as_str(),
            Self::EndNotRecorded => "end not recorded",
        })
    }
}
