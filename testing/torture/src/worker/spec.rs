//! What a worker has to do.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shedlock_conformance::BoxError;
use shedlock_conformance::wait::now;
use shedlock_core::{Completion, Retries, Slot};

use shedlock_proof::Mistake;
use shedlock_proof::history::nanos;

/// What a worker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerSpec {
    /// The path of its log.
    pub(crate) log: PathBuf,
    /// The locks that it contends for.
    pub(crate) jobs: Vec<Job>,
    /// The slots that it goes through in order, in microseconds. If empty, it acquires the locks
    /// again and again.
    pub(crate) slots: Vec<i64>,
    /// The slots of jobs that have some, one after the other.
    pub(crate) grid: Option<Grid>,
    pub(crate) at_most: Duration,
    /// The longest time that it holds a lock; sometimes it oversleeps at-most instead.
    pub(crate) hold: Duration,
    /// The longest rest between two attempts.
    pub(crate) rest: Duration,
    /// How long it waits for a reply. Then it drops the call, as the runtime does.
    pub(crate) patience: Duration,
    /// Whether it is an operator, who pauses the locks and resumes them.
    pub(crate) operates: bool,
    /// The mistake that it has to make, to check that the judge detects it.
    pub(crate) wrong: Option<Mistake>,
    pub(crate) seed: u64,
}

/// A lock, and how it is taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) at_least: Duration,
    pub(crate) slots: Slots,
}

/// Whether each acquisition is for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Slots {
    None,
    /// For a slot that is used up when it is taken.
    WhenTaken,
    /// For a slot that is open until it is done.
    UntilDone,
}

/// How often an open slot may be run.
const ATTEMPTS: u32 = 4;

impl Job {
    pub(crate) fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            at_least: Duration::ZERO,
            slots: Slots::None,
        }
    }

    /// A lock that stays taken for a while after unlock.
    pub(crate) fn kept(name: &str, at_least: Duration) -> Self {
        Self {
            at_least,
            ..Self::plain(name)
        }
    }

    /// A job that runs once for each slot.
    pub(crate) fn with_slots(name: &str) -> Self {
        Self {
            slots: Slots::WhenTaken,
            ..Self::plain(name)
        }
    }

    /// A job that runs for each slot until the slot is done.
    pub(crate) fn with_open_slots(name: &str) -> Self {
        Self {
            slots: Slots::UntilDone,
            ..Self::plain(name)
        }
    }

    /// When its slots are used up.
    pub(crate) fn completion(&self) -> Completion {
        match self.slots {
            Slots::None | Slots::WhenTaken => Completion::WhenTaken,
            // No pause: the next worker that attempts it runs it.
            Slots::UntilDone => Completion::OnSuccess(
                Retries::new()
                    .max_attempts(ATTEMPTS)
                    .backoff(Duration::ZERO),
            ),
        }
    }
}

/// Slots that come due as time passes, by the clock that all processes on a machine share. None of
/// them is ahead of the store's clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Grid {
    /// The first slot, in microseconds since 1970.
    first: i64,
    /// When it was due, in nanoseconds.
    begun: u64,
    period: Duration,
}

impl Grid {
    pub(crate) fn from_now_on(first: Slot, period: Duration) -> Self {
        Self {
            first: first.as_micros(),
            begun: nanos(now().since_origin()),
            period,
        }
    }

    /// The current slot, or the one this many before it.
    pub(crate) fn slot(&self, before: u64) -> Result<Slot, BoxError> {
        let since = nanos(now().since_origin()).saturating_sub(self.begun);
        let number = (since / nanos(self.period)).saturating_sub(before);
        let period = i64::try_from(self.period.as_micros())?;
        Ok(Slot::from_micros(
            self.first + i64::try_from(number)? * period,
        )?)
    }
}
