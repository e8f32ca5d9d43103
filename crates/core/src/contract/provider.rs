//! The contract between the runtime and a store.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::BoxFuture;
use crate::contract::{
    Attempt, AttemptRequest, Capabilities, Change, Changed, Error, ErrorKind, ExtendRequest,
    Extension, Finding, Journal, Lease, ListRequest, LockDefaults, LockName, LockRecord, Migration,
    MigrationStep, ProviderIdentity, Schema, Seen, Unlock, UnlockRequest,
};

/// The lock contract over one store. Store authors implement it, and the conformance kit tests it.
///
/// # Rules for implementations
///
/// - **No waiting.** Each method makes its round trips and returns. It never waits for a lock.
/// - **Errors have kinds.** A failure before anything can have been written is `Unavailable`. A
///   failure after the request may have reached the store is `OutcomeUnknown`. The runtime then
///   repeats the same request, and a provider that finds the request's own owner in the record
///   returns success.
/// - **Own connection.** A provider never joins the caller's transaction, nor one that was left open
///   in a connection of the caller's pool.
/// - **No memory.** A provider does not cache what exists in the store.
/// - **Cancellation.** Any future may be dropped at any point. Dropping it has the same effect as a
///   lost reply. The runtime then calls [`withdraw`](Self::withdraw).
/// - **Checks first.** `validate`, and the check for anything the store cannot express, come before
///   any I/O.
///
/// Methods added in later versions have default bodies.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no lock provider",
    label = "a provider is expected here",
    note = "a pool or a client becomes a provider by the crate of its driver, like `shedlock_sqlx::PostgresProvider::new(pool)`",
    note = "`shedlock::connect(url)` makes one that opens connections of its own"
)]
pub trait LockProvider: fmt::Debug + Send + Sync + 'static {
    /// Tries once to take the lock, together with the slot if the request names one, in one atomic
    /// step.
    ///
    /// An attempt is idempotent per (owner, slot): if it is repeated while this owner's lease runs,
    /// it returns that lease. Once the lease has ended, no copy of the attempt takes the lock
    /// again. This covers a copy that finds its own released mark, and a copy that arrives more
    /// than [`AttemptRequest::timeout`] after it was sent ([`StoreClock`](crate::StoreClock)).
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>>;

    /// Tries several locks at once: as [`attempt`](Self::attempt) one after the other, which is the
    /// default, or in fewer round trips. The results are in the order of the requests. One that fails
    /// does not keep the others from being tried.
    ///
    /// The requests share one [budget](AttemptRequest::budget). If the future is dropped, each of
    /// them may have won.
    fn attempt_set<'a>(
        &'a self,
        requests: &'a [AttemptRequest],
    ) -> BoxFuture<'a, Vec<Result<Attempt, Error>>> {
        Box::pin(async move {
            let mut results = Vec::with_capacity(requests.len());
            for request in requests {
                results.push(self.attempt(request).await);
            }
            results
        })
    }

    /// Ends any lease that this request's owner may have won. The lease ends at once and without
    /// honouring `lock_at_least_for`, since its task never ran. Returns true if the record still
    /// named this owner, even if the lease had expired.
    ///
    /// A slot that the request claimed is given back too, in the same way as
    /// [`SlotEnd::NotStarted`](crate::SlotEnd::NotStarted) gives it back, even if the lease had
    /// expired. Otherwise a store that was unreachable for that long would use up a slot for which
    /// nothing ran. If the task may have run, the runtime withdraws the request without its slot.
    ///
    /// When the runtime calls it once more after [`AttemptRequest::timeout`], its result is final:
    /// no copy of the attempt takes the lock afterwards. A compare-and-swap store has no such time
    /// bound, so it makes sure that the version a copy would replace is no longer current.
    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>>;

    /// Makes the lease end [`ExtendRequest::lock_at_most_for`] from now, if the record still
    /// belongs to this lease and the lease still runs. Otherwise returns lost and changes nothing.
    /// A lease that already ends later keeps its end, and the returned lease reports it: an
    /// extension never shortens a lease.
    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>>;

    /// Extends several leases at once, each as [`extend`](Self::extend) does: one after the other,
    /// which is the default, or in fewer round trips. The results are in the order of the leases.
    fn extend_set<'a>(
        &'a self,
        leases: &'a [(Lease, ExtendRequest)],
    ) -> BoxFuture<'a, Vec<Result<Extension, Error>>> {
        Box::pin(async move {
            let mut results = Vec::with_capacity(leases.len());
            for (lease, request) in leases {
                results.push(self.extend(lease, request).await);
            }
            results
        })
    }

    /// Ends the lease, if the record still belongs to it and it still runs. The lock becomes free
    /// when `lock_at_least_for` has passed since acquisition, or at once if it has already passed.
    /// Otherwise returns lost and changes nothing.
    ///
    /// A lease under which nothing ran ([`SlotEnd::NotStarted`](crate::SlotEnd::NotStarted)) may
    /// have expired: unless the lock has been taken since, its slot is still given back.
    ///
    /// If the lease has a slot, the same step marks the slot as [`UnlockRequest::slot_end`]
    /// specifies.
    ///
    /// If the call is repeated after a lost reply, it returns unlocked until another owner has
    /// taken the lock. A store whose records vanish must keep a trace of who unlocked.
    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>>;

    /// Returns the record of one lock, or `None` if there is none: unless overridden, the one that
    /// [`look`](Self::look) reads.
    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move { Ok(self.look(name).await?.map(|seen| seen.record)) })
    }

    /// Returns a page of records in the byte order of their names.
    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>>;

    /// Reads the record of one lock together with the store's version of it, for a
    /// [`change`](Self::change) or a [`remove`](Self::remove) that must hit exactly what was read.
    /// `None` if there is no record.
    ///
    /// What operators do ([`admin`](crate::admin)) is a look and a conditional write.
    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>>;

    /// Changes a record in one step, if it has not changed since it was read. Of the slots and the
    /// lease, only those that the change replaces must be the same as when they were read; a change
    /// that ends a lease or takes the lock must not hit a later lease.
    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>>;

    /// Removes the record of a free lock and everything beside it, if nothing of it has changed since
    /// it was read. Copies of requests that were sent before must find no more than they would after
    /// a deletion by hand.
    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>>;

    /// Checks that the store is reachable and set up as this provider needs it. Afterwards
    /// [`capabilities`](Self::capabilities) is exact.
    fn check(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Looks for everything that can make locks in this store fail or surprise their users: its
    /// settings, its clock, its records. Changes nothing. For operators; it may read all records.
    ///
    /// A store that cannot be reached or used is a finding too. Findings of level
    /// [`Level::Ok`](crate::Level::Ok) name the checks that found nothing. A provider without checks
    /// returns none.
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Reads the clock of the store, for a comparison with the clock of this host
    /// ([`ClockOffset`](crate::ClockOffset)); `None` if the store does not report its time.
    fn store_time(&self) -> BoxFuture<'_, Result<Option<SystemTime>, Error>> {
        Box::pin(async { Ok(None) })
    }

    /// Reads until when everything that was written is visible here, if this is a copy that follows
    /// another server; `None` if it is not, or cannot be found out. Everything that was written later may
    /// be missing. The time is that of the server that is followed, and stands still while nothing is
    /// written there.
    fn written_until(&self) -> BoxFuture<'_, Result<Option<SystemTime>, Error>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns what this provider can do, as far as it is known without I/O. If that depends on how
    /// the store is set up, the provider detects it at its first contact with the store.
    fn capabilities(&self) -> Capabilities;

    /// Returns the identity of this provider.
    fn identity(&self) -> ProviderIdentity;

    /// Returns the identity of the provider that the lock of this name belongs to. It differs from
    /// [`identity`](Self::identity) for wrappers that route by name.
    fn identity_of(&self, name: &LockName) -> ProviderIdentity {
        let _ = name;
        self.identity()
    }

    /// Returns the store's short name for messages: "postgres", "memory".
    fn store(&self) -> &str;

    /// Returns the durations for locks that set none.
    fn defaults(&self) -> LockDefaults {
        LockDefaults::new()
    }

    /// Returns the journal of jobs and runs that this store keeps beside its locks, over the same
    /// connections; `None` if this kind of store cannot keep one. No I/O: whether the journal was
    /// created is what [`Journal::version`] returns.
    fn journal(&self) -> Option<Arc<dyn Journal>> {
        None
    }

    /// Opens a connection of its own to the same records, to extend and to end leases while the tasks
    /// of the runtime that this provider belongs to block all of its threads, while its pool is
    /// exhausted, or after that runtime has shut down. `None` if none can be opened.
    ///
    /// The future, and what it returns, are polled on a thread of this library, on another tokio
    /// runtime than this provider. The runtime calls it only if a lease could not be extended or ended
    /// in time, calls only [`extend`](Self::extend), [`unlock`](Self::unlock) and
    /// [`withdraw`](Self::withdraw) on what it returns, and drops that when it has been idle for a
    /// minute. It believes the replies: if the connection cannot be shown to see the records that
    /// this provider sees, all three must return an error, change nothing, and never report that
    /// there is no such lease.
    ///
    /// A wrapper that changes names or leases applies the same changes here, or returns `None`.
    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        None
    }

    /// Creates the store's container (table, collection, bucket), or adds what is missing to one
    /// that ShedLock created. Repeating it, or running it in two processes at once, is harmless.
    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async move {
            Err(
                Error::new(ErrorKind::Unsupported, "this store has nothing to migrate")
                    .with_store(self.store()),
            )
        })
    }

    /// Returns what [`migrate`](Self::migrate) would change now, and changes nothing. Empty if the
    /// store is complete.
    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(async move {
            Err(Error::new(
                ErrorKind::Unsupported,
                "this provider cannot tell what a migration would change",
            )
            .with_store(self.store()))
        })
    }

    /// Returns what the store needs before it can keep locks. No I/O: it depends on the provider's
    /// settings alone.
    fn schema(&self) -> Schema {
        Schema::default()
    }
}
