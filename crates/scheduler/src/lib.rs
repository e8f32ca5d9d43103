//! Triggers, slots and shutdown: runs scheduled tasks once, on however many replicas.
//!
//! # Slots
//!
//! A [`Schedule`] names instants: 00:00:00, 00:10:00, 00:20:00. Each of them is a *slot*, and every
//! replica computes the same ones, however late its timers are. A job's run asks for its lock and
//! its slot in one step; the store lets one replica have it. So a task runs once per tick, with no
//! guess at how late a replica may be, and a late start does not swallow the next tick.
//!
//! Exactly: never two runs of one slot, always. At least one wherever lateness + difference between
//! clocks + run time stay below the period, and the replica that took the slot lives.
//!
//! Beyond that bound slots are left out, and never run twice: a run that goes on into the next slots
//! is followed by the newest of them, a replica that wakes after the next slot was taken runs
//! nothing, and the slot of one that died is used up. The observer hears of each of these ticks.
//! Slots that a clock puts more than 60 s ahead of the store's are refused. `tests/bound.rs` shows both sides of the bound.
//!
//! # Jobs that must not be lost
//!
//! With [`LockConfig::completion`](shedlock_core::LockConfig::completion) and
//! [`Completion::OnSuccess`](shedlock_core::Completion::OnSuccess) a slot is done only when its run
//! has returned `Ok`. After an error, a panic, a lost lease or a death any replica takes it over,
//! within the bounds of [`Retries`](shedlock_core::Retries), and no later slot of the job starts
//! before: so every slot is done or given up, in order, whatever the bound above. What it costs: a
//! run whose end did not reach the store is repeated, so the task must bear that.
//! [`JobRun::slot_attempt`] tells it which attempt it is.
//!
//! Other schedulers get slots from the same computation: [`Schedule::slot_now`], in one line. So does
//! `shedlock run --schedule` under plain cron.
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
//! With the facade's feature `macros`, the attribute `#[scheduled]` makes such jobs of functions.
//!
//! # What wakes it
//!
//! One task holds all jobs in a heap and sleeps until the next one is due. Jobs are due by the
//! calendar, and a timer cannot know when somebody sets the clock or suspends the machine: so that
//! one task, not each job, also looks at the clock once a second while it waits
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
pub use schedule::{IntoSchedule, Schedule};
pub use scheduler::Scheduler;
pub use signal::shutdown_signal;
pub use status::JobStatus;
pub use tick::{MissedReason, Observer, Tick, TickEnd};
