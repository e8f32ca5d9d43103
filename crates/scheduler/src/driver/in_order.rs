//! The slots of a job that must not be lost: each of them, in order, until it is done.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{SkipReason, Slot};
use tokio::sync::watch;

use super::Shared;
use super::due::{Due, Phase};
use super::panics::caught;
use super::run::{Attempted, Pauses, attempt, told_to_end};
use crate::{Job, MissedReason, TickEnd};

/// Works towards the slot of this tick: runs the slots before it that nobody has run, takes over
/// one whose runner failed or died, and tries again until all are done, here or elsewhere.
///
/// Each slot but the last is told of as its own tick; the answer is the end of the last one.
pub(super) async fn run(
    shared: Arc<Shared>,
    job: Arc<Job>,
    due: Due,
    mut phase: watch::Receiver<Phase>,
) -> TickEnd {
    let Some(target) = due.slot else {
        unreachable!("only ticks with slots run in order")
    };
    let mut next = Next {
        slot: target,
        follows: true,
        over: None,
    };
    let mut pauses = Pauses::of(&job, due.slot);
    loop {
        next.skip_what_is_too_late(&shared, &job, target);
        let now_due = due.at(next.slot);
        let end = match attempt_once(&shared, &job, &next, &now_due, &phase).await {
            Attempted::End(TickEnd::Taken) => {
                if next.slot >= target {
                    return TickEnd::Taken;
                }
                next.over = next.over.max(Some(next.slot));
                if next.follows {
                    // Somebody else goes on here; how far, the last one's answer tells.
                    next.slot = target;
                } else {
                    next.go_on_behind(next.slot, &job);
                }
                pauses.reset();
                continue;
            }
            Attempted::End(end) if is_over(&end) => {
                if next.slot >= target {
                    return end;
                }
                shared.tell(&job, &now_due, &end);
                next.go_on_behind(next.slot, &job);
                pauses.reset();
                continue;
            }
            Attempted::End(end) if is_final(&end) => return end,
            // The slot is open: it is to be tried again, here or elsewhere.
            Attempted::End(end) | Attempted::Open(end) => {
                shared.tell(&job, &now_due, &end);
                if !shared.allows(&job, &due) {
                    return TickEnd::Missed(MissedReason::TooLate);
                }
                end
            }
            Attempted::NotYet(end) => {
                let first = last_slot_to_run_first(&end).filter(|last| *last < next.slot);
                if first.is_some_and(|last| next.turn_to(last, &job)) {
                    continue;
                }
                if !shared.allows(&job, &due) {
                    return end;
                }
                end
            }
        };
        next.over = None;
        let wake = pauses.next(&shared, &end);
        tokio::select! {
            biased;
            told = told_to_end(&mut phase) => return told,
            () = shared.clock.sleep_until(wake) => {}
        }
    }
}

/// The slot to ask for.
struct Next {
    slot: Slot,
    /// The one before it must have been taken.
    follows: bool,
    /// The newest one that the store called taken, since it was last waited for.
    over: Option<Slot>,
}

impl Next {
    /// The last slot that was taken, which has to be run before this one, or is the one before a
    /// gap. False where that leads nowhere, and only waiting helps.
    fn turn_to(&mut self, last: Slot, job: &Job) -> bool {
        let Some(over) = self.over.filter(|over| *over >= last) else {
            // Asking for it tells.
            self.slot = last;
            self.follows = false;
            return true;
        };
        if !self.follows {
            return false;
        }
        // What was taken behind it left no slot in the record, as a run of ShedLock does not: the
        // gap is to be borne.
        self.go_on_behind(over, job);
        self.follows = false;
        true
    }

    fn go_on_behind(&mut self, slot: Slot, job: &Job) {
        self.slot = job.schedule.next_after(slot.instant()).unwrap_or(slot);
        self.follows = true;
    }

    /// Slots whose late limit is over are left out, by a claim that bears a gap. An open one is
    /// not: somebody has to say that it is given up.
    fn skip_what_is_too_late(&mut self, shared: &Shared, job: &Arc<Job>, target: Slot) {
        if !self.follows {
            return;
        }
        let oldest = shared.oldest_in_time(job);
        let is_in_time = |slot: Slot| oldest.is_none_or(|oldest| slot.instant() >= oldest);
        if let Some(oldest) = oldest
            && self.slot < target
            && !is_in_time(self.slot)
        {
            let just_before = oldest - Duration::from_micros(1);
            let first = job.schedule.next_after(just_before).unwrap_or(target);
            let left_out = std::mem::replace(&mut self.slot, first.min(target));
            tracing::warn!(
                job = job.name(),
                from = tracing::field::display(left_out),
                until = tracing::field::display(self.slot),
                "left out slots whose late limit is over"
            );
        }
        // The first slot in time bears a gap before it.
        let previous = job.schedule.before(self.slot);
        self.follows = previous.is_some_and(is_in_time);
    }
}

async fn attempt_once(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    next: &Next,
    due: &Due,
    phase: &watch::Receiver<Phase>,
) -> Attempted {
    let mut config = job.config.clone().slot(next.slot);
    if next.follows
        && let Some(previous) = job.schedule.before(next.slot)
    {
        config = config.previous_slot(previous);
    }
    // A panic is one failure of the slot, and not the end of the tick.
    let attempted = attempt(shared, job, &config, due, phase);
    caught(attempted)
        .await
        .unwrap_or(Attempted::End(TickEnd::Panicked))
}

/// The slot is done, or given up.
fn is_over(end: &TickEnd) -> bool {
    matches!(
        end,
        TickEnd::Ran { result: Ok(()), .. } | TickEnd::Missed(MissedReason::TooLate)
    )
}

/// There is nothing more to do here.
fn is_final(end: &TickEnd) -> bool {
    matches!(
        end,
        TickEnd::Cut { .. } | TickEnd::Missed(_) | TickEnd::Failed(_)
    )
}

fn last_slot_to_run_first(end: &TickEnd) -> Option<Slot> {
    match end {
        TickEnd::Busy(skip) if skip.reason == SkipReason::SlotPending => skip.last_slot,
        _ => None,
    }
}
