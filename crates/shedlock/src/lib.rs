//! Run scheduled tasks **once** on many replicas, with a database that you already run.
//!
//! A scheduled task deployed on N replicas fires N times. With shedlock the replicas coordinate
//! through a record in a database that you already run: the replica that takes the record runs the
//! task, and the others skip it. It is the Rust counterpart of Java's ShedLock. On most stores it uses
//! the same records, so Rust and Java services can share locks, once both sides are [configured for
//! it](_documentation::coming_from_java).
//!
//! # Quick start
//!
//! ```toml
//! [dependencies]
//! shedlock = { version = "0.1", features = ["macros", "postgres"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
#![cfg_attr(all(feature = "macros", feature = "postgres"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "macros", feature = "postgres")), doc = "```ignore")]
//! use shedlock::scheduler_lock;
//!
//! #[scheduler_lock(name = "expire-{tenant}", lock_at_most_for = "10m", lock_at_least_for = "30s")]
//! async fn expire_subscriptions(tenant: &str) -> Result<(), shedlock::Error> {
//!     // Runs on one replica; on the others the call returns Ok(()) at once.
//!     println!("expiring the subscriptions of {tenant}");
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), shedlock::Error> {
//!     let provider = shedlock::connect("postgres://app@db/app").await?;
//!     provider.migrate().await?; // creates the table, or adds our columns to ShedLock's
//!     shedlock::set_global_provider(provider)?;
//!     expire_subscriptions("acme").await
//! }
//! ```
//!
//! The caller of the function (a cron crate, a loop with a timer, a webhook) stays as it is. See
//! [`scheduler_lock`] for everything that the attribute can do. Without the attribute, an [`Executor`]
//! takes any future or closure:
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
//! Programs without an async runtime use [`blocking`]. The program `shedlock` (crate `shedlock-cli`)
//! runs a whole command under a lock.
//!
//! # When to use it, and when not
//!
//! Use it for tasks that fall due on every replica but should run on only one: nightly mails, cleanup,
//! reports, polling an external service. A replica that does not get the lock **skips** the task. It does not
//! wait unless you set [`LockConfig::lock_wait`].
//!
//! It is not
//! - a queue or a workflow engine: a skipped run is not kept for later. Put the items of work into a
//!   table, and let the task process what is there. (Making sure that each *tick* runs is a different
//!   matter: see [Jobs that must not be lost](_documentation::not_lost).)
//! - a mutex to wait on, or one for short critical sections at a high rate;
//! - leader election for the lifetime of a process. A lock with
//!   [`keep_alive`](LockConfig::keep_alive) comes close, but do not hold one lock for everything: acquire
//!   one for each task;
//! - a guarantee of *exactly once*. A task that is killed halfway has run in part, and its next run must
//!   cope with what it left behind. With a [fencing token](#fencing-tokens), whatever the task writes to
//!   can refuse late writes from a run whose process was suspended past the end of its lease.
//!
//! # Two durations
//!
//! | | counted from | purpose | choose a value |
//! |---|---|---|---|
//! | `lock_at_most_for` | acquisition, or the last extension | frees the lock when its holder dies | longer than the task ever takes |
//! | `lock_at_least_for` | acquisition | keeps a quick task from running again on a replica whose clock or timer is late | longer than the replicas' clocks and timers can differ, shorter than the period |
//!
//! Both are a `Duration`, or text: `"10m"`, `"1h 30m"`, `"500ms"`, `"PT10M"`. A bare number is
//! refused. If a lock does not set one, the executor's [`LockDefaults`] apply, then the provider's. If there
//! are none, a missing `lock_at_most_for` is an error, and `lock_at_least_for` is zero.
//!
//! By default an async task is not polled past the end of its lease, the time for which the lock was
//! granted. A local deadline, counted from before the lock was requested, passes before the lease ends in
//! the store, and the task's future is then dropped. A blocking task cannot be dropped; it can check
//! [`CurrentLock::is_lost`], or register a callback with [`CurrentLock::on_lost`]. If you cannot predict
//! how long a task takes, turn on [`LockConfig::keep_alive`]. The task's lease is then extended while the
//! task runs, also while it [blocks its thread](_documentation::blocking), and `lock_at_most_for` only bounds
//! how long the lock outlives a process that dies.
//!
//! # How a call can end
//!
//! - **Executed**: the task ran under the lock. Its value is never discarded, even if releasing the
//!   lock failed; [`Release`] reports that.
//! - **Skipped**: another owner holds the lock, an operator has paused it, `lock_at_least_for` still keeps
//!   it taken, or the run's [slot](#slots) is taken or cannot run now. The call never returns an error for
//!   this. The [`Skip`] reports who holds the lock and until when, if the store records it. (The
//!   reasons that need an operator, `SlotGivenUp`, `LastSlotAhead` and `ClockBehind`, are logged at error level.)
//! - **Lost**: the task was stopped because its lease was about to end, or because it exceeded its
//!   [`max_run_time`](LockConfig::max_run_time), if you set one; or the lease ended, or may have ended,
//!   before the task did. If the task still ran to its end, its value is returned.
//! - **An error**: the store failed, or the call was invalid; the task did not run. [`Error::kind`]
//!   tells you what to do. A store failure is never treated as a held lock.
//!
//! The attribute maps these to the function's return type; see [`scheduler_lock`]. If that type cannot carry
//! an error, as with `()`, a store failure and a lost lease are only logged, at error level.
//!
//! If the reply to an attempt is lost on the network, the executor sends the request again under the same
//! owner (the ID of this acquisition), so a broken connection does not leave a lock taken. But the first
//! request may still be in flight. If it arrives after the repeated one was refused, or after the task has
//! ended, it may take the lock, and with it the slot, although no task runs under that lock. The store
//! refuses the first request if it arrives more than [`Executor::store_timeout`] (10 s) after it was sent.
//! If it arrives in time and takes the lock, the executor gives the lock back about two timeouts (20 s)
//! after the request was sent, if the store can be reached by then. If the store stays
//! unavailable, or the process dies, such a lock stays taken for at most `lock_at_most_for`. Its slot is
//! then used up without a run, unless it [must not be lost](_documentation::not_lost). A short-lived
//! program should await [`Executor::settled`] before it exits; `shedlock run` does. (With the attribute,
//! create the executor yourself, and pass a clone of it to [`set_global_executor`].)
//!
//! The lock is released when the task ends, fails, panics or is dropped. If the future is dropped before it
//! completes, the release happens in the background, on the async runtime in which it was dropped. If it is
//! dropped outside an async runtime, the lock stays taken until `lock_at_most_for` has passed.
//!
//! # Fencing tokens
//!
//! No process can stop a task while the process itself is stopped (a paused virtual machine, SIGSTOP).
//! When it wakes, one last write may leave before any code checks the clock, and only the receiver
//! can refuse that write. Each lease therefore carries a number that grows with every acquisition of
//! its name, [`CurrentLock::fencing_token`]. (On a SQL table without our columns it is `None`; see
//! [`migrate`](LockProvider::migrate).) Send it with each write, and have the receiver refuse a
//! token that is smaller than one it has seen:
//!
//! ```
//! use shedlock::{Executor, LockConfig, MemoryProvider, current_lock};
//! use std::sync::{Arc, Mutex};
//!
//! /// What the task writes to. It stores the token with the data, in one step.
//! ///
//! /// In SQL: `UPDATE report SET body = $1, token = $2 WHERE id = $3 AND token <= $2`.
//! /// If no row is updated, the write came too late (or the row does not exist).
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
//! Tokens grow across unlock, expiry, restarts and deleted records. Acquisitions by Java carry no
//! token, so the receiver's check (the *guard*) orders only runs under this crate's locks. It refuses
//! neither a late write by Java, nor a late write of a Rust run if only Java has run since. [The page on
//! fencing](_documentation::fencing) has guards for rows, whole transactions and services.
//!
//! # Slots
//!
//! `lock_at_least_for` is a guess at how late a replica may be. A [`Slot`] needs no guess: it is
//! the nominal instant of the tick that a run belongs to, and every replica computes the same one,
//! however late it wakes. The store grants each slot of a name to one acquisition only. (It grants
//! a slot again only if the slot was given back because no task ran for it, or if it [must not be
//! lost](_documentation::not_lost) and is not done.)
//!
//! ```
//! use shedlock::{Executor, LockConfig, MemoryProvider, SkipReason, Slot};
//! use std::sync::Arc;
//! use std::time::{Duration, SystemTime, UNIX_EPOCH};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # #[expect(clippy::disallowed_methods, reason = "an example for programs that have no clock")]
//! let now = SystemTime::now();
//! // The most recent ten-minute boundary: the tick that a timer with this period has just fired for.
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
//! With the feature `scheduler`, the module `scheduler` computes slots from cron expressions (five fields,
//! or six with seconds first) and periods. `scheduler::Scheduler` claims the slot of each tick for you. With
//! any other scheduler, and the same feature, one line in the job computes the slot of the current tick:
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
//! A slot that is more than [`LockConfig::slot_tolerance`] (60 s) ahead of the store's clock (or, if the store
//! reports none, of this host's) is an error. Otherwise a single node with a wrong clock could keep the job
//! from ever running again.
//!
//! # Scheduled functions
//!
//! With the features `scheduler` and `macros`, `#[scheduled]` next to `#[scheduler_lock]` declares when
//! the function runs. It adds a function `job(…)` (below, `report::job`) that creates the job for the
//! scheduler. Each run takes the lock and the slot of its tick in one step. `late` limits how long after its
//! slot a tick may still start:
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
//! [`connect`] creates a provider from a URL; its page lists the supported stores with their URLs and
//! Cargo features. URLs that require TLS need the feature `tls-ring` or `tls-aws-lc`, for the crypto library; without them
//! shedlock turns on no TLS in any client. If your program already has a pool or a client, add the driver's crate and
//! create the provider from that: `shedlock_sqlx::PostgresProvider::new(pool)`. The drivers are `shedlock-sqlx`,
//! `shedlock-sqlx08`, `shedlock-diesel-async`, `shedlock-tokio-postgres`, `shedlock-redis`, `shedlock-nats`,
//! `shedlock-zookeeper`, `shedlock-etcd`, `shedlock-mongodb` and `shedlock-consul`. A provider over a pool takes a
//! connection for one statement at a time and never joins a transaction, not even one that was left open
//! in that connection. Close the pool after your tasks have ended: a lock that is still held then stays until its lease
//! ends. A URL may point to a connection
//! pooler such as PgBouncer, which the provider detects. [`schema`] returns the statements that create the tables,
//! for migrations of your own. [`PrefixProvider`] gives any provider a namespace, and
//! [your own wrapper](_documentation::wrapping_a_provider) takes forty lines.
//!
//! Code that does not name a provider uses the one set by [`with_provider`] or [`with_executor`],
//! otherwise the one set by [`set_global_provider`] or [`set_global_executor`]. An [`Executor`] adds
//! defaults, a [`Listener`] and policies to a provider.
//!
//! # Logs and metrics
//!
//! Tasks run in a `tracing` span with the lock's name, owner, fencing token and slot, and with
//! the OpenTelemetry attributes that come closest to describing a job: `job.system`, `faas.trigger`, `faas.time` and
//! `faas.cron`. Problems are logged as events. [`JobMetrics`] reads the state of all jobs from the journal
//! (the tables in which runs are recorded if the executor has a [`JournalWriter`]), for alerts about jobs
//! that did not run. With the feature `metrics`, `MetricsListener` records attempts, locks, skips, lost
//! leases, store errors and durations under ShedLock's meter names, through the crate `metrics`.
//! `scheduler::MetricsObserver` records how ticks end and how late they start. The example
//! `examples/prometheus` serves to Prometheus what the listener and the observer record. With the feature `pings`, `pings::Healthchecks` and
//! `pings::SentryCrons` report each run to a monitoring service that alerts you when a run fails or does
//! not start. For anything else, implement a [`Listener`].
//!
//! # Nested locks
//!
//! Inside a locked task, [`current_lock`] returns its lock, and [`extend_current`] extends its lease.
//! [`assert_locked`] fails outside one. A spawned task carries the lock only if you spawn it with
//! [`CurrentLock::spawn`]; such a task is stopped before the lock is released. Taking the same name on the
//! same provider again is reentrant: the inner task runs at once under the outer lock.
//!
//! # Testing your code
//!
//! For code that asserts that a lock is held, or reads the current lock's token or slot, [`testing`]
//! provides a lock without any store:
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
//! To test who gets the lock and when, use a [`MemoryProvider`] and wrap the code under test in
//! [`with_provider`]. With a [`ManualClock`] in both the provider and the executor, ten minutes take no
//! time:
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
//! None is on by default. Each store has a feature, listed at [`connect`], that adds the store's client
//! and nothing else. The other features are:
//!
//! | feature | what |
//! |---|---|
//! | `macros` | the attribute [`scheduler_lock`]; with `scheduler`, also `scheduled` |
//! | `scheduler` | the module `scheduler`: cron and interval jobs, whose ticks run once |
//! | `metrics` | a listener that records metrics through the crate `metrics`, under ShedLock's meter names; with `scheduler`, an observer that records ticks |
//! | `http` | the module `http`: an axum router with `/metrics` (the state of all jobs, from the journal) and `/healthz` |
//! | `pings` | the module `pings`: listeners that report runs to healthchecks and to Sentry's cron monitors |
//! | `tls-ring`, `tls-aws-lc` | TLS with this crypto library, for URLs that require it; `nats` and `mongodb`, and so `stores`, do not compile without one of the two |
//! | `stores` | every store whose client needs only a Rust and a C compiler to build (all but etcd); the program `shedlock` is built with it |
//!
//! # Versions
//!
//! The crates follow Semantic Versioning. No client of a store is part of this crate's interface: for an incompatible release
//! of `sqlx`, `redis` or another client there is a new driver beside the old one, as `shedlock-sqlx08` is beside
//! `shedlock-sqlx`, and a patch of this crate. (With the feature `http`, a `Router` of axum 0.8 is part of it.) All crates that
//! have a trait or type of `shedlock-core` in their interface have the same compatible version as it (`0.1` today), so crates
//! of one such version fit each other. A program cannot link two cores: Cargo refuses that.
//!
//! The records in a store are versioned separately from the crates. A release reads what the previous release
//! wrote, and replicas of both can run at the same time.
//!
//! This crate, the scheduler, the attributes and `shedlock-sql` build with Rust 1.85; raising that is not a breaking change.
//! A driver builds with [what its client needs](https://github.com/shedlock-rs/shedlock#drivers).
//!
//! # More
//!
//! - [Coming from Java](_documentation::coming_from_java): what is the same, what differs, and how both
//!   share a table.
//! - [Jobs that must not be lost](_documentation::not_lost): at least one run of each slot that is not
//!   given up, in order; what their tasks must tolerate, and what operators see and do.
//! - [Fencing](_documentation::fencing): guards against late writes, and what a failover of the store can
//!   lose.
//! - [Writing a provider](_documentation::writing_a_provider) for a store that is not supported yet.
//! - [Design](_documentation::design): why this crate is built the way it is.
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
#[cfg(feature = "http")]
pub mod http;
mod stores;

/// Data for the project's own tools; not part of the stable API.
#[doc(hidden)]
pub mod __stores {
    pub use crate::stores::{STORES, StoreEntry};
}

#[cfg(feature = "metrics")]
pub use shedlock_core::MetricsListener;
pub use shedlock_core::{
    Actor, Advice, Attempt, AttemptRequest, AuditRecord, AuditRequest, BoxFuture, Capabilities,
    Clock, ClockOffset, ClockSource, Completion, CurrentLock, Deadline, Effect, Error, ErrorKind,
    Event, Executor, ExtendRequest, Extension, Failover, Finding, ForceUnlockRequest, ForcedUnlock,
    HeldLock, JobChange, JobRecord, JobRegistration, JobsRequest, Journal, JournalEntry,
    KeepReason, LastRun, Lease, LeaseClock, Level, ListRequest, Listener, LockConfig, LockDefaults,
    LockDuration, LockName, LockProvider, LockRecord, LockState, LostPolicy, LostReason,
    ManualClock, Migration, MigrationStep, Moment, NotBefore, NotUnlocked, Operation, Outcome,
    Owner, Pause, PauseRequest, Paused, PrefixProvider, ProviderIdentity, PruneRequest, Pruned,
    Reading, Recorder, Release, ReplacedRegistration, ResetSlotRequest, RestoredSlot,
    ResumeRequest, Resumed, Retention, Retries, RunEnd, RunId, RunOutcome, RunRecord, RunState,
    RunsRequest, Schema, Skip, SkipReason, SkippedSlots, Slot, SlotEnd, SlotReset, SlotState,
    SystemClock, TakenElsewhere, Unanswered, Unlock, UnlockRequest, admin, assert_locked, blocking,
    current_lock, current_provider, delegate, extend_current, identify_store, parse_duration,
    set_global_executor, set_global_provider, store_identity, testing, with_executor,
    with_executor_blocking, with_provider, with_provider_blocking,
};

pub use shedlock_journal::{
    ErrorText, JobMetrics, JobMetricsText, JournalSettings, JournalWriter, MemoryJournal,
    MissedSlots, missed_slots,
};
#[cfg(all(feature = "macros", feature = "scheduler"))]
pub use shedlock_macros::scheduled;
#[cfg(feature = "macros")]
pub use shedlock_macros::scheduler_lock;
#[cfg(feature = "pings")]
#[doc(inline)]
pub use shedlock_pings as pings;
#[doc(inline)]
pub use shedlock_provider::MemoryProvider;
#[cfg(feature = "scheduler")]
#[doc(inline)]
pub use shedlock_scheduler as scheduler;
#[doc(inline)]
pub use stores::{connect, schema};

/// The manual: longer texts, one page per module.
pub mod _documentation {
    #[doc = include_str!("../docs/blocking.md")]
    pub mod blocking {}
    #[doc = include_str!("../docs/coming_from_java.md")]
    pub mod coming_from_java {}
    #[doc = include_str!("../docs/design.md")]
    pub mod design {}
    #[doc = include_str!("../docs/fencing.md")]
    pub mod fencing {}
    #[doc = include_str!("../docs/not_lost.md")]
    pub mod not_lost {}
    #[doc = include_str!("../docs/wrapping_a_provider.md")]
    pub mod wrapping_a_provider {}
    #[doc = concat!(
        include_str!("../docs/writing_a_provider/first.md"),
        "\n```\n",
        include_str!("../docs/writing_a_provider/cabinet.rs"),
        "```\n\n",
        include_str!("../docs/writing_a_provider/last.md"),
    )]
    pub mod writing_a_provider {}
}

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "macros", feature = "postgres"))]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
