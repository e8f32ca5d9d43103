//! What a provider is asked.

use std::time::Duration;

use crate::config::check_durations;
use crate::{Completion, Error, LockName, Owner, Slot};

/// One attempt at a lock: the same request, asked again, is the same attempt (law 6).
///
/// Made by [`LockConfig::resolve`](crate::LockConfig::resolve), which checks it; made directly by
/// tests and by callers that keep their own owner. More can be asked in later versions.
#[derive(Clone, Debug)]
#[must_use]
pub struct AttemptRequest {
    name: LockName,
    owner: Owner,
    lock_at_most_for: Duration,
    lock_at_least_for: Duration,
    slot: Option<Slot>,
    slot_tolerance: Duration,
    completion: Completion,
    previous_slot: Option<Slot>,
    timeout: Duration,
}

impl AttemptRequest {
    /// How long an attempt may be on its way, unless a request says otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// An attempt without a slot and without at-least.
    pub fn new(name: LockName, owner: Owner, lock_at_most_for: Duration) -> Self {
        Self {
            name,
            owner,
            lock_at_most_for,
            lock_at_least_for: Duration::ZERO,
            slot: None,
            slot_tolerance: Slot::DEFAULT_TOLERANCE,
            completion: Completion::WhenTaken,
            previous_slot: None,
            timeout: Self::DEFAULT_TIMEOUT,
        }
    }

    /// Sets the at-least.
    pub fn with_lock_at_least_for(mut self, duration: Duration) -> Self {
        self.lock_at_least_for = duration;
        self
    }

    /// Sets the slot that is claimed with the lock.
    pub fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Sets how far ahead of the store's clock the slot may lie.
    pub fn with_slot_tolerance(mut self, tolerance: Duration) -> Self {
        self.slot_tolerance = tolerance;
        self
    }

    /// Sets when the slot is used up.
    pub fn with_completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// Names the slot before this one, for slots that must not be lost: where the last slot that was
    /// taken is an earlier one, the attempt is skipped as
    /// [`SlotPending`](crate::SkipReason::SlotPending), so that none is left out. A lock of which no
    /// slot was ever taken starts with any.
    pub fn with_previous_slot(mut self, slot: Slot) -> Self {
        self.previous_slot = Some(slot);
        self
    }

    /// Sets how long the attempt may be on its way: a copy of it that reaches the store later than
    /// this after it was sent is refused there, so that it takes the lock for no owner that has
    /// ended (law 6). See [`StoreClock`](crate::StoreClock).
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same attempt without its slot: to withdraw copies of one that was granted, whose slot was
    /// run and must not be given back.
    pub fn without_slot(mut self) -> Self {
        self.slot = None;
        self
    }

    /// The same attempt under another name; wrappers that map names use it.
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// What every provider checks before any I/O.
    ///
    /// # Errors
    /// `InvalidInput` for an at-most of zero, for an at-least over at-most, and for a slot that may
    /// be tried no times.
    pub fn validate(&self) -> Result<(), Error> {
        check_durations(self.lock_at_most_for, self.lock_at_least_for)
            .and_then(|()| self.completion.validate())
            .map_err(|error| error.with_lock(self.name.as_str()))
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Who asks: unique to this attempt.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// How long the lease runs, from the instant the store grants it.
    pub fn lock_at_most_for(&self) -> Duration {
        self.lock_at_most_for
    }

    /// How long the lock stays taken at least, from the same instant.
    pub fn lock_at_least_for(&self) -> Duration {
        self.lock_at_least_for
    }

    /// The slot to claim together with the lock.
    pub fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// How far ahead of the store's clock [`slot`](Self::slot) may lie.
    pub fn slot_tolerance(&self) -> Duration {
        self.slot_tolerance
    }

    /// When the slot is used up.
    pub fn completion(&self) -> Completion {
        self.completion
    }

    /// The slot that must have been taken before this one.
    pub fn previous_slot(&self) -> Option<Slot> {
        self.previous_slot
    }

    /// How long the attempt may be on its way.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// An extension: the lease ends `lock_at_most_for` after the store has seen this request, or when it
/// would have ended before, whichever is later.
///
/// An extension never shortens a lease in the store, so one that arrives late cannot cut a later
/// one short. To give a lock back early, unlock it.
#[derive(Clone, Debug)]
#[must_use]
pub struct ExtendRequest {
    lock_at_most_for: Duration,
    lock_at_least_for: Option<Duration>,
}

impl ExtendRequest {
    /// Extends to at least this long from now; at-least stays as it was.
    pub fn new(lock_at_most_for: Duration) -> Self {
        Self {
            lock_at_most_for,
            lock_at_least_for: None,
        }
    }

    /// Also sets at-least, still counted from the acquisition; never shortens it.
    pub fn with_lock_at_least_for(mut self, duration: Duration) -> Self {
        self.lock_at_least_for = Some(duration);
        self
    }

    /// How long the lease runs from now on, at the least.
    pub fn lock_at_most_for(&self) -> Duration {
        self.lock_at_most_for
    }

    /// The new at-least from acquisition, if it is to change.
    pub fn lock_at_least_for(&self) -> Option<Duration> {
        self.lock_at_least_for
    }

    /// The at-least that holds after this extension of a lease that had `current`.
    pub fn at_least_after(&self, current: Duration) -> Duration {
        self.lock_at_least_for
            .map_or(current, |wanted| wanted.max(current))
    }

    /// What every provider checks before any I/O, for a lease with this at-least.
    ///
    /// # Errors
    /// `InvalidInput` for an at-most of zero and for one that is shorter than at-least, since
    /// extending must not shorten what at-least promised.
    pub fn validate(&self, current_at_least: Duration) -> Result<(), Error> {
        check_durations(self.lock_at_most_for, self.at_least_after(current_at_least))
    }
}

/// The end of a lease, as its holder asks for it. More can be said in later versions.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UnlockRequest {
    ignores_at_least: bool,
    slot_end: SlotEnd,
}

/// What became of the slot of a lease that is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SlotEnd {
    /// Nothing is said: a slot that must not be lost is open, and can be taken over when the lock is
    /// free.
    #[default]
    Open,
    /// It is done.
    #[non_exhaustive]
    Done {
        /// Whether the mark has to outlive a crash of the store, as it must for a slot that would
        /// else be run again.
        durable: bool,
    },
    /// Its run failed: the lock stays taken for this long from now, as if by at-least, and the slot
    /// is open then.
    Failed {
        /// The pause.
        retry_after: Duration,
    },
    /// Its task never started: the slot is as it was before this lease took it, and at-least does
    /// not hold. This also ends a lease that has expired, unless the lock was taken since. See [`SlotState::ended`](crate::SlotState::ended).
    NotStarted,
    /// A shutdown cut its run: a slot that must not be lost is open, and the run does not count as an
    /// attempt. Another slot stays used up, since its task did run.
    Cut,
}

impl SlotEnd {
    /// The slot is done; `durable` as in [`Done`](Self::Done).
    pub const fn done(durable: bool) -> Self {
        Self::Done { durable }
    }
}

impl UnlockRequest {
    /// Free at acquisition + at-least, or at once where that is over.
    pub fn new() -> Self {
        Self::default()
    }

    /// Free at once, whatever at-least says: for a task that never came to run, so that another
    /// replica can try.
    pub fn ignoring_at_least(mut self) -> Self {
        self.ignores_at_least = true;
        self
    }

    /// Sets what became of the slot of the lease.
    pub fn with_slot_end(mut self, end: SlotEnd) -> Self {
        self.slot_end = end;
        self
    }

    /// What became of the slot of the lease; without meaning for a lease without one.
    pub fn slot_end(&self) -> SlotEnd {
        self.slot_end
    }

    /// The at-least to honour for a lease that has `lock_at_least_for`.
    pub fn at_least_of(&self, lock_at_least_for: Duration) -> Duration {
        if self.ignores_at_least || self.slot_end == SlotEnd::NotStarted {
            Duration::ZERO
        } else {
            lock_at_least_for
        }
    }
}

/// Which locks to list: in the order of their names, a page at a time.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ListRequest {
    after: Option<LockName>,
    limit: Option<usize>,
    held_only: bool,
}

impl ListRequest {
    /// The page size unless one is set.
    pub const DEFAULT_LIMIT: usize = 1_000;

    /// The first page of all locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only names that sort (byte by byte) after this one: the last of the page before.
    pub fn with_after(mut self, name: LockName) -> Self {
        self.after = Some(name);
        self
    }

    /// At most this many; 1 where 0 is asked.
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit.max(1));
        self
    }

    /// Only locks that nobody else could take now.
    pub fn held_only(mut self) -> Self {
        self.held_only = true;
        self
    }

    /// The name that the page starts behind.
    pub fn after(&self) -> Option<&LockName> {
        self.after.as_ref()
    }

    /// The page size.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(Self::DEFAULT_LIMIT)
    }

    /// Whether free locks are left out.
    pub fn is_held_only(&self) -> bool {
        self.held_only
    }
}

/// Frees a lock that somebody else holds: an operator's act.
///
/// The holder is not told by the store; its task may still run. Fencing tokens are what keeps its
/// late writes out.
#[derive(Clone, Debug)]
#[must_use]
pub struct ForceUnlockRequest {
    name: LockName,
    expected_owner: Option<String>,
}

impl ForceUnlockRequest {
    /// Frees the lock whoever holds it.
    pub fn new(name: LockName) -> Self {
        Self {
            name,
            expected_owner: None,
        }
    }

    /// Frees it only while its record names exactly this owner, as [`inspect`] showed it, so that
    /// a lock taken anew in between is left alone.
    ///
    /// [`inspect`]: crate::LockProvider::inspect
    pub fn with_expected_owner(mut self, owner: impl Into<String>) -> Self {
        self.expected_owner = Some(owner.into());
        self
    }

    /// The same request under another name; wrappers that map names use it.
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The owner that the record must name.
    pub fn expected_owner(&self) -> Option<&str> {
        self.expected_owner.as_deref()
    }
}

/// Sets the last slot that was taken of a lock: an operator's act.
#[derive(Clone, Debug)]
#[must_use]
pub struct ResetSlotRequest {
    name: LockName,
    slot: Option<Slot>,
}

impl ResetSlotRequest {
    /// Brings a last slot that lies ahead of the store's clock back to that clock: the next slot
    /// then runs, and none that has passed. One that lies behind it is left as it is.
    pub fn new(name: LockName) -> Self {
        Self { name, slot: None }
    }

    /// Sets it to this one, wherever it lies: slots behind it can be taken, also those that were
    /// taken before.
    pub fn with_slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// The same request under another name; wrappers that map names use it.
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The slot to set; none for the store's clock.
    pub fn slot(&self) -> Option<Slot> {
        self.slot
    }
}
