#![doc = include_str!("../README.md")]

mod lock_store;
mod memory;
pub mod merge;
mod metrics;
mod missed;
mod registered;
mod settings;
mod states;
#[doc(hidden)]
pub mod view;
mod writer;

pub use memory::MemoryJournal;
pub use metrics::{JobMetrics, JobMetricsText};
pub use missed::{MissedSlots, missed_slots};
pub use settings::{ErrorText, JournalSettings};
pub use writer::JournalWriter;
#[doc(hidden)]
pub use writer::OpenRun;
