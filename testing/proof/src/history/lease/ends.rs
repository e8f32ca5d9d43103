//! How a lease ends: it is unlocked, withdrawn or lost.

use super::Life;
use crate::history::faults::Faults;

impl Life {
    pub(super) fn released(&mut self, at: u64, faults: &Faults) {
        let over = self.over_at_release;
        let over = over.map(|over| faults.over_after_crashes(over, self.lease_from(0), at));
        // If nothing ran under a lease, its slot can be given back even after the lease has
        // expired.
        let is_unused = matches!(self.slot_given_back, Some((_, true)));
        if let (Some(asked), Some(over)) = (self.release_asked, over)
            && self.releases == 1
            && !is_unused
            && self.host.is_none()
            && asked > over.saturating_add(self.drift)
        {
            self.broken.push((
                "unlocked too late",
                format!(
                    "an unlock of {} at {} that was requested at {asked} ns succeeded, although \
                     its lease was over at {over} ns",
                    self.owner, self.name
                ),
            ));
        }
        self.is_unlocked = true;
        if let Some((_, answered)) = &mut self.slot_done {
            answered.get_or_insert(at);
        }
        if let Some(asked) = self.releasing.take() {
            // A copy that can no longer be granted arrived before the unlock, which ended its
            // lease, if any.
            self.stray = self.stray.filter(|stray| stray.by >= asked);
        }
        self.over_by(at, at.saturating_add(self.skew).max(self.kept()));
    }

    /// The latest end of at-least.
    pub(super) fn kept(&self) -> u64 {
        self.acquired.map_or(0, |from| {
            from.saturating_add(self.at_least)
                .saturating_add(self.granularity)
        })
    }

    /// Processes the reply to a withdrawal, which is final if it was sent after the timeout.
    pub(super) fn withdrew(&mut self, at: u64) {
        let Some(asked) = self.withdrawing.take() else {
            return;
        };
        self.has_failed_to_withdraw = false;
        self.stray = self
            .stray
            .filter(|stray| asked < stray.timeout && asked <= stray.by);
        if self.open.is_none() {
            // At-least may keep a lock that was unlocked before.
            let kept = if self.releases > 0 { self.kept() } else { 0 };
            self.over_by(at, at.saturating_add(self.skew).max(kept));
        }
    }

    /// Returns from when on a withdrawal had to be sent, if none was sent since then. What held the
    /// lock until then needs none. While the store is unavailable, a process gives up when the lease
    /// would have ended by itself (law 6: the worst case).
    pub(in crate::history) fn withdrawal_due(&self) -> Option<u64> {
        let bound = self.stray.filter(|_| self.knows_of_strays)?.timeout;
        let is_ours = self.host.is_none() && self.pause.is_none() && !self.is_old;
        let ended = self.acquired.is_none() || self.unlock_sent.is_some_and(|at| at < bound);
        let is_sent = self.withdrawal_sent.is_some_and(|sent| sent >= bound);
        (is_ours && ended && !is_sent && !self.has_failed_to_withdraw).then_some(bound)
    }

    /// Records that it ended at `ended`: past `moment` it holds only what a stray copy wins.
    pub(super) fn over_by(&mut self, ended: u64, moment: u64) {
        let until = self.possible_until;
        self.possible_until = until
            .min(Some(moment))
            .max(self.adrift)
            .max(self.stray_until());
        self.released.get_or_insert((ended, until));
    }

    pub(super) fn lost(&mut self, at: u64, call: &'static str) {
        // An unlock whose reply was lost may have succeeded, and another owner may hold the lock.
        let unlocked_before = self.releases > 1;
        // A store that truncates its times ends the lease this much earlier than the local clock.
        if at.saturating_add(self.drift) < self.certain_until && !unlocked_before && !self.withdrawn
        {
            self.losses.push((
                at,
                format!(
                    "{call} of {} at {} returned \"lost\" although its lease was certainly running",
                    self.owner, self.name
                ),
            ));
        }
        self.certain_until = self.certain_until.min(at);
    }
}
