//! Changes of the calendar.

use std::time::{Duration, SystemTime};

use super::due::Due;
use super::entry::Plan;
use super::timers::JobId;
use super::{Driver, later};
use crate::{MissedReason, TickEnd};

/// A calendar that falls behind the running clock by more than this between two reads was set back.
/// Time servers make it fall behind more slowly, to correct clocks that run fast.
const SET_BACK: Duration = Duration::from_millis(100);

impl Driver {
    /// Detects a calendar that was set back, and plans the slots that come again.
    ///
    /// If these slots have run already, they are taken, and known to be. If the store refused them
    /// as too far ahead, they run now. A calendar that was set forward needs no action: the slots
    /// that it skipped are due.
    pub(super) fn look_at_clocks(&mut self) {
        let clock = &self.shared.clock;
        let (now, calendar) = (clock.now(), clock.system_time());
        let (then, calendar_then) = self.seen;
        self.seen = (now, calendar);
        let expected = later(calendar_then, now.saturating_since(then));
        if later(calendar, SET_BACK) >= expected {
            return;
        }
        tracing::warn!("the system clock was set back: rescheduling all jobs");
        for id in 0..self.entries.len() {
            let id = JobId::try_from(id).unwrap_or(JobId::MAX);
            self.drop_future_ticks(id, calendar);
            let entry = self.entry(id);
            let Plan::Slot { slot: planned, .. } = entry.plan else {
                continue;
            };
            let from = entry
                .decided
                .map_or(calendar, |slot| slot.instant().max(calendar));
            let next = entry.job.schedule.next_after(from);
            if next.is_some_and(|next| next < planned) {
                self.plan_slot(id, from);
            }
        }
    }

    /// Gives up waiting ticks whose time now comes again.
    fn drop_future_ticks(&mut self, id: JobId, calendar: SystemTime) {
        let shared = self.shared.clone();
        let entry = self.entry(id);
        let is_future = |due: &Due| due.slot.is_some_and(|slot| slot.instant() > calendar);
        let Some(active) = &mut entry.active else {
            return;
        };
        if let Some(pending) = active.pending.take_if(|due| is_future(due)) {
            let set_back = TickEnd::Missed(MissedReason::SetBack);
            shared.tell(&entry.job, &pending, &set_back);
        }
        if is_future(&active.due) {
            entry.give_up(MissedReason::SetBack);
        }
    }
}
