//! What the kit needs to know of a store: written once by the author of a provider.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{BoxFuture, Clock, LockName, LockProvider};

use crate::proxy::Matcher;
use crate::{Scope, StoreProfile};

/// Any error, as harnesses give it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A provider, as the kit uses it.
pub type Provider = Arc<dyn LockProvider>;

/// Something that a harness may be able to do. `None` where it is not: the cases that need it are
/// then reported as not applicable.
pub type OptionalAction<'a, T> = Option<BoxFuture<'a, Result<T, BoxError>>>;

/// A action that the harness has.
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

/// One store under test: makes [`Namespace`]s in it.
///
/// Only [`name`](Self::name) and [`namespace`](Self::namespace) must be there. Everything else is an optional action
/// with a default of "cannot", and each one that a harness adds makes more cases applicable.
pub trait Harness: Send + Sync + 'static {
    /// The name of what is tested, for messages and, where one test target runs several harnesses,
    /// for the names of the tests: "postgres", "postgres-client-time".
    fn name(&self) -> &str;

    /// A new, empty room in the store that no other case sees: a table, a bucket, a key prefix of
    /// its own. Cases run in parallel.
    ///
    /// # Errors
    /// Where the store cannot be reached or the room cannot be made. The whole run fails then.
    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>>;

    /// Which cases run over it. All, by default; a variant of a harness that runs whole need run only
    /// those about what it changes. `SHEDLOCK_TEST_FULL=1` runs all of them over every harness.
    fn scope(&self) -> Scope {
        Scope::Whole
    }

    /// A provider over the namespace that [`Namespace::child_spec`] described; called in a child process.
    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        let _ = spec;
        None
    }

    /// A namespace in an instance of the store that nobody else uses, so that it can be stopped
    /// ([`Namespace::stop_store`]).
    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        None
    }

    /// How many requests that name the lock the provider may send; see [`Cost`].
    fn cost(&self) -> Cost {
        Cost::default()
    }

    /// How many round trips the calls take, exactly; see [`RoundTrips`]. `None`: nobody has promised.
    fn round_trips(&self) -> Option<RoundTrips> {
        None
    }

    /// What is published about the store.
    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        None
    }

    /// Packets on the wire that belong to no call, such as heartbeats: not counted as round trips.
    fn chatter(&self) -> Option<Matcher> {
        None
    }
}

/// An empty room in the store, for one case.
pub trait Namespace: Any + Send + Sync {
    /// A new provider over this namespace with connections of its own, as another process would have.
    ///
    /// # Errors
    /// Where the store cannot be reached.
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>>;

    /// Removes the room. Called after the case, also after a failed one.
    ///
    /// # Errors
    /// Where the store cannot be reached; the case then fails.
    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }

    /// Deletes the record of a lock, as a person would by hand.
    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        let _ = name;
        None
    }

    /// Writes what is no lock where the record of this lock would be, in the store's own way: these bytes,
    /// or a record whose fields have other types.
    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        let _ = (name, data);
        None
    }

    /// Deletes the container of the records (table, collection, bucket) with all that is in it.
    fn drop_container(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Makes the container anew, empty.
    fn restore_container(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Gives the container settings under which the store breaks promises of the provider, such as a
    /// NATS bucket whose records vanish by their age. A provider that is made afterwards must not be
    /// had, or must refuse its first call, whichever that is and without a
    /// [`check`](shedlock_core::LockProvider::check) before it.
    ///
    /// `None` where the container has no such settings, or where every provider keeps its promises
    /// under all of them.
    fn weaken_container(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Writes a record exactly as ShedLock for Java would leave it after an acquisition, whether
    /// there was one or not. In a store where records vanish when they end, one that has ended is
    /// none.
    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        let _ = (name, record);
        None
    }

    /// Reads a record with the eyes of ShedLock for Java; `None` where it would see none.
    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        let _ = name;
        None
    }

    /// A provider whose own clock is this one: a client that is wrong about the time.
    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        let _ = clock;
        None
    }

    /// Where the store listens, if it speaks TCP without encryption.
    fn store_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// A provider, with short time limits for connecting, that reaches the store through this
    /// address, where a
    /// [fault proxy](crate::proxy::Proxy) stands.
    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        let _ = addr;
        None
    }

    /// Why the requests of this kind of call cannot be told apart on the wire: none carries the
    /// lock's name or owner in the clear. The cases that would strike at one of them are then
    /// reported as not applicable. `None`: they can, and a case that meets none of them fails.
    fn hides(&self, call: Call) -> Option<String> {
        let _ = call;
        None
    }

    /// What [`Harness::open_child`] needs to open this namespace from another process.
    fn child_spec(&self) -> Option<String> {
        None
    }

    /// Stops the store; only asked of a namespace from [`Harness::namespace_on_own_store`].
    fn stop_store(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Starts the store again, with its data.
    fn start_store(&self) -> OptionalAction<'_, ()> {
        None
    }

    /// Moves the store's clock on by this much: for stores whose time stands still otherwise.
    /// `None`: the store's time is the real one, and cases wait.
    fn advance(&self, by: Duration) -> Option<()> {
        let _ = by;
        None
    }

    /// The namespace inside of this one, where this one wraps another: a crate with cases of its own finds what
    /// they need beyond this trait by the type of the innermost (`&dyn Namespace` is `&dyn Any`).
    fn inner(&self) -> Option<&dyn Namespace> {
        None
    }

    /// Opens a transaction on the pool or connection that a provider was made from, runs `work`
    /// with that provider, and rolls the transaction back.
    fn inside_rolled_back_transaction(&self, work: Work) -> OptionalAction<'_, ()> {
        let _ = work;
        None
    }
}

/// A kind of call whose requests a [fault proxy](crate::proxy::Proxy) strikes at.
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

/// What a case does with a provider while a transaction of the user's is open.
pub type Work = Box<dyn FnOnce(Provider) -> BoxFuture<'static, ()> + Send>;

/// A record as ShedLock for Java sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaRecord {
    /// What it writes as owner: a bare host name.
    pub locked_by: String,
    /// When it acquired.
    pub locked_at: SystemTime,
    /// When the lock is free.
    pub lock_until: SystemTime,
}

/// How many requests that name the lock a call may send (law 13): those that carry the name or the
/// owner in the clear, as seen on the wire.
///
/// The default is what the law says for a store with conditional writes. A store that needs more
/// says so here, and in its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A won attempt on a record that is there.
    pub won: usize,
    /// A won attempt where there is no record yet.
    pub first: usize,
    /// An attempt on a lock that is held.
    pub lost: usize,
    /// An extension.
    pub extend: usize,
    /// An unlock.
    pub unlock: usize,
}

impl Cost {
    /// A store over the engine for compare-and-swap (`shedlock-store`), each of whose calls is one
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

/// How many round trips one call takes on a warm connection (law 13): from request to reply
/// as [`Meter`](crate::proxy::Meter) counts them, whatever the requests are about. What is sent
/// together, and answered together, is one.
///
/// Unlike [`Cost`] these are exact: a call that takes fewer does not do what it is documented to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// A won attempt on a record that is there.
    pub won: usize,
    /// A won attempt where there is no record yet.
    pub first: usize,
    /// An attempt on a lock that is held.
    pub lost: usize,
    /// An extension; not measured where there is none.
    pub extend: usize,
    /// An unlock.
    pub unlock: usize,
}

impl RoundTrips {
    /// Every call is one.
    pub const ONE: Self = Self {
        won: 1,
        first: 1,
        lost: 1,
        extend: 1,
        unlock: 1,
    };

    /// As [`Cost::COMPARE_AND_SWAP`]: an attempt reads and then writes.
    pub const COMPARE_AND_SWAP: Self = Self {
        won: 2,
        first: 2,
        ..Self::ONE
    };

    /// What the law aims at for a store with conditional writes: one; a second to tell who holds the
    /// lock, and a third to make its record.
    pub const CONDITIONAL: Self = Self {
        first: 3,
        lost: 2,
        ..Self::ONE
    };
}
