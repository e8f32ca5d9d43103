//! What the watchdog needs to release the lock of a job in place of `run`.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use shedlock::{AttemptRequest, Completion, Error, LockName, Owner, Slot, SlotEnd, Unanswered};

use crate::spool::KeptRun;
use crate::store::Address;

/// What another process needs to release a lock. It may contain the store's password, so it is sent over a socket only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Heirloom {
    pub(crate) store: Address,
    /// What the journal gets, if there is one.
    pub(crate) journal: Option<Legacy>,
    /// The option that selects the store, for a command that a message quotes.
    pub(crate) store_option: String,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) lock_at_most_for: Duration,
    pub(crate) lock_at_least_for: Duration,
    pub(crate) slot: Option<i64>,
    pub(crate) slot_tolerance: Duration,
    pub(crate) must_not_be_lost: bool,
    /// What `run` would have withdrawn.
    pub(crate) copies: Vec<Copies>,
}

/// A run whose end this process must record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Legacy {
    /// Where the journal is, if it is not in the store of the lock.
    pub(crate) address: Option<Address>,
    /// The identity of the journal, if `run` had reached it.
    pub(crate) identity: Option<String>,
    /// The run as it started.
    pub(crate) run: KeptRun,
    /// Whether the journal keeps the errors of runs.
    pub(crate) has_errors: bool,
    /// When `run` handed this over, by the clock of this host: the command starts then.
    pub(crate) handed_over: SystemTime,
}

/// Copies of an attempt whose replies were lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Copies {
    pub(super) owner: String,
    /// For how long they may still arrive.
    pub(super) left: Duration,
}

/// How the slot of a run ends with its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SlotFate {
    Done { durable: bool },
    Failed { retry_after: Duration },
    Cut,
    Open,
}

impl From<SlotFate> for SlotEnd {
    fn from(fate: SlotFate) -> Self {
        match fate {
            SlotFate::Done { durable } => Self::done(durable),
            SlotFate::Failed { retry_after } => Self::Failed { retry_after },
            SlotFate::Cut => Self::Cut,
            SlotFate::Open => Self::Open,
        }
    }
}

impl From<&Unanswered> for Copies {
    fn from(attempt: &Unanswered) -> Self {
        Self {
            owner: attempt.request.owner.as_str().to_owned(),
            left: attempt.left,
        }
    }
}

impl Heirloom {
    /// The attempt that won the lease.
    pub(super) fn request(&self) -> Result<AttemptRequest, Error> {
        self.request_of(&self.owner)
    }

    /// An attempt at the lock by an owner of this `run`.
    pub(super) fn request_of(&self, owner: &str) -> Result<AttemptRequest, Error> {
        let name = LockName::new(&self.name)?;
        let owner = Owner::parse(owner)?;
        let request = AttemptRequest::new(name, owner, self.lock_at_most_for)
            .with_lock_at_least_for(self.lock_at_least_for);
        let Some(slot) = self.slot else {
            return Ok(request);
        };
        let request = request
            .with_slot(Slot::from_micros(slot)?)
            .with_slot_tolerance(self.slot_tolerance);
        Ok(if self.must_not_be_lost {
            request.with_completion(Completion::on_success())
        } else {
            request
        })
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        use std::time::UNIX_EPOCH;

        use shedlock::RunRecord;

        Self {
            store: Address::Url("postgres://u:geheim@h/d".to_owned()),
            journal: Some(Legacy {
                address: Some(Address::Url("mysql://u:geheim@h/d".to_owned())),
                identity: None,
                run: KeptRun::of(&RunRecord::new("a", "a", "h/1/ff", UNIX_EPOCH), None),
                has_errors: true,
                handed_over: UNIX_EPOCH,
            }),
            store_option: String::new(),
            name: "a".to_owned(),
            owner: "h/1/ff".to_owned(),
            lock_at_most_for: Duration::from_secs(60),
            lock_at_least_for: Duration::ZERO,
            slot: None,
            slot_tolerance: Duration::ZERO,
            must_not_be_lost: false,
            copies: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_the_store_is_in_no_debug_output() {
        let lock = Heirloom::for_test();
        assert!(!format!("{lock:?}").contains("geheim"), "{lock:?}");
    }
}
