//! What a store promises and answers: requests, answers, errors, names, records, and the journal beside the locks.

mod advice;
mod answer;
mod budget;
mod capabilities;
mod change;
mod clock_offset;
mod completion;
mod config;
mod duration;
mod error;
mod finding;
mod identity;
pub(crate) mod journal;
mod lease;
mod listener;
mod lost;
mod name;
mod owner;
mod pause;
mod provider;
mod record;
mod request;
mod slot;
mod slot_state;
pub(crate) mod store_clock;
mod store_identity;
pub(crate) mod task_end;
mod unverified;
mod within;
mod wrappers;

pub use advice::{Advice, Operation, Setting, Words, set_words};
pub use answer::{
    Attempt, Extension, ForcedUnlock, Migration, MigrationStep, Schema, Skip, SkipReason,
    SlotReset, Unlock,
};
pub use budget::{Budget, NotAfter};
pub use capabilities::{Capabilities, ClockSource, Failover};
pub use change::{Change, Changed, LeaseChange, Seen};
pub use clock_offset::ClockOffset;
pub use completion::{Completion, Retries};
pub use config::{LockConfig, LockDefaults};
pub use duration::{HUNDRED_YEARS, LockDuration, check_longest, parse_duration};
pub use error::{Effect, Error, ErrorKind, LastFailure};
pub use finding::{Finding, Level};
pub use identity::ProviderIdentity;
pub use journal::{
    Actor, AuditRecord, AuditRequest, JOURNAL_VERSION, JobChange, JobRecord, JobRegistration,
    JobsRequest, Journal, JournalEntry, LastRun, Recorder, ReplacedRegistration, Retention, RunEnd,
    RunId, RunOutcome, RunRecord, RunState, RunsRequest, TakenElsewhere,
};
pub use lease::Lease;
pub use listener::{Event, Listener, NotUnlocked};
pub use lost::{LostPolicy, LostReason};
pub use name::LockName;
pub use owner::{Owner, host};
pub use pause::{Pause, PauseRequest, Paused, ResumeRequest, Resumed};
pub use provider::LockProvider;
pub use record::{LockRecord, LockState, listed};
pub use request::{
    AttemptRequest, ExtendRequest, ForceUnlockRequest, ListRequest, ResetSlotRequest, RestoredSlot,
    SlotEnd, UnlockRequest,
};
pub use slot::Slot;
pub use slot_state::{SkippedSlots, SlotState};
pub use store_clock::{BoundedAttempt, StoreClock};
pub use store_identity::{identify_store, store_identity};
pub use task_end::{TaskEnd, error_text};
pub use unverified::{SETTINGS, is_this_machine, warn_unverified};
pub use within::{answered_within, check_runtime, within};
pub use wrappers::PrefixProvider;
