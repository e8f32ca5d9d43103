//! The laws of shedlock as test cases that the author of any store provider can run.
//!
//! A provider implements [`LockProvider`](shedlock_core::LockProvider) over a store. Whether it
//! keeps what that promises (no two holders, no lock freed by a late one or taken for one, nothing
//! lost with a lost answer) is not seen by looking at it. This kit finds out: about 200 cases, run
//! against the real store, by several clients, by several processes of which some are killed, through
//! a proxy that loses answers and delivers requests late.
//!
//! # How to run it
//!
//! 1. Add a test target without the standard test harness:
//!
//!    ```toml
//!    [dev-dependencies]
//!    shedlock-conformance = "0.1"
//!
//!    [[test]]
//!    name = "conformance"
//!    harness = false
//!    ```
//!
//! 2. In `tests/conformance.rs` write a [`Harness`]: how to make an empty room in your store, and a
//!    provider over it. Its `main` is one call:
//!
//!    ```no_run
//!    # use shedlock_conformance::{BoxError, Harness, Namespace};
//!    # use std::sync::Arc;
//!    # struct MyStore;
//!    # impl Harness for MyStore {
//!    #     fn name(&self) -> &str { "my-store" }
//!    #     fn namespace(&self) -> shedlock_core::BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
//!    #         Box::pin(async { Err("only an example".into()) })
//!    #     }
//!    # }
//!    fn main() -> std::process::ExitCode {
//!        let harness: Arc<dyn Harness> = Arc::new(MyStore);
//!        shedlock_conformance::main([harness])
//!    }
//!    ```
//!
//! 3. `cargo test --test conformance`, with a filter if you like
//!    (`cargo test --test conformance -- law09`). A name says the law and what is checked:
//!
//!    ```text
//!    test law03_ownership::stale_unlock_by_another_process ... ok
//!    test law07_no_memory::a_failed_first_attempt_poisons_nothing ... ignored (not applicable: the harness cannot drop the container (Namespace::drop_container))
//!    test result: ok. 152 passed; 0 failed; 3 ignored; …
//!    ```
//!
//! 4. Over a server, have its raw clients race first ([`contention`]): a double of a store that
//!    lets several writers win proves nothing.
//!
//! # A whole harness
//!
//! Over the in-memory provider, whose time stands still until a case moves it. With a runner of
//! your own you need no `main`: each [`Case`] goes through [`run_case`].
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use shedlock_conformance::{BoxError, Harness, OptionalAction, Provider, Namespace, Stop, laws, action};
//! use shedlock_core::{BoxFuture, LockName, ManualClock, MemoryProvider};
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     fn name(&self) -> &str {
//!         "memory"
//!     }
//!
//!     // A fresh store for each case. Over a database: a table with a name of its own.
//!     fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
//!         Box::pin(async {
//!             let clock = ManualClock::new();
//!             let store = MemoryProvider::with_clock(Arc::new(clock.clone()));
//!             Ok(Arc::new(Map { store, clock }) as Arc<dyn Namespace>)
//!         })
//!     }
//! }
//!
//! struct Map {
//!     store: MemoryProvider,
//!     clock: ManualClock,
//! }
//!
//! impl Namespace for Map {
//!     // Each provider has connections of its own, as another process would.
//!     fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
//!         Box::pin(async { Ok(Arc::new(self.store.another_client()) as Provider) })
//!     }
//!
//!     // Each action that a harness has makes more cases applicable.
//!     fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
//!         action(async {
//!             self.store.remove(name);
//!             Ok(())
//!         })
//!     }
//!
//!     fn advance(&self, by: Duration) -> Option<()> {
//!         self.clock.advance(by);
//!         Some(())
//!     }
//! }
//!
//! let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! for case in laws::law03_ownership::cases() {
//!     match runtime.block_on(shedlock_conformance::run_case(Arc::new(Memory), &case)) {
//!         Ok(()) => {}
//!         Err(Stop::NotApplicable(reason)) => println!("{}: {reason}", case.name()),
//!         Err(Stop::Failed(message)) => panic!("{}: {message}", case.name()),
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What a harness can do
//!
//! | action | what it opens |
//! |---|---|
//! | [`Namespace::provider`] | exclusion, ownership, durations, idempotence, fencing, slots, names, operators' calls |
//! | [`Namespace::delete_record`], [`drop_container`](Namespace::drop_container), [`restore_container`](Namespace::restore_container) | law 7: what is deleted by hand heals |
//! | [`Namespace::child_spec`] and [`Harness::open_child`] | the laws between processes, killed (SIGKILL) and stopped (SIGSTOP) ones included |
//! | [`Namespace::store_addr`] and [`Namespace::provider_via`] | lost, late and withheld requests and answers, a store that goes away, the cost of calls |
//! | [`Namespace::weaken_container`] | settings of the container under which nothing may be granted |
//! | [`Harness::namespace_on_own_store`], [`Namespace::stop_store`], [`Namespace::start_store`] | restarts |
//! | the same, with [`Harness::round_trips`] | round trips, counted exactly |
//! | [`Harness::profile`] | what your documentation says of the store, held against the provider |
//! | [`Namespace::provider_with_clock`] | clients with wrong clocks |
//! | [`Namespace::write_as_shedlock`], [`Namespace::read_as_shedlock`] | records shared with ShedLock for Java |
//! | [`Namespace::inside_rolled_back_transaction`] | law 11: the caller's transaction |
//! | [`Namespace::advance`] | no real waiting, for stores whose time can be moved |
//!
//! A case that needs an optional action which the harness lacks is *not applicable*: it is printed with its
//! reason and counted as ignored, never left out in silence. So is one whose subject the provider
//! does not declare in its [`Capabilities`](shedlock_core::Capabilities). For what is not declared
//! there are cases too: an attempt with a slot, say, must be refused as unsupported. Declared is
//! what it does, no more and no less.
//!
//! Faults strike at requests that carry the lock's name or owner in the clear, and a case whose fault
//! met no request fails. Where a kind of call has no such request, declare it with [`Namespace::hides`].
//!
//! Give providers short time limits (a second or two) for connecting where the store's client has
//! any: cases that take the store away wait for them.
//!
//! # Variants
//!
//! A harness runs all cases. Where you have several over one store, say another type of column, a time
//! zone or a wrapper, let one run all and give the others a [`Scope`]: they run the
//! [smoke](Tag::Smoke) cases and those whose [`Tag`]s name what the variant changes.
//!
//! ```
//! # use shedlock_conformance::{BoxError, Harness, Namespace, Scope, Tag};
//! # use std::sync::Arc;
//! # struct InAnotherZone;
//! impl Harness for InAnotherZone {
//! #     fn name(&self) -> &str { "my-store-in-another-zone" }
//! #     fn namespace(&self) -> shedlock_core::BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
//! #         Box::pin(async { Err("only an example".into()) })
//! #     }
//!     fn scope(&self) -> Scope {
//!         Scope::About(&[Tag::Time])
//!     }
//! }
//! ```
//!
//! How many cases are left out is printed at the end of the run. `SHEDLOCK_TEST_FULL=1` leaves none out,
//! and neither does a filter: what you ask for by name runs.
//!
//! # Several processes without a second binary
//!
//! [`main`] starts its own executable again and tells it through an environment variable to play
//! another process: a client that does call by call what a case says. With a runner of your own call
//! [`child::play`] first thing in `main`.
//!
//! # Cases of your own
//!
//! [`main`] is a [`Runner`] with the laws. Another one runs your [cases](Runner::cases) beside them, or
//! without them, and starts this executable in [roles](Runner::child) of yours. In the repository of
//! shedlock the torture is added so (`testing/torture`): processes that are killed and stopped, behind a
//! network that cuts, delays and swallows, over a store that crashes, and a judge of their history.
//!
//! # Time
//!
//! Leases of a few hundred milliseconds, scaled by the granularity that the provider declares. "Not
//! earlier" is judged strictly, by the store's own times where it tells them; "not later" with room
//! for a loaded machine. What must not end during a case is minutes long.
//!
//! # Wrappers
//!
//! A provider that wraps another one keeps the same laws: [`wrapped`] runs a harness behind it.
//!
//! # When not to use it
//!
//! To test *your* use of shedlock you need no store: take
//! [`MemoryProvider`](shedlock_core::MemoryProvider) with a
//! [`ManualClock`](shedlock_core::ManualClock).

mod case;
pub mod child;
pub mod contention;
mod context;
mod harness;
pub mod laws;
mod line;
mod profile;
pub mod proxy;
mod remote_client;
mod runner;
mod scope;
mod signal;
mod steps;
pub mod support;
mod timing;
mod verdict;
pub mod wait;
mod warnings;
mod wrapped;

pub use case::Case;
pub use context::{TestContext, granted};
pub use harness::{
    BoxError, Call, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips,
    Work, action,
};
pub use profile::StoreProfile;
pub use runner::{Runner, main, main_after, run_case};
pub use scope::{Scope, Tag};
pub use timing::Timing;
pub use verdict::{Stop, Verdict};
pub use wrapped::{Wrapped, wrapped};
