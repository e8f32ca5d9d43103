//! What the kit needs from a store: the author of a provider implements it once.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Clock, LockName, LockProvider};

use crate::proxy::Matcher;
use crate::{Scope, StoreProfile};

/// The error type of harnesses: any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A provider as the kit uses it.
pub type Provider = Arc<dyn LockProvider>;

/// The result of an action that a harness may not support. `None` means that it is not supported;
/// the cases that need it are then reported as not applicable.
pub type OptionalAction<'a, T> = Option<BoxFuture<'a, Result<T, BoxError>>>;

/// Wraps a future as an action that the harness supports.
///
/// ```
/// use shedlock_conformance::{OptionalAction, action};
/// fn answer<'a>() -> OptionalAction<'a, u8> {
///     action(async { Ok(42) })
/// }
/// ```
pub fn action<'a, T>(
    future: impl Future<Output = Result<T, BoxError>> + Send + 'a,
) -> OptionalAction<'a, T> {
    Some(Box::pin(future))
}

/// A store under test: creates [`Namespace`]s in it.
///
/// Only [`name`](Self::name) and [`namespace`](Self::namespace) are required. All other methods are
/// optional and default to "not supported". Each one that you implement makes more cases
/// applicable.
pub trait Harness: Send + Sync + 'static {
    /// Returns the name of what is tested: "postgres", "postgres-client-time". It appears in
    /// messages and, if one test target runs several harnesses, in the names of the tests.
    fn name(&self) -> &str;

    /// Creates a new, empty namespace in the store that no other case uses: its own table, bucket
    /// or key prefix. Cases run in parallel.
    ///
    /// # Errors
    /// If the store is unreachable or the namespace cannot be created. The whole run then fails.
    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>>;

    /// Returns which cases run over this harness. The default is all of them. A variant of a
    /// harness that already runs all cases needs only the cases about what it changes.
    /// `SHEDLOCK_TEST_FULL=1` runs all cases over every harness.
    fn scope(&self) -> Scope {
        Scope::Whole
    }

    /// Opens a provider over the namespace that [`Namespace::child_spec`] described. Called in a
    /// child process.
    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        let _ = spec;
        None
    }

    /// Creates a namespace in an instance of the store that nothing else uses, so that it can be
    /// stopped ([`Namespace::stop_store`]).
    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        None
    }

    /// Creates a namespace in an instance of the store that nothing else uses, and that can be
    /// filled ([`Namespace::fill`]).
    fn namespace_to_fill(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        None
    }

    /// Returns how many requests containing the lock's name or owner a call may send; see [`Cost`].
    fn cost(&self) -> Cost {
        Cost::default()
    }

    /// Returns the exact number of round trips of each call; see [`RoundTrips`]. `None`: not
    /// specified.
    fn round_trips(&self) -> Option<RoundTrips> {
        None
    }

    /// Returns what is published about the store.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        None
    }

    /// Matches packets that belong to no call, such as heartbeats. They do not count as round
    /// trips.
    fn chatter(&self) -> Option<Matcher> {
        None
    }
}

/// An empty, isolated part of the store, for one case.
pub trait Namespace: Any + Send + Sync {
    /// Creates a new provider over this namespace with its own connections, as another process
    /// would have.
    ///
    /// # Errors
    /// If the store is unreachable.
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>>;

    /// Removes the namespace. Called after the case, even if the case failed.
    ///
    /// # Errors
    /// If the store is unreachable; the case then fails.
    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }

    /// Deletes the record of a lock, as an operator would by hand.
    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        let _ = name;
        None
    }

    /// Writes something that is not a lock to the place of this lock's record, in whatever way
    /// suits the store: these bytes, or a record whose fields have other types.
    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        let _ = (name, data);
        None
    }

    /// Deletes the container of the records (table, collection, bucket) and everything in it.
    fn drop_container(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Recreates the container, empty.
    fn restore_container(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Gives the container settings under which the store breaks the provider's promises, such as a
    /// NATS bucket whose records are deleted at a certain age. A provider that is created
    /// afterwards must fail at its creation or at its first call, whichever call that is, even
    /// without a preceding [`check`](shedlock_core::LockProvider::check).
    ///
    /// `None` if the container has no such settings, or if every provider keeps its promises under
    /// all of them.
    fn weaken_container(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Writes a record exactly as ShedLock for Java leaves it after an acquisition, whether or not
    /// there was a record before. If the store deletes records when they expire, writing an expired
    /// record leaves none.
    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        let _ = (name, record);
        None
    }

    /// Reads a record as ShedLock for Java does; `None` if ShedLock would find no record.
    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        let _ = name;
        None
    }

    /// Creates a provider that uses this clock as its local clock: a client with the wrong time.
    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        let _ = clock;
        None
    }

    /// Returns the store's address, if it speaks unencrypted TCP.
    fn store_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// Creates a provider that connects to the store through this address, on which a [fault
    /// proxy](crate::proxy::Proxy) listens. Give it short connect timeouts.
    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        let _ = addr;
        None
    }

    /// Returns why the requests of this kind of call cannot be recognized on the wire: none
    /// contains the lock's name or owner in plain text. The cases that inject faults into them are
    /// then reported as not applicable. `None`: the requests can be recognized, and a case whose
    /// fault matches none of them fails.
    fn hides(&self, call: Call) -> Option<String> {
        let _ = call;
        None
    }

    /// Returns what [`Harness::open_child`] needs to open this namespace from another process.
    fn child_spec(&self) -> Option<String> {
        None
    }

    /// Stops the store. Called only on a namespace from [`Harness::namespace_on_own_store`].
    fn stop_store(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Starts the store again, with its data.
    fn start_store(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Fills the store, as its data would: afterwards it refuses to create a record. Called only on a
    /// namespace from [`Harness::namespace_to_fill`].
    fn fill(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Makes space in a store that is full, and leaves the locks as they are.
    fn make_space(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Advances the store's clock by this much, if the store's time stands still otherwise. `None`:
    /// the store uses real time, and cases wait.
    fn advance(&self, by: Duration) -> Option<()> {
        let _ = by;
        None
    }

    /// Returns the namespace that this one wraps, if it is a wrapper. A crate whose cases need more
    /// than this trait offers can downcast the innermost namespace (`&dyn Namespace` is
    /// `&dyn Any`).
    fn inner(&self) -> Option<&dyn Namespace> {
        None
    }

    /// Opens a transaction on the pool or connection that a provider was created from, runs `work`
    /// with that provider, and rolls the transaction back.
    fn inside_rolled_back_transaction(&self, work: Work) -> OptionalAction<'_, ()> {
        let _ = work;
        None
    }

    /// Creates a provider over a pool of two connections, which come back inside open transactions:
    /// as after a cancelled `begin`, or a `BEGIN` in plain SQL.
    fn left_open(&self) -> OptionalAction<'_, LeftOpen> {
        None
    }
}

/// A provider over a pool whose connections can be left in open transactions.
#[non_exhaustive]
pub struct LeftOpen {
    /// The provider.
    pub provider: Provider,
    /// Opens a transaction in each connection of the pool, reads something in it, so that it sees
    /// the store as it is now, and gives the connection back.
    pub leave: Box<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>,
    /// Makes the pool hand out every connection inside a transaction, as a hook can.
    pub always: Box<dyn Fn() + Send + Sync>,
}

impl LeftOpen {
    /// Creates it.
    pub fn new(
        provider: Provider,
        leave: impl Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync + 'static,
        always: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            provider,
            leave: Box::new(leave),
            always: Box::new(always),
        }
    }
}

impl std::fmt::Debug for LeftOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeftOpen").finish_non_exhaustive()
    }
}

/// A kind of call into whose requests a [fault proxy](crate::proxy::Proxy) injects faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// [`LockProvider::attempt`].
    Attempt,
    /// [`LockProvider::extend`].
    Extend,
    /// [`LockProvider::unlock`].
    Unlock,
    /// [`LockProvider::withdraw`].
    Withdraw,
}

/// What a case does with a provider while a transaction of the caller is open.
pub type Work = Box<dyn FnOnce(Provider) -> BoxFuture<'static, ()> + Send>;

/// A record as ShedLock for Java sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaRecord {
    /// The owner that ShedLock writes: a bare host name.
    pub locked_by: String,
    /// When the lock was acquired.
    pub locked_at: SystemTime,
    /// When the lock becomes free.
    pub lock_until: SystemTime,
}

/// How many requests a call may send that contain the lock's name or owner in plain text, as seen
/// on the wire (law 13).
///
/// The default is what the law requires of a store with conditional writes. If your store needs
/// more, declare it here and in your documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A won attempt on an existing record.
    pub won: usize,
    /// A won attempt without an existing record.
    pub first: usize,
    /// An attempt on a held lock.
    pub lost: usize,
    /// An extension.
    pub extend: usize,
    /// An unlock.
    pub unlock: usize,
}

impl Cost {
    /// A store over the compare-and-swap engine (`shedlock-provider`), each of whose calls is one
    /// request.
    pub const COMPARE_AND_SWAP: Self = Self {
        won: 2,
        first: 2,
        lost: 1,
        extend: 1,
        unlock: 1,
    };
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            won: 1,
            first: 3,
            lost: 2,
            extend: 1,
            unlock: 1,
        }
    }
}

/// How many round trips one call takes on a warm connection (law 13), from request to reply as
/// counted by [`Meter`](crate::proxy::Meter), whatever the requests contain. Requests that are sent
/// together and answered together count as one.
///
/// Unlike [`Cost`], these numbers are exact: a call that takes fewer round trips does not behave as
/// documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// A won attempt on an existing record.
    pub won: usize,
    /// A won attempt without an existing record.
    pub first: usize,
    /// An attempt on a held lock.
    pub lost: usize,
    /// An extension; not measured if the store does not support it.
    pub extend: usize,
    /// An unlock.
    pub unlock: usize,
}

impl RoundTrips {
    /// Every call takes one.
    pub const ONE: Self = Self {
        won: 1,
        first: 1,
        lost: 1,
        extend: 1,
        unlock: 1,
    };

    /// As [`Cost::COMPARE_AND_SWAP`]: an attempt reads, then writes.
    pub const COMPARE_AND_SWAP: Self = Self {
        won: 2,
        first: 2,
        ..Self::ONE
    };

    /// What the law aims at for a store with conditional writes: one round trip; a second to find
    /// out who holds the lock, and a third to create its record.
    pub const CONDITIONAL: Self = Self {
        first: 3,
        lost: 2,
        ..Self::ONE
    };
}
