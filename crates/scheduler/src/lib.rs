//! Runs scheduled tasks once, on any number of replicas: triggers, slots and shutdown.
//!
//! # Slots
//!
//! A [`Schedule`] defines instants: 00:00:00, 00:10:00, 00:20:00. Each of them is a *slot*, and
//! every replica computes the same slots, however late its timers are. A run of a job requests its
//! lock and its slot in one step, and the store grants the slot to one replica. So a task runs once
//! per tick. You do not have to estimate how late a replica may be, and a late start does not
//! swallow the next tick.
//!
//! The guarantee in detail: a slot never has two runs. It has at least one run if lateness + clock
//! skew between replicas + run time stay below the period, and if the replica that took the slot
//! stays alive.
//!
//! Beyond that bound, slots are left out but never run twice. A run that continues into the next
//! slots is followed by the newest of them. A replica that wakes after the next slot was taken runs
//! nothing. The slot of a replica that died is used up. The observer is notified of each of these
//! ticks. Slots that are more than 60 s ahead of the store's clock, because a replica's clock is
//! wrong, are refused. `tests/bound.rs` shows both sides of the bound.
//!
//! # Jobs that must not be lost
//!
//! With [`LockConfig::completion`](shedlock_core::LockConfig::completion) and
//! [`Completion::OnSuccess`](shedlock_core::Completion::OnSuccess) a slot is done only when its run
//! has returned `Ok`. After an error, a panic, a lost lease or a crash, any replica takes it over,
//! within the limits of [`Retries`](shedlock_core::Retries). No later slot of the job starts before
//! that, so every slot is done or given up, in order, whatever the bound above. The cost: a run
//! whose end did not reach the store is repeated, so the task must be idempotent.
//! [`JobRun::slot_attempt`] returns the number of the attempt.
//!
//! If you use another scheduler, [`Schedule::slot_now`] computes the same slots in one line. So
//! does `shedlock run --schedule` under plain cron.
//!
//! # A scheduler
//!
//! ```
//! use shedlock::{Executor, LockConfig, MemoryProvider};
//! use shedlock::scheduler::{Job, Schedule, Scheduler};
//! use std::convert::Infallible;
//! use std::sync::Arc;
//! use std::time::Duration;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let executor = Executor::new(Arc::new(MemoryProvider::new()));
//! let handle = Scheduler::new(executor)
//!     .job(Job::new(
//!         LockConfig::new("mail").lock_at_most_for("10m"),
//!         Schedule::cron_in("0 */10 * * * *", "Asia/Seoul"),
//!         |run| async move {
//!             println!("mails of {:?}, {:?} late", run.slot(), run.lateness());
//!             Ok::<_, Infallible>(())
//!         },
//!     ))
//!     .start()?;
//! // Until SIGTERM or ctrl-c: shedlock::scheduler::shutdown_signal().await?;
//! let report = handle.shutdown(Duration::from_secs(25)).await?;
//! assert!(report.cut.is_empty());
//! # Ok::<(), shedlock::Error>(()) }).unwrap();
//! ```
//!
//! With the facade's feature `macros`, the attribute `#[scheduled]` turns functions into such jobs.
//!
//! # Wake-ups
//!
//! One task holds all jobs in a heap and sleeps until the next one is due. Jobs are due by the
//! calendar, but a timer does not notice when the clock is set or the machine is suspended. So that
//! one task, not each job, also reads the clock once a second while it waits
//! ([`Scheduler::clock_check`]).

mod driver;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod handle;
mod job;
mod job_run;
mod late;
#[cfg(feature = "metrics")]
mod metrics_observer;
mod overlap;
mod report;
mod schedule;
mod scheduler;
mod signal;
mod status;
mod tick;

pub use handle::Handle;
pub use job::Job;
pub use job_run::{JobRun, Trigger};
pub use late::LatePolicy;
#[cfg(feature = "metrics")]
pub use metrics_observer::MetricsObserver;
pub use overlap::Overlap;
pub use report::{ShutdownReport, StoppedRun};
pub use schedule::{IntoSchedule, Schedule, next_slot, schedule_in_words};
pub use scheduler::Scheduler;
pub use signal::shutdown_signal;
pub use status::JobStatus;
pub use tick::{MissedReason, Observer, Tick, TickEnd};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
