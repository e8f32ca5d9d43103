//! The state that the driver and its runs share.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{Clock, Error, Executor, Slot};

use super::due::Due;
use super::failing::Failing;
use super::later;
use super::panics::message_of;
use crate::handle::Fate;
use crate::{Job, Observer, Tick, TickEnd};

pub(crate) struct Shared {
    pub(crate) executor: Executor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clock_check: Duration,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) seed: u64,
    pub(crate) fate: Arc<Fate>,
    pub(crate) failing: Failing,
}

impl Shared {
    /// Returns when the run of this slot starts: up to the job's jitter later, always the same for
    /// one slot, and before the last tenth of the time to the next slot, which would otherwise end
    /// it before it runs.
    pub(super) fn start_of(&self, job: &Job, slot: Slot) -> SystemTime {
        let jitter = job.jitter;
        if jitter.is_zero() {
            return slot.instant();
        }
        let next = job.schedule.next_after(slot.instant());
        let gap = next.and_then(|next| next.instant().duration_since(slot.instant()).ok());
        let jitter = gap.map_or(jitter, |gap| jitter.min(gap - gap / 10));
        let jitter = u64::try_from(jitter.as_micros()).unwrap_or(u64::MAX);
        let mut hasher = DefaultHasher::new();
        (self.seed, job.name(), slot).hash(&mut hasher);
        let drawn = hasher.finish() % jitter.saturating_add(1);
        later(slot.instant(), Duration::from_micros(drawn))
    }

    /// Returns true if the late policy allows this slot to start now.
    pub(super) fn in_time(&self, job: &Job, slot: Slot) -> bool {
        let now = self.clock.system_time();
        job.late.allows(slot, now, job.jitter)
    }

    /// Returns the earliest instant whose slot may start now; `None` if any may.
    pub(super) fn oldest_in_time(&self, job: &Job) -> Option<SystemTime> {
        job.late.oldest(self.clock.system_time(), job.jitter)
    }

    /// Returns true if this tick may still start now. A requested start is never too late.
    pub(super) fn allows(&self, job: &Job, due: &Due) -> bool {
        due.is_asked_for() || due.slot.is_none_or(|slot| self.in_time(job, slot))
    }

    /// Logs that an attempt failed which is repeated, if that is news.
    pub(super) fn warn_of(&self, job: &Job, due: &Due, error: &Error) {
        let name = job.name();
        self.unharmed(name, || {
            if self.failing.is_news(name, error) {
                tracing::warn!(
                    job = name,
                    slot = due.slot.map(tracing::field::display),
                    error = %format_args!("{:#}", error.cause(name)),
                    "attempt failed, retrying"
                );
            }
        });
    }

    /// Logs how a tick ended, and notifies the observer.
    pub(super) fn tell(&self, job: &Job, due: &Due, end: &TickEnd) {
        // The error, and the subscriber that formats it, may be the user's code.
        self.unharmed(job.name(), || log(job, due, end));
        let Some(observer) = &self.observer else {
            return;
        };
        let tick = Tick {
            job: job.name(),
            slot: due.slot,
            trigger: due.trigger,
            end,
        };
        self.unharmed(job.name(), || observer.on_tick(&tick));
    }

    fn unharmed(&self, job: &str, act: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(act)) {
            self.panicked(Some(job), &*panic);
        }
    }

    /// Reports a panic in the driver or in code that it called.
    pub(super) fn panicked(&self, job: Option<&str>, panic: &(dyn Any + Send)) {
        let message = message_of(panic);
        let told = catch_unwind(AssertUnwindSafe(|| {
            tracing::error!(job, "the scheduler continues after a panic: {message}");
        }));
        let observed = catch_unwind(AssertUnwindSafe(|| {
            if let Some(observer) = &self.observer {
                observer.on_panic(job, message);
            }
        }));
        // If these panic too, there is nothing left to report to.
        drop((told, observed));
    }
}

fn log(job: &Job, due: &Due, end: &TickEnd) {
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
        TickEnd::Ran { .. } | TickEnd::Panicked | TickEnd::GivenUp(_) | TickEnd::Failed(_) => {
            tracing::error!(job = name, slot, trigger, "{end}");
        }
    }
}
