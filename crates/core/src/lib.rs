#![doc = include_str!("../README.md")]

// Fuzz targets use this name in every crate.
#[cfg(any(test, fuzzing))]
extern crate self as shedlock_core;

pub mod admin;
mod clock;
mod contract;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod runtime;
pub mod testing;

use std::future::Future;
use std::pin::Pin;

pub use admin::{KeepReason, PruneRequest, Pruned};
pub use clock::{
    Clock, Deadline, LeaseClock, ManualClock, Moment, NotBefore, Reading, SystemClock,
};
pub use contract::{
    Actor, Advice, Attempt, AttemptRequest, AuditRecord, AuditRequest, BoundedAttempt, Budget,
    Capabilities, ClockOffset, ClockSource, Completion, Effect, Error, ErrorKind, Event,
    ExtendRequest, Extension, Failover, Finding, ForceUnlockRequest, ForcedUnlock, JOURNAL_VERSION,
    JobChange, JobRecord, JobRegistration, JobsRequest, Journal, JournalEntry, LastRun, Lease,
    Level, ListRequest, Listener, LockConfig, LockDefaults, LockDuration, LockName, LockProvider,
    LockRecord, LockState, LostPolicy, LostReason, Migration, MigrationStep, NotAfter, NotUnlocked,
    Operation, Owner, Pause, PauseRequest, Paused, PrefixProvider, ProviderIdentity, Recorder,
    ReplacedRegistration, ResetSlotRequest, RestoredSlot, ResumeRequest, Resumed, Retention,
    Retries, RunEnd, RunId, RunOutcome, RunRecord, RunState, RunsRequest, SETTINGS, Schema, Skip,
    SkipReason, SkippedSlots, Slot, SlotEnd, SlotReset, SlotState, StoreClock, TakenElsewhere,
    TaskEnd, Unlock, UnlockRequest, answered_within, identify_store, is_this_machine, listed,
    parse_duration, store_identity, warn_unverified, within,
};
#[cfg(feature = "metrics")]
pub use runtime::MetricsListener;
pub use runtime::{
    CurrentLock, Executor, HeldLock, Outcome, Release, Unanswered, assert_locked, blocking,
    current_lock, current_provider, extend_current, set_global_executor, set_global_provider,
    with_executor, with_executor_blocking, with_provider, with_provider_blocking,
};
// For the other crates of shedlock.
#[doc(hidden)]
pub use clock::{TOLERATED_PPM, parts_per_million};
#[doc(hidden)]
pub use contract::{
    HUNDRED_YEARS, LastFailure, Setting, Words, check_longest, check_runtime, error_text, host,
    set_words,
};
#[doc(hidden)]
pub use runtime::{Copies, tell};

/// A boxed future that is `Send`. The methods of [`LockProvider`] return it, so that
/// `Arc<dyn LockProvider>` works.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
