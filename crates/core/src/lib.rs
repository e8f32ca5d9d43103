#![doc = include_str!("../README.md")]

// Fuzz targets use this name in every crate.
#[cfg(any(test, fuzzing))]
extern crate self as shedlock_core;

pub mod admin;
mod advice;
mod answer;
pub mod blocking;
mod budget;
mod capabilities;
mod clock;
mod completion;
mod config;
mod current;
mod duration;
mod error;
mod executor;
mod finding;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod held_lock;
mod identity;
mod journal;
mod lease;
mod listener;
#[cfg(feature = "metrics")]
mod metrics_listener;
mod name;
mod narrator;
mod outcome;
mod owner;
mod pause;
mod provider;
mod prune;
mod record;
mod request;
mod running;
mod runtime;
mod scope;
mod slot;
mod slot_state;
mod store_clock;
mod store_identity;
mod sync;
mod task_end;
pub mod testing;
mod thread;
mod unverified;
mod within;
mod wrappers;

use std::future::Future;
use std::pin::Pin;

pub use advice::{Advice, Operation};
#[doc(hidden)]
pub use advice::{Setting, Words, set_words};
pub use answer::{
    Attempt, Extension, ForcedUnlock, Migration, MigrationStep, Schema, Skip, SkipReason,
    SlotReset, Unlock,
};
pub use budget::{Budget, NotAfter};
pub use capabilities::{Capabilities, ClockSource, Failover};
pub use clock::{
    Clock, ClockOffset, Deadline, LeaseClock, ManualClock, Moment, NotBefore, Reading, SystemClock,
};
#[doc(hidden)]
pub use clock::{TOLERATED_PPM, check_runtime, parts_per_million};
pub use completion::{Completion, Retries};
pub use config::{LockConfig, LockDefaults};
pub use current::{CurrentLock, assert_locked, current_lock, extend_current};
#[doc(hidden)]
pub use duration::{HUNDRED_YEARS, check_longest};
pub use duration::{LockDuration, parse_duration};
// For the messages of the other crates.
#[doc(hidden)]
pub use error::LastFailure;
pub use error::{Effect, Error, ErrorKind};
pub use executor::Executor;
pub use finding::{Finding, Level};
pub use held_lock::HeldLock;
pub use identity::ProviderIdentity;
pub use journal::{
    Actor, AuditRecord, AuditRequest, JOURNAL_VERSION, JobChange, JobRecord, JobRegistration,
    JobsRequest, Journal, JournalEntry, LastRun, Recorder, ReplacedRegistration, Retention, RunEnd,
    RunId, RunOutcome, RunRecord, RunState, RunsRequest, TakenElsewhere,
};
pub use lease::Lease;
pub use listener::{Event, Listener, NotUnlocked};
#[cfg(feature = "metrics")]
pub use metrics_listener::MetricsListener;
pub use name::LockName;
#[doc(hidden)]
pub use narrator::tell;
pub use outcome::Outcome;
pub use owner::Owner;
#[doc(hidden)]
pub use owner::host;
pub use pause::{Pause, PauseRequest, Paused, ResumeRequest, Resumed};
pub use provider::LockProvider;
pub use prune::{KeepReason, PruneRequest, Pruned};
pub use record::{LockRecord, LockState, listed};
pub use request::{
    AttemptRequest, ExtendRequest, ForceUnlockRequest, ListRequest, ResetSlotRequest, RestoredSlot,
    SlotEnd, UnlockRequest,
};
#[doc(hidden)]
pub use runtime::Copies;
pub use runtime::{LostPolicy, LostReason, Release, Unanswered};
pub use scope::{
    current_provider, set_global_executor, set_global_provider, with_executor,
    with_executor_blocking, with_provider, with_provider_blocking,
};
pub use slot::Slot;
pub use slot_state::{SkippedSlots, SlotState};
pub use store_clock::{BoundedAttempt, StoreClock};
pub use store_identity::{identify_store, store_identity};
pub use task_end::TaskEnd;
#[doc(hidden)]
pub use task_end::error_text;
pub use unverified::{SETTINGS, is_this_machine, warn_unverified};
pub use within::{answered_within, within};
pub use wrappers::PrefixProvider;

/// A boxed future that is `Send`. The methods of [`LockProvider`] return it, so that
/// `Arc<dyn LockProvider>` works.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
