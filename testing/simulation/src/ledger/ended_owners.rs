//! Locks that are held by owners that have ended.

use shedlock_core::{AttemptRequest, Owner, Slot};
use shedlock_proof::history::{Earlier, Stored, What};
use shedlock_store::Record;

use super::{Asked, Book, Ending, Grant, Ledger, SlotsSeen};
use crate::Law;
use crate::transition::Transition;
use crate::world::{Instant, instant_of};

/// How much later than its timeout a copy may be granted, as in the runtime.
const SLACK: u64 = 100_000_000;

impl Ledger {
    /// A client withdraws what it may have won.
    pub(crate) fn withdraws(&self, request: &AttemptRequest, sent: Instant) {
        let mut book = self.lock();
        book.counts.add(Transition::GivenUpUnknown);
        let Some(asked) = book.asked.get_mut(request.owner().as_str()) else {
            return;
        };
        asked.is_last_withdrawal_sent |= sent >= asked.bound();
        asked.is_withdrawn = true;
    }

    /// A withdrawal that was sent at `sent` got its reply, which is final if it was sent after the
    /// bound.
    pub(crate) fn withdrawn(&self, request: &AttemptRequest, sent: Instant) {
        let now = self.world.now();
        let mut book = self.lock();
        let owner = request.owner().as_str();
        let Some(asked) = book.asked.get_mut(owner) else {
            return;
        };
        if sent < asked.bound() {
            return;
        }
        asked.is_settled = true;
        book.note(now, || {
            format!("the attempt of {owner} is finally withdrawn")
        });
        book.counts.add(Transition::WithdrawnForGood);
        let name = request.name().as_str();
        let Some(grant) = book.grant_that_runs(name, now) else {
            return;
        };
        if grant.owner == owner && !book.is_excused(name, owner) {
            let what = format!("{name} is held by {owner}, whose attempt was finally withdrawn");
            book.accuse(now, Law::HeldByNoOne, what);
        }
    }

    /// A withdrawal has replaced the version of a free record, or created a record.
    pub(crate) fn bars(&self, name: &str) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || format!("store rejects late requests for {name}"));
        book.counts.add(Transition::Barred);
    }

    /// A record is deleted or reverts to an earlier one. The holder no longer has the lock,
    /// whatever reply it got; the holder in the earlier record has it again.
    pub(crate) fn reverts(&self, name: &str, to: Option<&Record>) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || format!("the record of {name} goes back to {to:?}"));
        let owner = to.map_or("", |record| Owner::without_mark(&record.owner));
        let earlier = to.map(|record| Earlier {
            token: record.fencing_token,
            from: record.locked_at.map_or(0, instant_of),
            until: instant_of(record.locked_until),
            is_released: Owner::is_released(&record.owner),
            slot: record.slots.last.map(Slot::as_micros),
            is_done: record.slots.last.is_some() && record.slots.done == record.slots.last,
            attempts: record.slots.attempts.unwrap_or(1),
        });
        book.stored(now, name, owner, Stored::Reverted(earlier));
        let book = &mut *book;
        let lock = book.locks.entry(name.to_owned()).or_default();
        let to_owner = to.map(|record| Owner::without_mark(&record.owner).to_owned());
        let before = lock.grant.as_ref().map(|grant| grant.owner.clone());
        for owner in before.iter().chain(&to_owner) {
            if let Some(asked) = book.asked.get_mut(owner) {
                asked.is_forced = true;
                asked.has_ended = true;
                asked.told_until = 0;
            }
        }
        lock.disturbed = now;
        lock.last_change = now;
        // If clients' clocks judge, the next token may be an earlier one again.
        if book.slack > 0 {
            lock.token = None;
        }
        lock.slots = to.map_or_else(SlotsSeen::default, |record| SlotsSeen {
            last: record.slots.last,
            is_done: record.slots.last.is_some() && record.slots.done == record.slots.last,
            attempts: record.slots.attempts.unwrap_or(1),
        });
        let reverted = to.zip(to_owner).map(|(record, owner)| Grant {
            owner,
            token: record.fencing_token,
            slot: None,
            at: now,
            counts_from: record.locked_at.map_or(0, instant_of),
            until: instant_of(record.locked_until),
            ended: Owner::is_released(&record.owner).then_some(Ending::Forced),
            is_double: false,
        });
        match (reverted, &mut lock.grant) {
            (Some(reverted), grant) => *grant = Some(reverted),
            (None, Some(grant)) => {
                grant.ended = Some(Ending::Forced);
                grant.until = now;
            }
            (None, None) => {}
        }
    }

    /// A node is stopped or resumed, or its process ends: it withdraws nothing in that time.
    pub(crate) fn disturbs(&self, node: usize) {
        let now = self.world.now();
        let mut book = self.lock();
        book.records(now, Some(node), "", "", What::GoesOn);
        book.disturbed.insert(node, now);
    }

    /// Sets whether the message that arrives now is a copy made by the network.
    pub(crate) fn carries_double(&self, is_double: bool) {
        self.lock().is_double = is_double;
    }

    /// Checks the locks that are held at the end.
    pub(crate) fn judge_end(&self) {
        let now = self.world.now();
        let mut book = self.lock();
        let names: Vec<String> = book.locks.keys().cloned().collect();
        for name in names {
            if let Some((law, what)) = book.was_held_by_no_one(&name, now) {
                book.accuse(now, law, what);
            }
        }
    }
}

impl Asked {
    /// The moment from which a withdrawal is final.
    fn bound(&self) -> Instant {
        self.last_sent.saturating_add(self.timeout)
    }
}

impl Book {
    fn grant_that_runs(&self, name: &str, now: Instant) -> Option<&Grant> {
        let grant = self.locks.get(name)?.grant.as_ref()?;
        (grant.ended.is_none() && grant.until > now).then_some(grant)
    }

    /// Whether the record of the lock was deleted or reverted since this owner's request. Then its
    /// versions are those of before, and withdrawals no longer hold.
    fn is_excused(&self, name: &str, owner: &str) -> bool {
        let disturbed = self.locks.get(name).map_or(0, |lock| lock.disturbed);
        let asked = self.asked.get(owner);
        asked.is_none_or(|asked| disturbed > 0 && disturbed >= asked.first_sent)
    }

    /// Returns why this grant is a violation, if it goes to an owner that has ended and is past all
    /// bounds.
    pub(super) fn granted_to_no_one(
        &self,
        name: &str,
        grant: &Grant,
        now: Instant,
    ) -> Option<(Law, String)> {
        let owner = &grant.owner;
        let asked = self.asked.get(owner)?;
        let before = self.locks.get(name).and_then(|lock| lock.grant.as_ref());
        let finds_its_mark =
            before.is_some_and(|before| before.owner == *owner && before.ended.is_some());
        let is_excused = self.is_excused(name, owner);
        let why = if finds_its_mark && !is_excused {
            "found its own released mark"
        } else if asked.is_settled && !is_excused {
            "was finally withdrawn"
        } else if !self.writes_late && now > asked.bound().saturating_add(SLACK) {
            "was sent longer ago than its timeout"
        } else {
            return None;
        };
        let what = format!("{name} was granted to {owner}, whose attempt {why}");
        Some((Law::HeldByNoOne, what))
    }

    /// Returns why the last lease is a violation, if an owner that had ended held it for too long:
    /// the last withdrawal was not even sent, although the owner's process was running all the
    /// time.
    pub(super) fn was_held_by_no_one(&self, name: &str, now: Instant) -> Option<(Law, String)> {
        let grant = self.locks.get(name)?.grant.as_ref()?;
        let asked = self.asked.get(&grant.owner)?;
        // The lock was unlocked and then won again by a copy of the attempt.
        let came_back = asked.is_unlocked && grant.at > asked.unlocked_at;
        let is_nobodys = self.withdraws && (!asked.has_won || came_back);
        let disturbed = self.disturbed.get(&asked.node).copied().unwrap_or(0);
        let is_excused = grant.ended.is_some()
            || grant.is_double
            || asked.is_last_withdrawal_sent
            || disturbed >= asked.first_sent
            || self.is_excused(name, &grant.owner);
        if !is_nobodys || is_excused {
            return None;
        }
        let held = grant.until.min(now);
        let bound = asked.bound().saturating_add(SLACK + self.withdrawal);
        (held > bound).then(|| {
            let over = std::time::Duration::from_nanos(held - bound);
            let what = format!(
                "{name} was held by {}, {over:?} past its bound",
                grant.owner
            );
            (Law::HeldByNoOne, what)
        })
    }
}
