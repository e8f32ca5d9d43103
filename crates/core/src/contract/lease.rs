//! One holding of a lock.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::contract::{AttemptRequest, ExtendRequest, LockName, Owner, Slot};

/// One holding of a lock by one owner, as the provider granted it. It is a description, not a
/// guard.
///
/// Dropping it frees nothing. It carries everything that unlock and extend need, together with the
/// data that the provider attached for its own use ([`state`](Self::state): a version, a revision,
/// a lease id). A lease that was unlocked or has ended is stale. A provider called with a stale
/// lease changes nothing and returns "lost". A lease that was replaced by an extension still names
/// the same holding, since an extension whose reply was lost must be repeated with it.
#[derive(Clone)]
#[must_use]
pub struct Lease {
    name: LockName,
    job: Option<Arc<str>>,
    owner: Owner,
    lock_at_most_for: Duration,
    lock_at_least_for: Duration,
    slot: Option<Slot>,
    slot_attempt: Option<u32>,
    fencing_token: Option<u64>,
    acquired_at: Option<SystemTime>,
    locked_until: Option<SystemTime>,
    state: Option<Arc<dyn Any + Send + Sync>>,
}

impl Lease {
    /// Creates the lease that is granted for this request. For providers.
    pub fn granted(request: &AttemptRequest) -> Self {
        Self {
            name: request.name.clone(),
            job: request.shared_job().cloned(),
            owner: request.owner.clone(),
            lock_at_most_for: request.lock_at_most_for,
            lock_at_least_for: request.lock_at_least_for,
            slot: request.slot,
            slot_attempt: None,
            fencing_token: None,
            acquired_at: None,
            locked_until: None,
            state: None,
        }
    }

    /// Returns this lease after an extension, with new durations. For providers.
    pub fn extended(&self, request: &ExtendRequest) -> Self {
        let mut lease = self.clone();
        lease.lock_at_most_for = request.lock_at_most_for;
        lease.lock_at_least_for = request.at_least_after(self.lock_at_least_for);
        lease.locked_until = None;
        lease
    }

    /// Adds the fencing token.
    pub fn with_fencing_token(mut self, token: u64) -> Self {
        self.fencing_token = Some(token);
        self
    }

    /// Adds the number of this attempt at its slot. For providers.
    pub fn with_slot_attempt(mut self, attempt: Option<u32>) -> Self {
        self.slot_attempt = attempt;
        self
    }

    /// Adds the time at which the store granted it, by the provider's clock.
    pub fn with_acquired_at(mut self, instant: SystemTime) -> Self {
        self.acquired_at = Some(instant);
        self
    }

    /// Adds the time at which it ends in the store, by the provider's clock.
    pub fn with_locked_until(mut self, instant: SystemTime) -> Self {
        self.locked_until = Some(instant);
        self
    }

    /// Adds the provider's own state and replaces any earlier one.
    pub fn with_state(mut self, state: Arc<dyn Any + Send + Sync>) -> Self {
        self.state = Some(state);
        self
    }

    /// Returns the same lease under another name. For wrappers that map names.
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the job that the lock belongs to; see [`LockConfig::job`](crate::LockConfig::job).
    pub fn job(&self) -> &str {
        self.job.as_deref().unwrap_or(self.name.as_str())
    }

    /// Returns the owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns `lock_at_most_for`, counted from acquisition or from the last extension.
    pub fn lock_at_most_for(&self) -> Duration {
        self.lock_at_most_for
    }

    /// Returns `lock_at_least_for`, always counted from acquisition.
    pub fn lock_at_least_for(&self) -> Duration {
        self.lock_at_least_for
    }

    /// Returns the slot that was claimed with the lock.
    pub fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// Returns the number of this attempt at its slot, counted from 1, if the slot must not be
    /// lost; `None` for other slots.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.slot_attempt
    }

    /// Returns the fencing token, if the store keeps one.
    pub fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }

    /// Returns when the store granted it, by the provider's clock, if the store reports it.
    pub fn acquired_at(&self) -> Option<SystemTime> {
        self.acquired_at
    }

    /// Returns when it ends in the store, by the provider's clock, if the store reports it.
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.locked_until
    }

    /// Returns the provider's own state, if it is of this type.
    pub fn state<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.state.as_deref().and_then(|state| state.downcast_ref())
    }

    /// Returns the provider's own state untyped. Wrappers carry it inside theirs.
    pub fn raw_state(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.state.as_ref()
    }

    /// Replaces the state, or removes it. Wrappers use it to restore the inner provider's state.
    pub fn with_raw_state(mut self, state: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        self.state = state;
        self
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("lock_at_most_for", &self.lock_at_most_for)
            .field("lock_at_least_for", &self.lock_at_least_for)
            .field("slot", &self.slot)
            .field("slot_attempt", &self.slot_attempt)
            .field("fencing_token", &self.fencing_token)
            .field("acquired_at", &self.acquired_at)
            .field("locked_until", &self.locked_until)
            .finish_non_exhaustive()
    }
}
