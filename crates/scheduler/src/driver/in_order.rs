//! The slots of a job that must not be lost: each of them, in order, until it is done.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{LockName, Owner, Skip, SkipReason, SkippedSlots, Slot};
use tokio::sync::watch;

use super::Shared;
use super::due::{Due, Phase};
use super::panics::caught;
use super::run::{Attempted, FIRST_PAUSE, Pauses, attempt, end_by};
use crate::{Job, MissedReason, TickEnd};

/// How many consecutive attempts may run nothing. Then there is a pause, whatever the store
/// returns.
const MOST_IN_A_ROW: u32 = 8;

/// Works towards the slot of this tick: runs earlier slots that have not run, takes over a slot
/// whose run failed or whose replica died, and retries until all are done, here or elsewhere.
///
/// Each slot but the last is reported as a separate tick. The result is the end of the last one, or
/// of the one that a shutdown cut. It is `None` if the tick yielded, between two slots, to a
/// requested run.
pub(super) async fn run(
    shared: Arc<Shared>,
    job: Arc<Job>,
    due: Due,
    mut phase: watch::Receiver<Phase>,
) -> Option<(Due, TickEnd)> {
    let Some(target) = due.slot else {
        unreachable!("only ticks with slots run in order")
    };
    let mut work = Work {
        pauses: Pauses::of(&job, due.slot),
        shared,
        job,
        due,
        target,
        next: Next {
            slot: target,
            follows: true,
            over: None,
            skipped: None,
        },
    };
    let mut in_a_row = 0;
    loop {
        // If store and task complete immediately, only this lets other tasks run.
        tokio::task::yield_now().await;
        let told = *phase.borrow();
        if told != Phase::Go {
            return end_by(told).map(|end| (due, end));
        }
        let step = work.step(&phase).await;
        in_a_row = match step {
            Step::Ran => 0,
            _ => in_a_row + 1,
        };
        let wake = match step {
            Step::End(due, end) => return Some((due, end)),
            // A pause has skipped the slots from here to the target.
            _ if work.next.slot > target => return Some((due, TickEnd::Taken)),
            Step::Wait(end) => {
                work.next.over = None;
                work.pauses.next(&work.shared, &end)
            }
            Step::Looked if in_a_row >= MOST_IN_A_ROW => work.shared.clock.now() + FIRST_PAUSE,
            Step::Ran | Step::Looked => continue,
        };
        in_a_row = 0;
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Go) => {}
            () = work.shared.clock.sleep_until(wake) => {}
        }
    }
}

/// The work of one tick.
struct Work {
    shared: Arc<Shared>,
    job: Arc<Job>,
    due: Due,
    /// The slot of the tick.
    target: Slot,
    next: Next,
    pauses: Pauses,
}

/// The result of an attempt.
enum Step {
    /// The slot was run or given up.
    Ran,
    /// The attempt showed where to continue.
    Looked,
    /// Only waiting helps.
    Wait(TickEnd),
    /// The tick ends.
    End(Due, TickEnd),
}

impl Work {
    /// Attempts the next slot, and decides where to continue.
    async fn step(&mut self, phase: &watch::Receiver<Phase>) -> Step {
        let (shared, job, next) = (&self.shared, &self.job, &mut self.next);
        let (due, target) = (self.due, self.target);
        next.skip_what_is_too_late(shared, job, target);
        let now_due = due.at(next.slot);
        match attempt_once(shared, job, next, &now_due, phase).await {
            Attempted::Taken(skip) if next.was_skipped(&skip, target, job) => Step::Looked,
            Attempted::Taken(_) if next.slot >= target => Step::End(due, TickEnd::Taken),
            Attempted::Taken(skip) => {
                next.was_taken(skip.last_slot, target, shared, job).await;
                self.pauses.reset();
                Step::Looked
            }
            Attempted::End(end) if is_over(&end) => {
                if next.slot >= target {
                    return Step::End(due, end);
                }
                shared.tell(job, &now_due, &end);
                next.go_on_behind(next.slot, job);
                self.pauses.reset();
                Step::Ran
            }
            Attempted::End(end @ TickEnd::Cut { .. }) if next.slot < target => {
                shared.tell(job, &due, &TickEnd::Missed(MissedReason::Shutdown));
                Step::End(now_due, end)
            }
            Attempted::End(end) if is_final(&end) => Step::End(due, end),
            // The slot is open and is tried again, here or elsewhere.
            Attempted::End(end) | Attempted::Open(end) => {
                shared.tell(job, &now_due, &end);
                match shared.allows(job, &due) {
                    true => Step::Wait(end),
                    false => Step::End(due, TickEnd::Missed(MissedReason::TooLate)),
                }
            }
            Attempted::NotYet(end) if next.learns_what_is_skipped(&end) => Step::Looked,
            Attempted::NotYet(end) => {
                let first = last_slot_to_run_first(&end).filter(|last| *last < next.slot);
                if first.is_some_and(|last| next.turn_to(last, job)) {
                    Step::Looked
                } else if shared.allows(job, &due) {
                    Step::Wait(end)
                } else {
                    Step::End(due, end)
                }
            }
        }
    }
}

/// The slot to attempt next.
struct Next {
    slot: Slot,
    /// The slot before it must have been taken.
    follows: bool,
    /// The newest slot that the store reported as taken since the last wait.
    over: Option<Slot>,
    /// The slots that a pause has skipped, as the store has reported them. They are never reported as taken in `over`:
    /// those before the pause must still run.
    skipped: Option<SkippedSlots>,
}

impl Next {
    /// The newest slot before this one that no pause has skipped.
    fn previous(&self, job: &Job) -> Option<Slot> {
        let before = job.schedule.before(self.slot)?;
        match self.skipped.filter(|skipped| skipped.contains(before)) {
            Some(skipped) => job.schedule.slot_at(skipped.from.instant(), Duration::ZERO),
            None => Some(before),
        }
    }

    /// Notes which slots a pause has skipped, if a slot is refused because this claim took others as skipped. Returns
    /// false if it did not.
    fn learns_what_is_skipped(&mut self, end: &TickEnd) -> bool {
        let TickEnd::Busy(skip) = end else {
            return false;
        };
        let is_news = skip.reason == SkipReason::SlotPending && skip.skipped_slots != self.skipped;
        if is_news {
            self.skipped = skip.skipped_slots;
        }
        is_news
    }

    /// Continues after the pause that has skipped this slot, or, if it has skipped the target too, at the last slot that
    /// was taken: it may be open, and slots that were due before the pause may follow it. Returns false if no pause has
    /// skipped this slot, or if there is nothing before the pause.
    fn was_skipped(&mut self, skip: &Skip, target: Slot, job: &Job) -> bool {
        let skipped = skip.skipped_slots.filter(|it| it.contains(self.slot));
        let Some(skipped) = skipped else {
            return false;
        };
        self.skipped = Some(skipped);
        if self.slot < target {
            self.go_on_behind(self.slot, job);
            return true;
        }
        match skip.last_slot.filter(|last| *last < self.slot) {
            Some(last) => {
                self.slot = last;
                self.follows = false;
                true
            }
            None => false,
        }
    }

    /// Continues after a slot that the store reported as taken, where `last` is the last one that
    /// was taken.
    async fn was_taken(&mut self, last: Option<Slot>, target: Slot, shared: &Shared, job: &Job) {
        self.over = self.over.max(Some(self.slot));
        let shedlocks = match last {
            Some(last) if last >= self.slot => None,
            _ => shedlock_ran_at(shared, job).await,
        };
        if let Some(until) = shedlocks {
            // The slots before that run count as done, and the gap is accepted.
            self.over = self.over.max(job.schedule.slot_at(until, Duration::ZERO));
            self.go_on_behind(self.over.unwrap_or(self.slot), job);
            self.follows = false;
        } else if self.follows {
            // Another replica works on the slots. The result for the last slot shows how far it has
            // come.
            self.slot = target;
        } else {
            self.go_on_behind(self.slot, job);
        }
    }

    /// Continues at the last slot that was taken. Either that slot must run before this one, or a
    /// gap follows it. Returns false if that makes no progress and only waiting helps.
    fn turn_to(&mut self, last: Slot, job: &Job) -> bool {
        let Some(over) = self.over.filter(|over| *over >= last) else {
            // An attempt at it shows which of the two it is.
            self.slot = last;
            self.follows = false;
            return true;
        };
        if !self.follows {
            return false;
        }
        // The slots taken after it are not in the record, as after a run of ShedLock. The gap is
        // accepted.
        self.go_on_behind(over, job);
        self.follows = false;
        true
    }

    fn go_on_behind(&mut self, slot: Slot, job: &Job) {
        let mut next = job.schedule.next_after(slot.instant());
        if let Some(skipped) = self
            .skipped
            .filter(|it| next.is_some_and(|next| it.contains(next)))
        {
            next = job.schedule.next_after(skipped.until.instant());
        }
        self.slot = next.unwrap_or(slot);
        self.follows = true;
    }

    /// Leaves out slots whose late limit has passed, by a claim that accepts a gap. An open slot is
    /// not left out: a replica has to report that it is given up.
    fn skip_what_is_too_late(&mut self, shared: &Shared, job: &Arc<Job>, target: Slot) {
        if !self.follows {
            return;
        }
        let oldest = shared.oldest_in_time(job);
        let is_in_time = |slot: Slot| oldest.is_none_or(|oldest| slot.instant() >= oldest);
        if let Some(oldest) = oldest.filter(|_| self.slot < target && !is_in_time(self.slot)) {
            let just_before = oldest - Duration::from_micros(1);
            let first = job.schedule.next_after(just_before).unwrap_or(target);
            let left_out = std::mem::replace(&mut self.slot, first.min(target));
            tracing::warn!(
                job = job.name(),
                from = tracing::field::display(left_out),
                until = tracing::field::display(self.slot),
                "skipped slots past their late limit"
            );
        }
        // The first slot in time accepts a gap before it.
        let previous = self.previous(job);
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
    if next.follows {
        if let Some(previous) = next.previous(job) {
            config = config.previous_slot(previous);
        }
        if let Some(skipped) = next.skipped {
            config = config.skipped_slots(skipped);
        }
    }
    // A panic is a single failure of the slot, and does not end the tick.
    let attempted = attempt(shared, job, &config, due, phase);
    caught(attempted)
        .await
        .unwrap_or(Attempted::End(TickEnd::Panicked))
}

/// Returns when ShedLock acquired the lock, if it was the last to do so. Slots up to that time
/// count as taken.
async fn shedlock_ran_at(shared: &Shared, job: &Job) -> Option<SystemTime> {
    let name = LockName::new(job.name()).ok()?;
    let record = shared.executor.provider().inspect(&name).await.ok()??;
    let owner = record.owner.filter(|owner| !Owner::is_ours(owner));
    owner.and(record.locked_at)
}

/// Returns true if the slot is done or given up.
fn is_over(end: &TickEnd) -> bool {
    matches!(
        end,
        TickEnd::Ran { result: Ok(()), .. } | TickEnd::Missed(MissedReason::TooLate)
    ) || matches!(end, TickEnd::GivenUp(skip) if skip.reason == SkipReason::SlotGivenUp)
}

/// Returns true if there is nothing more to do here.
fn is_final(end: &TickEnd) -> bool {
    matches!(
        end,
        TickEnd::Cut { .. } | TickEnd::GivenUp(_) | TickEnd::Missed(_) | TickEnd::Failed(_)
    )
}

fn last_slot_to_run_first(end: &TickEnd) -> Option<Slot> {
    match end {
        TickEnd::Busy(skip) if skip.reason == SkipReason::SlotPending => skip.last_slot,
        _ => None,
    }
}
