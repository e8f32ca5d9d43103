//! The rules that each slot must satisfy.

use std::collections::{BTreeMap, BTreeSet};

use shedlock_core::Slot;

use super::{Drill, Kind, MOST_ATTEMPTS, What};

/// The texts for how ticks end; see `TickEnd`.
pub(crate) const RAN: &str = "ran";
pub(crate) const TAKEN: &str = "taken by another replica";
pub(crate) const FAILED: &str = "failed: no luck";
const CUT: &str = "stopped by the shutdown";
pub(crate) const CUT_AND_UNLOCKED: &str = "stopped by the shutdown; its lock was released";
const LOST: &str = "lost its lease";
const GIVEN_UP: &str = "given up";

/// Everything known about one slot.
pub(super) struct OfSlot<'a> {
    pub(super) drill: &'a Drill,
    pub(super) kind: &'a Kind,
    pub(super) slot: Slot,
    pub(super) facts: &'a [(u64, What)],
    pub(super) killed: &'a BTreeSet<u64>,
}

impl OfSlot<'_> {
    pub(super) fn is_done(&self) -> Result<bool, &'static str> {
        let too_late = What::Asked {
            after_its_shutdown: true,
        };
        if self.facts.iter().any(|fact| fact.1 == too_late) {
            return Err("asked for after the shutdown");
        }
        if !self.kind.must_not_be_lost {
            return self.ran_or_explained();
        }
        self.attempts_are_those_that_count()?;
        self.given_up_is_said()?;
        self.done_or_given_up()
    }

    /// The facts that show that its task began, with the replica and the attempt.
    fn began(&self) -> impl Iterator<Item = (usize, u64, Option<u32>)> {
        let numbered = self.facts.iter().enumerate();
        numbered.filter_map(|(i, (node, what))| match what {
            What::Began { attempt } => Some((i, *node, *attempt)),
            _ => None,
        })
    }

    /// Whether a tick of this replica (or of any, if `None`) ended like this.
    fn has_reported(&self, by: Option<u64>, how: impl Fn(&str) -> bool) -> bool {
        self.facts.iter().any(|(node, what)| match what {
            What::Told(end) => by.is_none_or(|by| by == *node) && how(end),
            _ => false,
        })
    }

    /// How many locks may have been granted although the task never began, because the replica was
    /// killed or the lease was lost before that.
    fn unseen(&self) -> u32 {
        let mut last = BTreeMap::new();
        for (node, what) in self.facts {
            last.insert(node, what);
        }
        let is_unseen = |(node, what): &(&u64, &What)| match what {
            What::Asked { .. } => self.killed.contains(*node),
            What::Told(end) => end.starts_with(LOST),
            _ => false,
        };
        u32::try_from(last.into_iter().filter(is_unseen).count()).unwrap_or(u32::MAX)
    }

    fn ran_or_explained(&self) -> Result<bool, &'static str> {
        match self.began().count() {
            0 => {}
            1 => return Ok(true),
            _ => return Err("ran more than once"),
        }
        let at = self.slot.instant();
        let rested = self.drill.rests.iter().any(|(job, from, until)| {
            let is_its = job.is_none_or(|job| job == self.kind.name);
            let starts_by = at + self.drill.unit * self.kind.jitter + self.drill.slack;
            is_its && starts_by >= *from && at <= *until + self.drill.slack
        });
        if self.unseen() == 0 && self.is_taken_after_a_cut() {
            return Err("used up by a task that never began");
        }
        let says_why = |end: &str| end != RAN && end != TAKEN;
        if rested || self.unseen() > 0 || self.has_reported(None, says_why) {
            Ok(false)
        } else {
            Err("not run, for no reason")
        }
    }

    /// Whether a replica gave it back, and a later attempt of another replica found it taken.
    fn is_taken_after_a_cut(&self) -> bool {
        let is_cut =
            |fact: &(u64, What)| matches!(&fact.1, What::Told(end) if end == CUT_AND_UNLOCKED);
        let mut since = self.facts.iter().skip_while(|fact| !is_cut(fact));
        let mut asking = BTreeSet::new();
        since.any(|(node, what)| match what {
            What::Asked { .. } => {
                asking.insert(*node);
                false
            }
            What::Told(end) => end == TAKEN && asking.contains(node),
            _ => false,
        })
    }

    /// Attempts count, except those that a shutdown cut.
    fn attempts_are_those_that_count(&self) -> Result<(), &'static str> {
        let (mut least, mut most) = (0, 0);
        for (i, node, attempt) in self.began() {
            let right = least + 1..=most + 1 + self.unseen();
            if !attempt.is_some_and(|attempt| right.contains(&attempt)) {
                return Err("counts what is no attempt");
            }
            let end = self.facts[i..].iter().find_map(|(by, what)| match what {
                What::Told(end) if *by == node => Some(end.as_str()),
                _ => None,
            });
            // A replica that was not killed: its shutdown did not wait for the store.
            let is_unknown = end.is_none() && !self.killed.contains(&node);
            let is_cut = end.is_some_and(|end| end.starts_with(CUT));
            least += u32::from(!is_cut && !is_unknown);
            most += u32::from(end != Some(CUT_AND_UNLOCKED));
        }
        Ok(())
    }

    /// It is reported by the replica that failed last, and by all that attempt it later.
    fn given_up_is_said(&self) -> Result<(), &'static str> {
        for (i, (node, what)) in self.facts.iter().enumerate() {
            let What::Told(end) = what else {
                continue;
            };
            let mut before = self.facts[..i].iter().filter(|fact| fact.0 == *node).rev();
            let last = before.find_map(|fact| match fact.1 {
                What::Began { attempt } => attempt,
                _ => None,
            });
            let is_last = end == FAILED && last == Some(MOST_ATTEMPTS);
            if (is_last || end.contains(GIVEN_UP)) && !self.facts.contains(&(*node, What::GivenUp))
            {
                return Err("given up without an event");
            }
        }
        Ok(())
    }

    /// If the last attempt died with its replica, there may have been no later attempt at the slot.
    fn given_up(&self) -> Result<(), &'static str> {
        let last = self.began().max_by_key(|(_, _, attempt)| *attempt);
        let (made, by) = last.map_or((0, 0), |(_, by, attempt)| (attempt.unwrap_or(0), by));
        let is_said = self.facts.iter().any(|fact| fact.1 == What::GivenUp);
        if !is_said && !self.killed.contains(&by) && self.unseen() == 0 {
            Err("neither done nor given up")
        } else if made + self.unseen() < MOST_ATTEMPTS {
            Err("given up before its attempts were made")
        } else {
            Ok(())
        }
    }

    /// A success that its replica could not report (it was killed, or its lease was lost) may be
    /// repeated.
    fn done_or_given_up(&self) -> Result<bool, &'static str> {
        let succeeded: Vec<u64> = self
            .facts
            .iter()
            .filter(|fact| fact.1 == What::Succeeded)
            .map(|fact| fact.0)
            .collect();
        let reported = |node: &&u64| self.has_reported(Some(**node), |end| end == RAN);
        match succeeded.iter().filter(reported).count() {
            0 | 1 if !succeeded.is_empty() => Ok(true),
            0 => self.given_up().map(|()| false),
            _ => Err("done more than once"),
        }
    }
}
