//! The requests that a provider receives.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::contract::config::check_durations;
use crate::contract::duration::HUNDRED_YEARS;
use crate::contract::{Budget, Completion, Error, LockName, Owner, SkippedSlots, Slot};

/// One attempt at a lock. Sending the same request again repeats the same attempt (law 6).
///
/// [`LockConfig::resolve`](crate::LockConfig::resolve) creates and checks it. Tests, and callers
/// that manage their own owner, create it directly.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct AttemptRequest {
    /// The name of the lock.
    pub name: LockName,
    job: Option<Arc<str>>,
    /// The owner, which is unique to this attempt.
    pub owner: Owner,
    /// How long the lease runs, counted from the instant the store grants it.
    pub lock_at_most_for: Duration,
    /// How long the lock stays taken at least, counted from the same instant.
    pub lock_at_least_for: Duration,
    /// The slot to claim together with the lock.
    pub slot: Option<Slot>,
    /// How far ahead of the store's clock the slot may be.
    pub slot_tolerance: Duration,
    /// When the slot is used up.
    pub completion: Completion,
    /// The slot that must have been taken before this one.
    pub previous_slot: Option<Slot>,
    /// Which slots the requester takes as skipped by a pause.
    pub skipped_slots: Option<SkippedSlots>,
    /// How long the attempt may be in transit.
    pub timeout: Duration,
    /// What this copy of the attempt may cost, if its caller has set that. The caller then ends the
    /// call when the time is over.
    pub budget: Option<Budget>,
}

impl AttemptRequest {
    /// How long an attempt may be in transit, unless a request sets another timeout.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Creates an attempt without a slot and without `lock_at_least_for`.
    pub fn new(name: LockName, owner: Owner, lock_at_most_for: Duration) -> Self {
        Self {
            name,
            job: None,
            owner,
            lock_at_most_for,
            lock_at_least_for: Duration::ZERO,
            slot: None,
            slot_tolerance: Slot::DEFAULT_TOLERANCE,
            completion: Completion::WhenTaken,
            previous_slot: None,
            skipped_slots: None,
            timeout: Self::DEFAULT_TIMEOUT,
            budget: None,
        }
    }

    /// Sets the job that the lock belongs to; see [`LockConfig::job`](crate::LockConfig::job).
    /// Stores do not use it.
    pub fn with_job(mut self, job: impl Into<Arc<str>>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// Sets `lock_at_least_for`.
    pub fn with_lock_at_least_for(mut self, duration: Duration) -> Self {
        self.lock_at_least_for = duration;
        self
    }

    /// Sets the slot to claim together with the lock.
    pub fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Sets how far ahead of the store's clock the slot may be, at most a hundred years.
    pub fn with_slot_tolerance(mut self, tolerance: Duration) -> Self {
        self.slot_tolerance = tolerance.min(HUNDRED_YEARS);
        self
    }

    /// Sets when the slot is used up.
    pub fn with_completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// Sets the slot before this one, for slots that must not be lost. If the last slot that was
    /// taken is earlier than it, the attempt is skipped as
    /// [`SlotPending`](crate::SkipReason::SlotPending), so that no slot is left out. If no slot of
    /// the lock was ever taken, any slot can be the first.
    ///
    /// After a pause, this is the newest slot that the pause has not skipped. Only the requester can
    /// compute it, so it also states which slots it [takes as skipped](Self::with_skipped_slots).
    pub fn with_previous_slot(mut self, slot: Slot) -> Self {
        self.previous_slot = Some(slot);
        self
    }

    /// Sets which slots the requester takes as skipped by a pause. It learns them from
    /// [`Skip::skipped_slots`](crate::Skip::skipped_slots). If the record has another interval, or
    /// has one although the request has none, an attempt with a
    /// [previous slot](Self::with_previous_slot) is skipped as
    /// [`SlotPending`](crate::SkipReason::SlotPending).
    pub fn with_skipped_slots(mut self, skipped: SkippedSlots) -> Self {
        self.skipped_slots = Some(skipped);
        self
    }

    /// Sets how long the attempt may be in transit. The store refuses a copy that arrives later
    /// than this after it was sent, so that no copy takes the lock for an owner that has ended (law
    /// 6). See [`StoreClock`](crate::StoreClock).
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the budget of this request, or a new one by this clock. For providers.
    pub fn budget_or(&self, clock: &Arc<dyn Clock>) -> Cow<'_, Budget> {
        match &self.budget {
            Some(budget) => Cow::Borrowed(budget),
            None => Cow::Owned(Budget::new(Arc::clone(clock), self.timeout)),
        }
    }

    /// Returns the same attempt without its slot. It serves to withdraw copies of an attempt that
    /// was granted: its slot was run and must not be given back.
    pub fn without_slot(mut self) -> Self {
        self.slot = None;
        self
    }

    /// Returns the same attempt under another name. For wrappers that map names.
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// Makes the checks that every provider makes before any I/O.
    ///
    /// # Errors
    /// `InvalidInput` if `lock_at_most_for` is zero, if `lock_at_least_for` is longer than
    /// `lock_at_most_for`, or if the retries of the slot allow no attempt.
    pub fn validate(&self) -> Result<(), Error> {
        check_durations(self.lock_at_most_for, self.lock_at_least_for)
            .and_then(|()| self.completion.validate())
            .map_err(|error| error.with_lock(self.name.as_str()))
    }

    /// Returns the job that the lock belongs to: the name of the lock, unless another was set.
    pub fn job(&self) -> &str {
        self.job.as_deref().unwrap_or(self.name.as_str())
    }

    pub(crate) fn shared_job(&self) -> Option<&Arc<str>> {
        self.job.as_ref()
    }
}

/// An extension: the lease ends `lock_at_most_for` after the store has received this request, or at
/// its previous end, whichever is later.
///
/// An extension never shortens a lease in the store, so one that arrives late cannot cut short a
/// later one. To give a lock back early, unlock it.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct ExtendRequest {
    /// The minimum time that the lease runs from now.
    pub lock_at_most_for: Duration,
    /// The new `lock_at_least_for`, counted from acquisition, if it is to change.
    pub lock_at_least_for: Option<Duration>,
}

impl ExtendRequest {
    /// Extends to at least this long from now. `lock_at_least_for` stays unchanged.
    pub fn new(lock_at_most_for: Duration) -> Self {
        Self {
            lock_at_most_for,
            lock_at_least_for: None,
        }
    }

    /// Also sets `lock_at_least_for`, still counted from the acquisition. It is never shortened.
    pub fn with_lock_at_least_for(mut self, duration: Duration) -> Self {
        self.lock_at_least_for = Some(duration);
        self
    }

    /// Returns the `lock_at_least_for` after this extension, for a lease that had `current`.
    pub(crate) fn at_least_after(&self, current: Duration) -> Duration {
        self.lock_at_least_for
            .map_or(current, |wanted| wanted.max(current))
    }

    /// Makes the checks that every provider makes before any I/O, for a lease with this
    /// `lock_at_least_for`.
    ///
    /// # Errors
    /// `InvalidInput` if `lock_at_most_for` is zero or shorter than `lock_at_least_for`, since an
    /// extension must not shorten the time that `lock_at_least_for` guarantees.
    pub fn validate(&self, current_at_least: Duration) -> Result<(), Error> {
        check_durations(self.lock_at_most_for, self.at_least_after(current_at_least))
    }
}

/// The request with which a holder ends its lease.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct UnlockRequest {
    /// Whether the lock is freed at once, whatever `lock_at_least_for` is.
    pub ignores_at_least: bool,
    /// What became of the slot of the lease. It has no meaning for a lease without a slot.
    pub slot_end: SlotEnd,
}

/// What became of the slot of a lease that is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SlotEnd {
    /// Not specified: a slot that must not be lost is open, and can be taken over when the lock is
    /// free.
    #[default]
    Open,
    /// The slot is done.
    #[non_exhaustive]
    Done {
        /// Whether the mark must survive a crash of the store. It must for a slot that would
        /// otherwise be run again.
        durable: bool,
    },
    /// The run failed. The lock stays taken for this long from now, as if by `lock_at_least_for`,
    /// and then the slot is open.
    Failed {
        /// The pause before the next attempt.
        retry_after: Duration,
    },
    /// The task never started: the slot is as it was before this lease took it, and
    /// `lock_at_least_for` does not apply. This also ends a lease that has expired, unless the lock
    /// was taken since. See [`SlotState::ended`](crate::SlotState::ended).
    NotStarted,
    /// A shutdown interrupted the run. A slot that must not be lost is open, and the run does not
    /// count as an attempt. Any other slot stays used up, since its task did run.
    Cut,
}

impl SlotEnd {
    /// Returns the end of a slot that is done; `durable` as in [`Done`](Self::Done).
    pub const fn done(durable: bool) -> Self {
        Self::Done { durable }
    }
}

impl UnlockRequest {
    /// Creates a request that frees the lock when `lock_at_least_for` has passed since acquisition,
    /// or at once if it has already passed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees the lock at once, whatever `lock_at_least_for` is. For a task that never ran, so that
    /// another replica can try.
    pub fn ignoring_at_least(mut self) -> Self {
        self.ignores_at_least = true;
        self
    }

    /// Sets what became of the slot of the lease.
    pub fn with_slot_end(mut self, end: SlotEnd) -> Self {
        self.slot_end = end;
        self
    }

    /// Returns the `lock_at_least_for` to honour for a lease that has this one.
    pub fn at_least_of(&self, lock_at_least_for: Duration) -> Duration {
        if self.ignores_at_least || self.slot_end == SlotEnd::NotStarted {
            Duration::ZERO
        } else {
            lock_at_least_for
        }
    }
}

/// Selects the locks to list, in the order of their names, one page at a time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct ListRequest {
    /// The name after which the page starts.
    pub after: Option<LockName>,
    limit: Option<usize>,
    /// Whether free locks are left out.
    pub held_only: bool,
}

impl ListRequest {
    /// The page size unless one is set.
    const DEFAULT_LIMIT: usize = 1_000;

    /// Requests the first page of all locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists only names that sort (byte by byte) after this one: the last name of the previous
    /// page.
    pub fn with_after(mut self, name: LockName) -> Self {
        self.after = Some(name);
        self
    }

    /// Limits the page to this many locks; 0 counts as 1.
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit.max(1));
        self
    }

    /// Lists only locks that no other owner could take now.
    pub fn held_only(mut self) -> Self {
        self.held_only = true;
        self
    }

    /// Returns the page size.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(Self::DEFAULT_LIMIT)
    }
}

/// Frees a lock that another owner holds. For operators.
///
/// The store does not notify the holder, and its task may still run. Fencing tokens reject its late
/// writes.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct ForceUnlockRequest {
    /// The name of the lock.
    pub name: LockName,
    /// The owner that the record must name.
    pub expected_owner: Option<String>,
}

impl ForceUnlockRequest {
    /// Frees the lock, whoever holds it.
    pub fn new(name: LockName) -> Self {
        Self {
            name,
            expected_owner: None,
        }
    }

    /// Frees the lock only while its record names exactly this owner, as [`inspect`] returned it. A
    /// lock that was released and taken again in the meantime is left alone.
    ///
    /// [`inspect`]: crate::LockProvider::inspect
    pub fn with_expected_owner(mut self, owner: impl Into<String>) -> Self {
        self.expected_owner = Some(owner.into());
        self
    }
}

/// Sets which slot of a lock was taken last. For operators.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct ResetSlotRequest {
    /// The name of the lock.
    pub name: LockName,
    /// The slot to set; none for the store's clock.
    pub slot: Option<Slot>,
    /// What is restored, if it is a restoration.
    pub restored: Option<RestoredSlot>,
}

/// What is known about a last slot that a record has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoredSlot {
    /// It is used up.
    UsedUp,
    /// Its run succeeded.
    Done,
    /// It must still be done, after this many attempts.
    Open(u32),
}

impl ResetSlotRequest {
    /// Moves a last slot that is ahead of the store's clock back to that clock: the next slot then
    /// runs, but none that has passed. A last slot that is not ahead of the clock is left
    /// unchanged.
    pub fn new(name: LockName) -> Self {
        Self {
            name,
            slot: None,
            restored: None,
        }
    }

    /// Puts back a last slot that the record has lost, or creates a record with it: only forwards. A
    /// record with this slot or a later one is left unchanged, and so is one to which the slot was given
    /// back. A slot that is ahead of the store's clock is not restored.
    pub fn restoring(name: LockName, slot: Slot, restored: RestoredSlot) -> Self {
        Self {
            name,
            slot: Some(slot),
            restored: Some(restored),
        }
    }

    /// Sets the last slot to this one, wherever it is. Slots after it can then be taken, even if
    /// they were taken before.
    pub fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }
}
