//! The contract between the runtime and a store.

use std::fmt;

use crate::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Error, ErrorKind, ExtendRequest, Extension,
    ForceUnlockRequest, ForcedUnlock, Lease, ListRequest, LockDefaults, LockName, LockRecord,
    Migration, ProviderIdentity, ResetSlotRequest, SlotReset, Unlock, UnlockRequest,
};

/// The lock contract over one store: what a store author implements, and the conformance kit
/// proves.
///
/// # Rules for implementations
///
/// - **No waiting.** Each method does its round trips and answers; it never waits for a lock.
/// - **Errors have kinds.** A failure before anything can have been written is `Unavailable`; one
///   after the request may have reached the store is `OutcomeUnknown`. The runtime asks again with the
///   same request, and a provider that finds the request's own owner answers with success.
/// - **No transaction of the caller's**, no memory of what exists in the store.
/// - **Cancellation.** Any future may be dropped at any point; that is the same as a lost answer.
///   The runtime then calls [`withdraw`](Self::withdraw).
/// - Checks (`validate`, what the store cannot express) come before any I/O.
///
/// Methods added in later versions have default bodies.
pub trait LockProvider: fmt::Debug + Send + Sync + 'static {
    /// Tries once to take the lock, and the slot if the request names one, in one atomic step.
    ///
    /// Idempotent per (owner, slot): asked again while the lease of this owner runs, it returns that
    /// lease. Once the lease has ended, no copy of the attempt takes the lock again: not one that
    /// finds its own released mark, and not one that arrives more than
    /// [`AttemptRequest::timeout`] after it was sent ([`StoreClock`](crate::StoreClock)).
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>>;

    /// Ends whatever lease this request's owner may have won, at once and without honouring
    /// at-least, since its task never ran. True if the record still named this owner, even if the
    /// lease had expired.
    ///
    /// A slot that the request claimed is given back with it, as
    /// [`SlotEnd::NotStarted`](crate::SlotEnd::NotStarted) gives it back, even if the lease had
    /// expired: otherwise a store that was unreachable for that long would use up a slot for which
    /// nothing ran. The runtime withdraws a request without its slot where the task may have run.
    ///
    /// Called once more after [`AttemptRequest::timeout`], its answer is final: no copy of the
    /// attempt takes the lock afterwards. A compare-and-swap store, which has no such bound, sees to
    /// it that the version which a copy would replace does not stand any more.
    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>>;

    /// Makes the lease end [`ExtendRequest::lock_at_most_for`] from now, if it is still the
    /// record's and still runs; otherwise returns lost and changes nothing. A lease that ends later
    /// than that keeps its end, which the returned lease reports: an extension never shortens.
    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>>;

    /// Ends the lease, if it is still the record's and still runs: the lock is free at acquisition
    /// + at-least, or at once where that is over. Otherwise answers lost and changes nothing.
    ///
    /// A lease under which nothing ran ([`SlotEnd::NotStarted`](crate::SlotEnd::NotStarted)) may have
    /// expired: as long as no one has taken the lock since, its slot is given back all the same.
    ///
    /// Where the lease has a slot, the same step marks it as [`UnlockRequest::slot_end`] says.
    ///
    /// Asked again after an answer was lost, it answers unlocked until somebody else has taken the
    /// lock: a store whose records vanish keeps a trace of who unlocked.
    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>>;

    /// The record of one lock; `None` where there is none.
    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>>;

    /// A page of records in the byte order of their names.
    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>>;

    /// Frees a lock whoever holds it: for operators.
    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForcedUnlock, Error>>;

    /// Sets the last slot that was taken, so that slots behind it can be taken, and gives up one
    /// that is open: for operators, after a wrong clock has claimed the future, or to have a slot
    /// run again.
    fn reset_slot<'a>(
        &'a self,
        request: &'a ResetSlotRequest,
    ) -> BoxFuture<'a, Result<SlotReset, Error>> {
        Box::pin(async move {
            Err(Error::new(
                ErrorKind::Unsupported,
                "this store cannot set the last slot of a lock",
            )
            .with_lock(request.name().as_str())
            .with_store(self.store()))
        })
    }

    /// Looks at the store: is it reachable, is it set up as this provider needs it. Afterwards
    /// [`capabilities`](Self::capabilities) is exact.
    fn check(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// What this provider can do, as far as it knows without asking: a provider whose abilities
    /// depend on how the store is set up learns them at its first contact.
    fn capabilities(&self) -> Capabilities;

    /// Which provider this is.
    fn identity(&self) -> ProviderIdentity;

    /// Which provider the lock of this name belongs to; differs from
    /// [`identity`](Self::identity) for wrappers that route by name.
    fn identity_of(&self, name: &LockName) -> ProviderIdentity {
        let _ = name;
        self.identity()
    }

    /// The store's short name for messages: "postgres", "memory".
    fn store(&self) -> &str;

    /// Durations for locks that set none.
    fn defaults(&self) -> LockDefaults {
        LockDefaults::new()
    }

    /// Makes the store's container (table, collection, bucket), or adds what is missing to one that
    /// ShedLock made. Doing it twice, or by two processes at once, is harmless.
    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async move {
            Err(
                Error::new(ErrorKind::Unsupported, "this store has nothing to migrate")
                    .with_store(self.store()),
            )
        })
    }
}
