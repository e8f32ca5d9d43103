//! The wire protocol: one line of JSON in each direction.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use shedlock_core::admin::LeaseChange;
use shedlock_core::{
    AttemptRequest, Error, ErrorKind, ExtendRequest, Lease, ListRequest, LockName, LockRecord,
    LockState, Owner, Skip, SkipReason, Slot, SlotEnd, UnlockRequest,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    Attempt {
        request: Request,
        /// The last instant at which it may be granted.
        not_after: SystemTime,
    },
    Withdraw(Request),
    Extend {
        lease: Request,
        at_most: Duration,
        at_least: Option<Duration>,
    },
    Unlock {
        lease: Request,
        ignores_at_least: bool,
        never_started: bool,
    },
    Inspect(String),
    List {
        after: Option<String>,
        limit: usize,
        held_only: bool,
    },
    Look(String),
    Change {
        name: String,
        /// The number of the look.
        seen: u64,
        lease: LeaseEdit,
        last_slot: Option<i64>,
    },
    Remove {
        name: String,
        seen: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LeaseEdit {
    Keep,
    End(String, Option<SystemTime>),
    Take(String, SystemTime),
}

impl From<LeaseChange> for LeaseEdit {
    fn from(change: LeaseChange) -> Self {
        match change {
            LeaseChange::Keep => Self::Keep,
            LeaseChange::End { owner, kept } => Self::End(owner, kept),
            LeaseChange::Take { owner, until } => Self::Take(owner, until),
        }
    }
}

impl From<LeaseEdit> for LeaseChange {
    fn from(edit: LeaseEdit) -> Self {
        match edit {
            LeaseEdit::Keep => Self::Keep,
            LeaseEdit::End(owner, kept) => Self::End { owner, kept },
            LeaseEdit::Take(owner, until) => Self::Take { owner, until },
        }
    }
}

/// Each reply carries the store's time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Timed {
    pub(crate) store_time: SystemTime,
    pub(crate) reply: Reply,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    TooLate(SystemTime),
    Acquired(Granted),
    Skipped(Refused),
    Extended(Granted),
    Lost,
    Unlocked,
    Withdrawn(bool),
    Found(Option<Record>),
    Listed(Vec<Record>),
    Seen(Option<(u64, Record)>),
    Changed(bool),
    Failed(String, String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) at_most: Duration,
    pub(crate) at_least: Duration,
    pub(crate) slot: Option<i64>,
    pub(crate) tolerance: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub(crate) token: Option<u64>,
    pub(crate) acquired_at: Option<SystemTime>,
    pub(crate) locked_until: Option<SystemTime>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    reason: String,
    owner: Option<String>,
    until: Option<SystemTime>,
    last_slot: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    name: String,
    state: String,
    owner: Option<String>,
    locked_at: Option<SystemTime>,
    locked_until: Option<SystemTime>,
    token: Option<u64>,
    last_slot: Option<i64>,
    read_at: Option<SystemTime>,
}

impl From<&AttemptRequest> for Request {
    fn from(request: &AttemptRequest) -> Self {
        Self {
            name: request.name.to_string(),
            owner: request.owner.to_string(),
            at_most: request.lock_at_most_for,
            at_least: request.lock_at_least_for,
            slot: request.slot.map(Slot::as_micros),
            tolerance: request.slot_tolerance,
        }
    }
}

impl From<&Lease> for Request {
    fn from(lease: &Lease) -> Self {
        Self {
            name: lease.name().to_string(),
            owner: lease.owner().to_string(),
            at_most: lease.lock_at_most_for(),
            at_least: lease.lock_at_least_for(),
            slot: lease.slot().map(Slot::as_micros),
            tolerance: Duration::ZERO,
        }
    }
}

impl Request {
    pub(crate) fn attempt(&self) -> Result<AttemptRequest, Error> {
        let name = LockName::of_record(&self.name)?;
        let owner = Owner::parse(&self.owner)?;
        let mut request =
            AttemptRequest::new(name, owner, self.at_most).with_lock_at_least_for(self.at_least);
        if let Some(slot) = self.slot {
            request = request
                .with_slot(Slot::from_micros(slot)?)
                .with_slot_tolerance(self.tolerance);
        }
        Ok(request)
    }

    pub(crate) fn lease(&self) -> Result<Lease, Error> {
        Ok(Lease::granted(&self.attempt()?))
    }
}

impl From<&Lease> for Granted {
    fn from(lease: &Lease) -> Self {
        Self {
            token: lease.fencing_token(),
            acquired_at: lease.acquired_at(),
            locked_until: lease.locked_until(),
        }
    }
}

impl Granted {
    pub(crate) fn onto(&self, mut lease: Lease) -> Lease {
        if let Some(token) = self.token {
            lease = lease.with_fencing_token(token);
        }
        if let Some(at) = self.acquired_at {
            lease = lease.with_acquired_at(at);
        }
        if let Some(until) = self.locked_until {
            lease = lease.with_locked_until(until);
        }
        lease
    }
}

const REASONS: [SkipReason; 5] = [
    SkipReason::Held,
    SkipReason::AtLeast,
    SkipReason::SlotTaken,
    SkipReason::Contended,
    SkipReason::Paused,
];

impl From<Skip> for Refused {
    fn from(skip: Skip) -> Self {
        Self {
            reason: format!("{:?}", skip.reason),
            owner: skip.owner,
            until: skip.until,
            last_slot: skip.last_slot.map(Slot::as_micros),
        }
    }
}

impl Refused {
    pub(crate) fn skip(self) -> Result<Skip, Error> {
        let mut skip = Skip::new(find(&REASONS, &self.reason)?);
        skip.owner = self.owner;
        skip.until = self.until;
        skip.last_slot = self.last_slot.map(Slot::from_micros).transpose()?;
        Ok(skip)
    }
}

const STATES: [LockState; 5] = [
    LockState::Held,
    LockState::Taken,
    LockState::AtLeast,
    LockState::Free,
    LockState::Paused,
];

impl From<LockRecord> for Record {
    fn from(record: LockRecord) -> Self {
        Self {
            name: record.name.to_string(),
            state: format!("{:?}", record.state),
            owner: record.owner,
            locked_at: record.locked_at,
            locked_until: record.locked_until,
            token: record.fencing_token,
            last_slot: record.last_slot.map(Slot::as_micros),
            read_at: record.read_at,
        }
    }
}

impl Record {
    pub(crate) fn record(self) -> Result<LockRecord, Error> {
        let state = find(&STATES, &self.state)?;
        let mut record = LockRecord::new(LockName::of_record(self.name)?, state);
        record.owner = self.owner;
        record.locked_at = self.locked_at;
        record.locked_until = self.locked_until;
        record.fencing_token = self.token;
        record.last_slot = self.last_slot.map(Slot::from_micros).transpose()?;
        record.read_at = self.read_at;
        Ok(record)
    }
}

const KINDS: [ErrorKind; 5] = [
    ErrorKind::Lost,
    ErrorKind::InvalidInput,
    ErrorKind::Configuration,
    ErrorKind::SlotAhead,
    ErrorKind::Conflict,
];

impl Reply {
    pub(crate) fn failed(error: &Error) -> Self {
        Self::Failed(format!("{:?}", error.kind()), error.to_string().to_owned())
    }

    /// Returns the reply, or the error that it contains.
    pub(crate) fn or_error(self) -> Result<Self, Error> {
        match self {
            Self::Failed(kind, message) => Err(Error::new(find(&KINDS, &kind)?, message)),
            reply => Ok(reply),
        }
    }
}

fn find<T: Copy + std::fmt::Debug>(all: &[T], name: &str) -> Result<T, Error> {
    all.iter()
        .copied()
        .find(|one| format!("{one:?}") == name)
        .ok_or_else(|| Error::new(ErrorKind::Internal, format!("the store says {name:?}")))
}

impl Call {
    pub(crate) fn attempt(request: &AttemptRequest, not_after: SystemTime) -> Self {
        Self::Attempt {
            request: request.into(),
            not_after,
        }
    }

    pub(crate) fn extend(lease: &Lease, request: &ExtendRequest) -> Self {
        Self::Extend {
            lease: lease.into(),
            at_most: request.lock_at_most_for,
            at_least: request.lock_at_least_for,
        }
    }

    pub(crate) fn unlock(lease: &Lease, request: &UnlockRequest) -> Self {
        let probe = Duration::from_secs(1);
        Self::Unlock {
            lease: lease.into(),
            ignores_at_least: request.at_least_of(probe) != probe,
            never_started: request.slot_end == SlotEnd::NotStarted,
        }
    }

    pub(crate) fn list(request: &ListRequest) -> Self {
        Self::List {
            after: request.after.as_ref().map(ToString::to_string),
            limit: request.limit(),
            held_only: request.held_only,
        }
    }
}

/// Encodes a line as hexadecimal digits so that nothing in it can be recognized.
pub(crate) fn obscure(line: &[u8]) -> Vec<u8> {
    line.iter()
        .flat_map(|byte| format!("{:02x}", byte ^ 0x55).into_bytes())
        .collect()
}

/// Decodes a line that may have been [obscured](obscure).
pub(crate) fn clear(line: &str) -> Result<String, std::num::ParseIntError> {
    if line.starts_with(['{', '"']) {
        return Ok(line.to_owned());
    }
    let bytes: Result<Vec<u8>, _> = (0..line.len() / 2)
        .map(|i| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).map(|byte| byte ^ 0x55))
        .collect();
    Ok(String::from_utf8_lossy(&bytes?).into_owned())
}
