//! Run scheduled tasks **once** on many replicas, over the store you already have.
//!
//! A scheduled task deployed on N replicas fires N times. With shedlock the replicas coordinate
//! through a record in a database that the team runs anyway: whoever takes the record runs the task,
//! the others skip it. It is the Rust counterpart of Java's ShedLock and speaks the same records, so
//! Rust and Java services share one fleet of locks.
//!
//! # Quick start
//!
//! ```toml
//! [dependencies]
//! shedlock = { version = "0.1", features = ["macros", "postgres"] }
//! ```
//!
#![cfg_attr(all(feature = "macros", feature = "postgres"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "macros", feature = "postgres")), doc = "```ignore")]
//! use shedlock::scheduler_lock;
//!
//! #[scheduler_lock(name = "expire-{tenant}", lock_at_most_for = "10m", lock_at_least_for = "30s")]
//! async fn expire_subscriptions(tenant: &str) -> Result<(), shedlock::Error> {
//!     // Runs on one replica; on the others the call returns Ok(()) at once.
//!     println!("sending mails for {tenant}");
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), shedlock::Error> {
//!     let provider = shedlock::connect("postgres://app@db/app").await?;
//!     provider.migrate().await?; // makes the table, or adds what ShedLock's lacks
//!     shedlock::set_global_provider(provider)?;
//!     expire_subscriptions("acme").await
//! }
//! ```
//!
//! Whatever calls the function (a cron crate, a loop with a timer, a web hook) stays as it is. All
//! that the attribute can do is said at [`scheduler_lock`]; without it, an [`Executor`] takes any
//! future or closure:
//!
//! ```
//! use shedlock::{Executor, LockConfig, MemoryProvider, Outcome};
//! use std::sync::Arc;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let executor = Executor::new(Arc::new(MemoryProvider::new()));
//! let config = LockConfig::new("payroll").lock_at_most_for("10m");
//! match executor.execute(&config, async { "paid" }).await? {
//!     Outcome::Executed { value, .. } => assert_eq!(value, "paid"),
//!     Outcome::Skipped(skip) => println!("not this time: {skip}"),
//!     Outcome::Lost { reason, .. } => println!("stopped: {reason}"),
//!     _ => {}
//! }
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```
//!
//! Programs without an async runtime find the same in [`blocking`], and a whole command runs under a
//! lock with the program `shedlock` (crate `shedlock-cli`).
//!
//! # When to use it, and when not
//!
//! It is for tasks that are started on every replica and should run on one: nightly mails, cleaning,
//! reports, polling somebody else's service. A replica that does not get the lock **skips**; it does not
//! wait, unless [`LockConfig::lock_wait`] asks for that.
//!
//! It is not
//! - a queue or a workflow engine: a skipped run is not kept for later. Work that must not be lost
//!   belongs in a table; the task takes what is there;
//! - a mutex to wait on, or one for short critical sections at a high rate;
//! - a leader election that lives as long as the process. A long lease with
//!   [`keep_alive`](LockConfig::keep_alive) comes near, but ask for it task by task;
//! - a promise of *exactly once*. A task that is killed in the middle has run in part. What it does
//!   must bear being done again, or carry a [fencing token](#fencing-tokens).
//!
//! # Two durations
//!
//! | | from | what for | choose |
//! |---|---|---|---|
//! | `lock_at_most_for` | acquisition, or the last extension | the lock comes free when its holder dies | longer than the task ever takes |
//! | `lock_at_least_for` | acquisition | a quick task must not run again on a replica whose clock or timer is late | longer than replicas lie apart, shorter than the period |
//!
//! Both are a `Duration`, or text: `"10m"`, `"1h 30m"`, `"500ms"`, `"PT10M"`. A bare number is
//! refused. Where a lock sets none, the executor's [`LockDefaults`] are taken, then the provider's.
//!
//! A task never runs on past `lock_at_most_for`: a local deadline, counted from before the lock was
//! asked for, comes first, and the task's future is dropped there. A blocking task cannot be dropped;
//! it sees [`CurrentLock::is_lost`] and can ask for a callback. A task whose length is not known
//! turns on [`LockConfig::keep_alive`]: its lease is extended while it runs, and `lock_at_most_for`
//! is then only how long the lock outlives a process that dies.
//!
//! # What a call can end with
//!
//! - **Executed**: the task ran under the lock. Its value is never thrown away, not even if giving the
//!   lock back failed; that rides along as [`Release`].
//! - **Skipped**: somebody else holds the lock, `lock_at_least_for` still keeps it, or the slot is
//!   taken. Never an error. The [`Skip`] says who and until when, where the store knows.
//! - **Lost**: the lease ended, or may have ended, before the task.
//! - **An error**: the store failed, or the call was wrong; the task did not run. [`Error::kind`] says
//!   what to do. A store that fails is never taken for a held lock.
//!
//! An attempt whose answer was lost on the network is sent again with the same owner, so a broken
//! connection does not leave a lock taken. Copies of it that are still on their way are refused once
//! [`Executor::store_timeout`] (10 s) has passed, and the attempt is then withdrawn for good.
//! Until then such a copy can take the lock, or its slot, for no one: for two timeouts at most while the
//! store answers. If the store stays away, or the process dies, the worst case is `lock_at_most_for`.
//! Before a short-lived program ends, let it await [`Executor::settled`]; `shedlock run` does.
//!
//! The lock is given back when the task ends, fails, panics or is dropped. On a bare drop that is done
//! in the background, on the runtime that dropped it.
//!
//! # Fencing tokens
//!
//! No process can stop a task while the process itself is stopped (a paused virtual machine, SIGSTOP):
//! when it wakes, one last write may leave before anything has looked at a clock. Only the receiver
//! can refuse that. Each lease carries a number that grows with every acquisition of its name,
//! [`CurrentLock::fencing_token`]; hand it along, and refuse a smaller one than you have seen:
//!
//! ```
//! use shedlock::{Executor, LockConfig, MemoryProvider, current_lock};
//! use std::sync::{Arc, Mutex};
//!
//! /// What the task writes to: it keeps the token beside the data, in one step.
//! ///
//! /// In SQL: `UPDATE report SET body = $1, token = $2 WHERE id = $3 AND token <= $2`,
//! /// and no row updated means that the writer came too late.
//! #[derive(Default)]
//! struct Report(Mutex<(u64, String)>);
//!
//! impl Report {
//!     fn write(&self, token: u64, body: &str) -> Result<(), &'static str> {
//!         let mut stored = self.0.lock().unwrap();
//!         if token < stored.0 {
//!             return Err("a later run has written already");
//!         }
//!         *stored = (token, body.to_owned());
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let report = Report::default();
//! let executor = Executor::new(Arc::new(MemoryProvider::new()));
//! let config = LockConfig::new("report").lock_at_most_for("10m");
//! let token = || async { current_lock().and_then(|lock| lock.fencing_token()) };
//!
//! let first = executor.execute(&config, token()).await?.value().flatten().unwrap();
//! let second = executor.execute(&config, token()).await?.value().flatten().unwrap();
//! report.write(second, "new").unwrap();
//! assert!(report.write(first, "old, and late").is_err());
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```
//!
//! Tokens grow across unlock, expiry, restarts and deleted records. Acquisitions by Java carry none:
//! the guard orders ours. [The page on fencing](_documentation::fencing) has guards for rows, whole
//! transactions and services.
//!
//! # Slots
//!
//! `lock_at_least_for` is a guess at how late a replica may be. A [`Slot`] is not: it is the nominal
//! instant of the tick that a run belongs to, the same on every replica however late it wakes, and the
//! store lets one acquisition have each slot of a name.
//!
//! ```
//! use shedlock::{Executor, LockConfig, MemoryProvider, SkipReason, Slot};
//! use std::sync::Arc;
//! use std::time::{Duration, SystemTime, UNIX_EPOCH};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # #[expect(clippy::disallowed_methods, reason = "an example for programs that have no clock")]
//! let now = SystemTime::now();
//! // The last full ten minutes: what a timer with this period means by "now".
//! let since = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
//! let slot = Slot::at(UNIX_EPOCH + Duration::from_secs(since - since % 600))?;
//!
//! let executor = Executor::new(Arc::new(MemoryProvider::new()));
//! let config = LockConfig::new("report").lock_at_most_for("10m").slot(slot);
//! assert!(executor.execute(&config, async {}).await?.is_executed());
//!
//! // A replica that wakes a little later, with the lock free again:
//! let late = executor.execute(&config, async {}).await?;
//! assert_eq!(late.skip().unwrap().reason, SkipReason::SlotTaken);
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```
//!
//! With the feature `scheduler`, the module of that name computes slots from cron expressions and
//! periods. Whatever scheduler fires the job, one line gives the slot that it fires for, and
//! `scheduler::Scheduler` has that built in:
//!
#![cfg_attr(feature = "scheduler", doc = "```")]
#![cfg_attr(not(feature = "scheduler"), doc = "```ignore")]
//! use shedlock::LockConfig;
//! use shedlock::scheduler::Schedule;
//!
//! let slot = Schedule::cron_in("0 */10 * * * *", "Asia/Seoul")?.slot_now()?;
//! let config = LockConfig::new("report").lock_at_most_for("10m").slot(slot);
//! # config.validate()?;
//! # Ok::<(), shedlock::Error>(())
//! ```
//!
//! A slot further ahead of the store's clock than [`LockConfig::slot_tolerance`] is
//! an error, since one node with a wrong clock would silence the job.
//!
//! # Scheduled functions
//!
//! With the features `scheduler` and `macros`, `#[scheduled]` stands beside `#[scheduler_lock]` and says
//! when. The function gets a `job(…)` for the scheduler, which takes lock and slot of each tick in one
//! step:
//!
#![cfg_attr(all(feature = "macros", feature = "scheduler"), doc = "```")]
#![cfg_attr(not(all(feature = "macros", feature = "scheduler")), doc = "```ignore")]
//! use shedlock::scheduler::{JobRun, Scheduler};
//! use shedlock::{Executor, MemoryProvider, scheduled, scheduler_lock};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! #[scheduled(cron = "0 */10 * * * *", zone = "Asia/Seoul", late = "5m")]
//! #[scheduler_lock(name = "report-{tenant}", lock_at_most_for = "9m")]
//! async fn report(tenant: String, run: JobRun) -> Result<(), shedlock::Error> {
//!     println!("{tenant}'s report of {:?}, under token {:?}", run.slot(), run.fencing_token());
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let tenants = ["acme", "umbrella"];
//! let scheduler = Scheduler::new(Executor::new(Arc::new(MemoryProvider::new())))
//!     .jobs(tenants.map(|tenant| report::job(tenant.to_owned())))
//!     .start()?;
//! // Until SIGTERM or ctrl-c: shedlock::scheduler::shutdown_signal().await?;
//! scheduler.shutdown(Duration::from_secs(25)).await?;
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```
//!
//! Without macros, `scheduler::Job` takes a closure.
//!
//! # Which provider
//!
//! [`connect`] makes one from a URL. A program that has a pool already makes it from that: a provider
//! takes a connection for one statement at a time and never joins a transaction. In front of any
//! provider stand [`PrefixProvider`] (a namespace), [`TenantProvider`] (a store per tenant) and
//! [`TrackingProvider`] (which locks does this process hold).
//!
//! Code that names no provider uses the one of [`with_provider`] or [`with_executor`], else the one of
//! [`set_global_provider`] or [`set_global_executor`]. An [`Executor`] adds defaults, a [`Listener`]
//! and policies to a provider.
//!
//! # Logs and meters
//!
//! Tasks run in a `tracing` span with the lock's name, owner, fencing token and slot; what goes wrong is
//! an event. With the feature `metrics`, `MetricsListener` counts attempts, locks, skips, lost leases,
//! store errors and durations under ShedLock's meter names, through the crate `metrics`, and
//! `scheduler::MetricsObserver` what becomes of ticks and how late they start. The example
//! `examples/prometheus` serves them to Prometheus. Anything else can be done by a [`Listener`].
//!
//! # Nested locks
//!
//! Inside a locked task, [`current_lock`] is its lock, [`assert_locked`] fails where there is none,
//! and [`extend_current`] makes it last longer. Tasks that it spawns carry the lock only if they are
//! told to ([`CurrentLock::spawn`]), and are stopped before the lock is given back. The same name on the same provider is reentrant.
//!
//! # Tests of your own
//!
//! Code that asserts a lock, or asks the current one for its token or slot, gets one from [`testing`],
//! without any store:
//!
//! ```
//! use shedlock::{assert_locked, testing};
//!
//! async fn charge_cards() -> Result<(), shedlock::Error> {
//!     assert_locked()
//! }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! assert!(testing::locked(charge_cards()).await.is_ok());
//! # });
//! ```
//!
//! Who gets the lock, and when, is tested
//! over a [`MemoryProvider`], with [`with_provider`] around the code under test. With a
//! [`ManualClock`] in both the provider and the executor, ten minutes take no time:
//!
//! ```
//! use shedlock::{Executor, LockConfig, ManualClock, MemoryProvider, SkipReason};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let clock = ManualClock::new();
//! let provider = MemoryProvider::with_clock(Arc::new(clock.clone()));
//! let executor = Executor::new(Arc::new(provider)).clock(Arc::new(clock.clone()));
//! let config = LockConfig::new("payroll").lock_at_most_for("1h").lock_at_least_for("10m");
//!
//! assert!(executor.execute(&config, async {}).await?.is_executed());
//! let skipped = executor.execute(&config, async {}).await?;
//! assert_eq!(skipped.skip().unwrap().reason, SkipReason::AtLeast);
//! clock.advance(Duration::from_secs(600));
//! assert!(executor.execute(&config, async {}).await?.is_executed());
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```
//!
//! # Cargo features
//!
//! None is on by default. [`connect`] lists the feature of each store, which brings the store's client and
//! nothing else; the others are:
//!
//! | feature | what |
//! |---|---|
//! | `macros` | the attribute [`scheduler_lock`]; with `scheduler`, also `scheduled` |
//! | `scheduler` | the module `scheduler`: cron and interval jobs, whose ticks run once |
//! | `metrics` | a listener that counts through the crate `metrics`, under ShedLock's meter names; with `scheduler`, one that counts ticks |
//! | `stores` | every store whose client needs no tool but the compilers of Rust and C: what the command has |
//!
//! # Versions
//!
//! The crates follow Semantic Versioning, each with a version of its own. A client that you hand to a provider
//! (`sqlx`, `tokio-postgres`, `redis`, `async-nats`, `mongodb`, `etcd-client`, `zookeeper-client`, `reqwest`)
//! is part of the API of its store: when it has an incompatible release, so have that store's crate and this one.
//! Each is re-exported in the version that the provider takes, as `sql::sqlx`, `redis::redis`, `nats::async_nats`
//! and so on; use that, and your program cannot mix two versions.
//!
//! What a store keeps is versioned apart from the crates: a release reads what the one before it wrote, and
//! replicas of both run side by side.
//!
//! This crate, the scheduler and the attributes build with Rust 1.85, and raising that is no breaking change; a
//! store needs the Rust that its client needs.
//!
//! # More
//!
//! - [Coming from Java](_documentation::coming_from_java): what is the same, what is not, and how both
//!   share a table.
//! - [Jobs that must not be lost](_documentation::not_lost): at least one run of each slot, in order; what
//!   their tasks have to bear, and what operators see and do.
//! - [Fencing](_documentation::fencing): guards against writes that come too late, and what a failover of
//!   the store can forget.
//! - [Writing a provider](_documentation::writing_a_provider) for a store that is not here.
//! - [Design](_documentation::design): why it is built so.
//!
#![cfg_attr(
    feature = "macros",
    doc = "[`scheduler_lock`]: macro@crate::scheduler_lock"
)]
#![cfg_attr(
    not(feature = "macros"),
    doc = "[`scheduler_lock`]: https://docs.rs/shedlock/latest/shedlock/attr.scheduler_lock.html"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod connect;
#[cfg(test)]
mod fuzz;
mod stores;

/// What the project's own tools read; no promise of any kind.
#[doc(hidden)]
pub mod __stores {
    pub use crate::stores::{STORES, StoreEntry};
}

#[cfg(feature = "metrics")]
pub use shedlock_core::MetricsListener;
pub use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Clock, ClockSource, Completion, CurrentLock,
    Error, ErrorKind, Event, Executor, ExtendRequest, Extension, Failover, ForceUnlockRequest,
    ForcedUnlock, HeldLock, Lease, ListRequest, Listener, LockConfig, LockDefaults, LockDuration,
    LockName, LockProvider, LockRecord, LockState, LostPolicy, LostReason, ManualClock,
    MemoryProvider, Migration, Moment, Outcome, Owner, PrefixProvider, ProviderIdentity, Release,
    ResetSlotRequest, Retries, Skip, SkipReason, Slot, SlotEnd, SlotReset, SlotState, SystemClock,
    TenantProvider, TenantRouter, TrackingProvider, Unlock, UnlockRequest, assert_locked, blocking,
    current_lock, current_provider, delegate, extend_current, parse_duration, set_global_executor,
    set_global_provider, testing, with_executor, with_executor_blocking, with_provider,
    with_provider_blocking,
};
#[cfg(all(feature = "macros", feature = "scheduler"))]
pub use shedlock_macros::scheduled;
#[cfg(feature = "macros")]
pub use shedlock_macros::scheduler_lock;
#[cfg(feature = "scheduler")]
#[doc(inline)]
pub use shedlock_scheduler as scheduler;
#[doc(inline)]
pub use stores::exports::*;

/// Longer texts.
pub mod _documentation {
    #[doc = include_str!("../docs/coming_from_java.md")]
    pub mod coming_from_java {}
    #[doc = include_str!("../docs/design.md")]
    pub mod design {}
    #[doc = include_str!("../docs/fencing.md")]
    pub mod fencing {}
    #[doc = include_str!("../docs/not_lost.md")]
    pub mod not_lost {}
    #[doc = concat!(
        include_str!("../docs/writing_a_provider/first.md"),
        "\n```\n",
        include_str!("../docs/writing_a_provider/cabinet.rs"),
        "```\n\n",
        include_str!("../docs/writing_a_provider/last.md"),
    )]
    pub mod writing_a_provider {}
}
