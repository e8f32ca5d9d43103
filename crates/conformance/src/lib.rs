//! A conformance test suite for store providers, written as the laws of shedlock.
//!
//! A provider implements [`LockProvider`](shedlock_core::LockProvider) over a store. The contract
//! has guarantees that you cannot verify by reading the code: a lock never has two holders, a late
//! call never frees or takes a lock, and a lost reply loses nothing. This kit tests them. It runs
//! about 200 cases against the real store: with several clients, with several processes (some of
//! which are killed), and through a proxy that loses replies and delivers requests late.
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
//! 2. In `tests/conformance.rs` implement a [`Harness`]. It creates an empty namespace in your
//!    store and providers over it. Your `main` is one call:
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
//! 3. Run `cargo test --test conformance`, with a filter if you like (for example
//!    `cargo test --test conformance -- law09`). The name of a test contains the law and what is
//!    checked:
//!
//!    ```text
//!    test law03_ownership::stale_unlock_by_another_process ... ok
//!    test law07_no_memory::a_failed_first_attempt_poisons_nothing ... ignored (not applicable: the harness cannot drop the container (Namespace::drop_container))
//!    test result: ok. 152 passed; 0 failed; 3 ignored; …
//!    ```
//!
//! 4. If your store is a server, let its raw clients race first ([`contention`]). Tests prove
//!    nothing against an emulator that lets several concurrent writers win.
//!
//! # A whole harness
//!
//! This harness tests the in-memory provider, whose time stands still until a case advances it.
//! With your own test runner you need no `main`: pass each [`Case`] to [`run_case`].
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use shedlock_conformance::{BoxError, Harness, OptionalAction, Provider, Namespace, Stop, laws, action};
//! use shedlock_core::{BoxFuture, LockName, ManualClock};
//! use shedlock_provider::MemoryProvider;
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     fn name(&self) -> &str {
//!         "memory"
//!     }
//!
//!     // A fresh store for each case. Over a database: a table with its own name.
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
//!     // Each provider has its own connections, as another process would.
//!     fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
//!         Box::pin(async { Ok(Arc::new(self.store.another_client()) as Provider) })
//!     }
//!
//!     // Each action that a harness has makes more cases applicable.
//!     fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
//!         action(async {
//!             self.store.delete(name);
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
//! | method | what it makes testable |
//! |---|---|
//! | [`Namespace::provider`] | exclusion, ownership, durations, idempotence, fencing, slots, names, operators' calls |
//! | [`Namespace::delete_record`], [`drop_container`](Namespace::drop_container), [`restore_container`](Namespace::restore_container) | law 7: the provider recovers from manual deletions |
//! | [`Namespace::child_spec`] and [`Harness::open_child`] | the laws between processes, including killed (SIGKILL) and stopped (SIGSTOP) ones |
//! | [`Namespace::store_addr`] and [`Namespace::provider_via`] | lost, late and withheld requests and replies, an unreachable store, the cost of calls |
//! | [`Namespace::weaken_container`] | container settings under which the provider must not grant locks |
//! | [`Harness::namespace_on_own_store`], [`Namespace::stop_store`], [`Namespace::start_store`] | restarts |
//! | [`Harness::namespace_to_fill`], [`Namespace::fill`], [`Namespace::make_space`] | a store that is full: reads and unlocks work |
//! | these three and [`Harness::round_trips`] | exact counts of round trips |
//! | [`Harness::profile`] | your published documentation of the store, compared with what the provider declares |
//! | [`Namespace::provider_with_clock`] | clients with wrong clocks |
//! | [`Namespace::write_as_shedlock`], [`Namespace::read_as_shedlock`] | records shared with ShedLock for Java |
//! | [`Namespace::inside_rolled_back_transaction`] | law 11: the caller's transaction |
//! | [`Namespace::left_open`] | law 11: transactions that the application has left open in its pool |
//! | [`Namespace::advance`] | runs without real waiting, if the store's time can be moved |
//!
//! If a case needs an optional action that the harness lacks, the case is *not applicable*. It is
//! printed with its reason and counted as ignored; no case is skipped silently. The same applies to
//! a case about a feature that the provider does not declare in its
//! [`Capabilities`](shedlock_core::Capabilities). Other cases check the undeclared features: for
//! example, an attempt with a slot must then be refused as unsupported. A provider must support
//! exactly what it declares.
//!
//! The proxy injects faults into requests that contain the lock's name or owner in plain text. A
//! case whose fault matched no request fails. If a kind of call sends no request of this form,
//! declare it with [`Namespace::hides`].
//!
//! If the store's client has connect timeouts, make them short (a second or two): cases that make
//! the store unreachable wait for them.
//!
//! # Variants
//!
//! By default a harness runs all cases. You may have several harnesses over one store, for example
//! with another column type, another time zone or a wrapper. Let one of them run all cases and give
//! the others a [`Scope`]: they run the [smoke](Tag::Smoke) cases and the cases whose [`Tag`]s name
//! what the variant changes.
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
//! The number of omitted cases is printed at the end of the run. `SHEDLOCK_TEST_FULL=1` runs all
//! cases on every harness. With a filter, every case that matches it runs.
//!
//! # Several processes without a second binary
//!
//! [`main`] starts its own executable again as a child process, and an environment variable gives
//! the child its role. In the built-in role the child is a client that executes the calls that a
//! case sends to it. With your own test runner, call [`child::play`] first in `main`.
//!
//! # Cases of your own
//!
//! [`main`] is a [`Runner`] with the laws. You can build your own runner that runs your
//! [cases](Runner::cases) with or without the laws, and that starts this executable in your own
//! [roles](Runner::child). The torture tests in shedlock's repository (`testing/torture`) do this:
//! they kill and stop processes, put them behind a network that cuts, delays and drops traffic,
//! crash the store, and check the recorded history.
//!
//! # Time
//!
//! Leases last a few hundred milliseconds, scaled by the granularity that the provider declares.
//! "Not earlier" is checked strictly, by the store's own times if it returns them. "Not later"
//! leaves room for a loaded machine. A lease that must not end during a case lasts minutes.
//!
//! # Wrappers
//!
//! A provider that wraps another one keeps the same laws: [`wrapped`] runs a harness through the
//! wrapper.
//!
//! # When not to use it
//!
//! To test *your* use of shedlock you need no store: use `shedlock::MemoryProvider` with a
//! [`ManualClock`](shedlock_core::ManualClock).

mod case;
pub mod child;
pub mod contention;
mod context;
mod harness;
pub mod journal;
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
    BoxError, Call, Cost, Harness, JavaRecord, LeftOpen, Namespace, OptionalAction, Provider,
    RoundTrips, Work, action,
};
pub use profile::StoreProfile;
pub use runner::{Runner, main, main_after, run_case};
pub use scope::{Scope, Tag};
pub use timing::Timing;
pub use verdict::{Stop, Verdict};
pub use wrapped::{Wrapped, prefixed, wrapped};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
