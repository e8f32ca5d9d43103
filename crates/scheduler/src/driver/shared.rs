//! What the driver and its runs share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{Clock, Executor, Slot};

use super::due::Due;
use crate::{Job, Observer, Tick, TickEnd};

pub(crate) struct Shared {
    pub(crate) executor: Executor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_check: Duration,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) seed: u64,
}

impl Shared {
    /// When this slot's run starts: up to its jitter later, the same however often it is asked.
    pub(super) fn start_of(&self, job: &Job, slot: Slot) -> SystemTime {
        let jitter = u64::try_from(job.jitter_or_zero().as_micros()).unwrap_or(u64::MAX);
        if jitter == 0 {
            return slot.instant();
        }
        let mut hasher = DefaultHasher::new();
        (self.seed, job.name(), slot).hash(&mut hasher);
        let later = hasher.finish() % jitter.saturating_add(1);
        slot.instant() + Duration::from_micros(later)
    }

    /// True where the late policy lets this slot start now.
    pub(super) fn in_time(&self, job: &Job, slot: Slot) -> bool {
        let now = self.clock.system_time();
        job.late.allows(slot, now, job.jitter_or_zero())
    }

    /// The earliest instant whose slot may start now; none where any may.
    pub(super) fn oldest_in_time(&self, job: &Job) -> Option<SystemTime> {
        job.late
            .oldest(self.clock.system_time(), job.jitter_or_zero())
    }

    /// True where this may still start now. A start that was asked for is never too late.
    pub(super) fn allows(&self, job: &Job, due: &Due) -> bool {
        due.is_asked_for() || due.slot.is_none_or(|slot| self.in_time(job, slot))
    }

    /// Logs what became of a tick, and tells the observer.
    pub(super) fn tell(&self, job: &Job, due: &Due, end: &TickEnd) {
        let name = job.name();
        let slot = due.slot.map(tracing::field::display);
        let trigger = tracing::field::display(due.trigger);
        match end {
            TickEnd::Ran { result: Ok(()), .. } | TickEnd::Taken | TickEnd::Busy(_) => {
                tracing::debug!(job = name, slot, trigger, "{end}");
            }
            TickEnd::Missed(_) => tracing::info!(job = name, slot, trigger, "{end}"),
            TickEnd::Cut { .. } | TickEnd::Lost { .. } => {
                tracing::warn!(job = name, slot, trigger, "{end}");
            }
            TickEnd::Ran { .. } | TickEnd::Panicked | TickEnd::Failed(_) => {
                tracing::error!(job = name, slot, trigger, "{end}");
            }
        }
        let Some(observer) = &self.observer else {
            return;
        };
        let tick = Tick {
            job: name,
            slot: due.slot,
            trigger: due.trigger,
            end,
        };
        if catch_unwind(AssertUnwindSafe(|| observer.on_tick(&tick))).is_err() {
            tracing::error!(job = name, "the observer of ticks panicked");
        }
    }
}
