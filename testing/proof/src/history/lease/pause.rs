//! The lease of a pause.

use super::Life;

/// What is special about the life of a pause.
#[derive(Clone, Debug)]
pub(in crate::history) struct PauseLife {
    /// Whether it takes the lock from a holder.
    pub(in crate::history) replaces_holder: bool,
    /// The holder that it replaced, or none; the outer `None` if that is not certain.
    pub(in crate::history) replaced: Option<Option<String>>,
    /// The last of the slots that may count as taken because of it: while it may hold the lock, and
    /// once it is over.
    pub(in crate::history) slots: (i128, i128),
    /// The slots up to this one were due when it began at the earliest: it skips none of them.
    pub(in crate::history) due: i128,
}

impl PauseLife {
    pub(super) fn new(replaces_holder: bool) -> Self {
        Self {
            replaces_holder,
            replaced: None,
            slots: (i128::MAX, i128::MAX),
            due: i128::MIN,
        }
    }
}

impl Life {
    /// Processes the reply to a pause. Whom it replaced is certain if this call made it, and no earlier copy can have made
    /// one that had ended.
    pub(super) fn paused(&mut self, at: u64, until: u64, replaced: Option<&Option<String>>) {
        self.open = None;
        self.acquired = Some(at);
        let replaced = replaced.filter(|_| at < self.asked.saturating_add(self.at_most));
        if let (Some(pause), Some(replaced)) = (&mut self.pause, replaced) {
            pause.replaced = Some(replaced.clone());
        }
        self.store_until = Some(until);
        self.ends.push((at, until));
        self.possible_until = Some(self.lease_from(at)).max(self.stray_until());
    }

    /// The last moment at which the pause can have taken the lock; `None` if it cannot.
    pub(in crate::history) fn takes_the_lock_by(&self) -> Option<u64> {
        let is_certain = self.pause.as_ref().is_some_and(|it| it.replaced.is_some());
        let stray = self.stray.map(|stray| stray.by).filter(|_| !is_certain);
        self.acquired.max(stray)
    }

    /// The last moment at which it may hold the lock, or at-least may keep it.
    pub(in crate::history) fn last_moment(&self) -> Option<u64> {
        self.possible_until.map(|until| until.max(self.kept()))
    }

    /// Whether nothing can have ended it before its own end. A pause that was repeated may have begun with its last
    /// attempt.
    pub(in crate::history) fn ran_out(&self) -> bool {
        let over = self.acquired.map(|at| self.lease_from(at));
        self.release_asked.is_none_or(|asked| Some(asked) >= over)
    }

    /// The latest moment of the store's clock, in nanoseconds since 1970, at which it can have begun: its end is later
    /// than that by how long it was to last, and may have been rounded up.
    pub(in crate::history) fn began_by(&self) -> Option<u64> {
        Some(self.store_until?.saturating_sub(self.at_most))
    }

    /// The latest end of the pause if it takes the lock at this moment.
    pub(in crate::history) fn lasts_from(&self, taken: u64) -> u64 {
        self.lease_from(taken)
    }

    /// It ended at this moment at the earliest, by what an operator did: at-least no longer applies,
    /// and it may be lost.
    pub(in crate::history) fn may_end_at(&mut self, moment: u64) {
        let moment = moment.max(self.asked);
        self.release_asked = Some(self.release_asked.map_or(moment, |at| at.min(moment)));
        self.withdrawn = true;
        self.losses.retain(|(at, _)| *at < moment);
    }

    /// A pause took the lock from it by this moment: what it sends afterwards must be lost, unless a copy of the attempt
    /// that was sent later took the lock again, which cannot be before the pause has ended.
    pub(in crate::history) fn was_replaced(&mut self, by: u64, ended: u64, pause: &str) {
        if self.last_asked > by && self.acquired.is_some_and(|at| at > ended) {
            return;
        }
        let is_unused = matches!(self.slot_given_back, Some((_, true)));
        let unlocks = self
            .release_asked
            .filter(|_| self.is_unlocked && !is_unused);
        for (law, call, asked) in [
            ("unlocked too late", "an unlock", unlocks),
            ("revived", "an extension", self.renewal_asked),
        ] {
            if let Some(asked) = asked.filter(|asked| *asked > by) {
                let evidence = format!(
                    "{call} of {} at {} that was requested at {asked} ns succeeded, although {pause} \
                     had taken the lock from it by {by} ns",
                    self.owner, self.name
                );
                self.broken.push((law, evidence));
            }
        }
    }

    /// An operator's resumption was answered at this moment: the pause is over.
    pub(in crate::history) fn resumed(&mut self, at: u64) {
        self.over_by(at, at.saturating_add(self.skew));
    }
}
