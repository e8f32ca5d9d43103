//! The leases that the store granted, extended and ended.

use shedlock_core::{Completion, Slot, SlotState};

use shedlock_proof::history::Stored;

use super::{Book, Ledger, Lock};
use crate::Law;
use crate::transition::Transition;
use crate::world::Instant;

/// A lease as the store has it.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) owner: String,
    pub(crate) token: Option<u64>,
    pub(crate) slot: Option<Slot>,
    /// By the true clock.
    pub(crate) at: Instant,
    /// The instant that at-least counts from, according to the record.
    pub(crate) counts_from: Instant,
    pub(crate) until: Instant,
    pub(crate) ended: Option<Ending>,
    /// Whether a copy of the request made by the network won it, so that no client has this lease.
    pub(crate) is_double: bool,
}

/// How a lease ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Unlocked { is_done: bool },
    Withdrawn,
    Forced,
}

impl Ledger {
    /// The store has granted a lock.
    pub(crate) fn granted(&self, name: &str, grant: Grant) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || format!("store grants {name} to {grant:?}"));
        let stored = Stored::Granted {
            token: grant.token,
            slot: grant.slot.map(Slot::as_micros),
            from: grant.counts_from,
            until: grant.until,
            is_copy: book.is_double,
        };
        book.stored(now, name, &grant.owner, stored);
        let wrong = book
            .wrong_grant(name, &grant, now)
            .or_else(|| book.granted_to_no_one(name, &grant, now))
            .or_else(|| book.was_held_by_no_one(name, now));
        if let Some((law, what)) = wrong {
            book.accuse(now, law, what);
        }
        let attempts = book.take(name, &grant, now);
        let is_taken_over = attempts > 1;
        let book = &mut *book;
        let lock = book.locks.entry(name.to_owned()).or_default();
        let after_expiry = lock
            .grant
            .as_ref()
            .is_some_and(|before| before.ended.is_none());
        book.counts.add(if after_expiry {
            Transition::WonAfterExpiry
        } else {
            Transition::Won
        });
        if grant.slot.is_some() {
            book.counts.add(Transition::SlotTaken);
        }
        if is_taken_over {
            book.counts.add(Transition::SlotTakenOver);
        }
        let has_ended = book
            .asked
            .get(&grant.owner)
            .is_none_or(|asked| asked.has_ended || asked.is_withdrawn || asked.is_unlocked);
        if has_ended {
            book.counts.add(Transition::GrantedToNobody);
        }
        let grant = Grant {
            is_double: book.is_double,
            ..grant
        };
        lock.token = lock.token.max(grant.token);
        lock.grant = Some(grant);
        lock.acquisitions += 1;
        lock.last_acquired = now;
        lock.last_change = now;
    }

    /// The store has extended a lease.
    pub(crate) fn extended(&self, name: &str, owner: &str, until: Instant) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || format!("store extends {name} of {owner}"));
        book.stored(now, name, owner, Stored::Extended { until });
        if let Some(what) = book.not_held_by(name, owner, now, false) {
            book.accuse(
                now,
                Law::Ownership,
                format!("an extension of {name}: {what}"),
            );
        }
        let told = book.asked.get(owner).map_or(0, |asked| asked.told_until);
        if until < told {
            let what = format!("{name} of {owner} ends at {until}, but {told} was reported");
            book.accuse(now, Law::CutShort, what);
        }
        book.counts.add(Transition::Extended);
        let book = &mut *book;
        if let Some(lock) = book.locks.get_mut(name) {
            lock.last_change = now;
            if let Some(grant) = &mut lock.grant {
                if until == grant.until {
                    book.counts.add(Transition::ExtendedByLess);
                }
                grant.until = until;
            }
        }
    }

    /// The store has ended a lease; a lock kept by at-least becomes free at `free`.
    pub(crate) fn ended(&self, name: &str, owner: &str, ending: Ending, free: Instant) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || format!("store ends {name} of {owner}: {ending:?}"));
        let stored = Stored::Ended {
            is_withdrawn: match ending {
                Ending::Unlocked { .. } => Some(false),
                Ending::Withdrawn => Some(true),
                Ending::Forced => None,
            },
            is_done: ending == Ending::Unlocked { is_done: true },
            free,
        };
        book.stored(now, name, owner, stored);
        // If nothing ran under a lease, the lease may have expired: it still holds its slot.
        let has_started = book.asked.get(owner).is_none_or(|asked| asked.has_started);
        if let Some(what) = book.not_held_by(name, owner, now, !has_started) {
            book.accuse(now, Law::Ownership, format!("an unlock of {name}: {what}"));
        }
        book.counts.add(match ending {
            Ending::Unlocked { .. } => Transition::Unlocked,
            Ending::Withdrawn => Transition::Withdrawn,
            Ending::Forced => Transition::ForcedFree,
        });
        if let Some(asked) = book.asked.get_mut(owner) {
            asked.has_ended = true;
            asked.is_forced |= ending == Ending::Forced;
        }
        let book = &mut *book;
        let Some(lock) = book.locks.get_mut(name) else {
            return;
        };
        lock.last_change = now;
        let Some(grant) = &mut lock.grant else { return };
        grant.ended = Some(ending);
        grant.until = free;
        if ending == (Ending::Unlocked { is_done: true }) && grant.slot.is_some() {
            lock.slots.is_done = true;
            book.counts.add(Transition::SlotDone);
        }
    }

    /// Checks what the record contains about the slots after a lease has ended: a task that never
    /// began has used up nothing, and one that did begin has not left its slot to others.
    pub(crate) fn left_slots(&self, name: &str, owner: &str, after: SlotState) {
        let now = self.world.now();
        let mut book = self.lock();
        let completion = book.completion(owner);
        let stored = Stored::Slots {
            last: after.last.map(Slot::as_micros),
            attempts: after.attempts,
        };
        book.stored(now, name, owner, stored);
        let book = &mut *book;
        let Some(lock) = book.locks.get_mut(name) else {
            return;
        };
        let grant = lock.grant.as_ref().filter(|grant| grant.owner == owner);
        let (Some(grant), Some(asked)) = (grant, book.asked.get(owner)) else {
            return;
        };
        let Some(slot) = grant.slot else { return };
        let is_open = completion.retries().is_some();
        let is_given_back = if is_open {
            after
                .attempts
                .is_some_and(|left| left < lock.slots.attempts)
        } else {
            after.last < Some(slot)
        };
        let is_forced = grant.ended == Some(Ending::Forced);
        lock.slots.last = after.last;
        lock.slots.attempts = after.attempts.unwrap_or(lock.slots.attempts);
        let has_started = asked.has_started;
        if is_given_back {
            book.counts.add(Transition::SlotGivenBack);
        }
        if is_given_back && has_started && !is_open {
            let what = format!("{slot} of {name} was given back by {owner}, which ran");
            book.accuse(now, Law::OneRunPerSlot, what);
        }
        if !(is_given_back || has_started || is_forced) {
            let what = format!("{slot} of {name} was used up by {owner}, which never ran");
            book.accuse(now, Law::UnusedSlot, what);
        }
    }

    /// The store has freed a lock for an operator, regardless of its holder and of what kept it.
    pub(crate) fn forced(&self, name: &str) {
        let now = self.world.now();
        let mut book = self.lock();
        book.note(now, || format!("store frees {name} by force"));
        book.stored(now, name, "", Stored::Freed);
        book.counts.add(Transition::ForcedFree);
        let book = &mut *book;
        let Some(lock) = book.locks.get_mut(name) else {
            return;
        };
        lock.last_change = now;
        let Some(grant) = &mut lock.grant else { return };
        grant.ended = Some(Ending::Forced);
        grant.until = now;
        if let Some(asked) = book.asked.get_mut(&grant.owner) {
            asked.has_ended = true;
            asked.is_forced = true;
        }
    }

    /// Determines how a lease ended, if its record shows only that it did.
    pub(crate) fn ending(&self, owner: &str, is_done: bool) -> Ending {
        let book = self.lock();
        match book.asked.get(owner) {
            Some(asked) if asked.is_unlocked => Ending::Unlocked { is_done },
            Some(asked) if asked.is_withdrawn => Ending::Withdrawn,
            _ => Ending::Forced,
        }
    }

    /// Whether this owner had the lock and its lease has ended.
    pub(crate) fn is_over(&self, name: &str, owner: &str) -> bool {
        let book = self.lock();
        let grant = book.locks.get(name).and_then(|lock| lock.grant.as_ref());
        grant.is_some_and(|grant| grant.owner == owner && grant.ended.is_some())
    }

    /// Checks the holder and the end of the lease in the record, if there is a holder.
    pub(crate) fn compare(&self, name: &str, held: Option<(&str, Instant)>) {
        let now = self.world.now();
        let mut book = self.lock();
        let (holder, until) = held.unwrap_or_default();
        book.stored(now, name, holder, Stored::Holds { until });
        let Some(grant) = book.locks.get(name).and_then(|lock| lock.grant.clone()) else {
            return;
        };
        let runs = grant.ended.is_none() && grant.until > now;
        if runs && held != Some((grant.owner.as_str(), grant.until)) {
            let what = format!("the lease of {} on {name} became {held:?}", grant.owner);
            book.accuse(now, Law::Ownership, what);
        }
    }

    /// A client that sent its request at `sent` got the reply that the lock is held.
    pub(crate) fn called_held(&self, name: &str, sent: Instant) {
        let now = self.world.now();
        let mut book = self.lock();
        let (slack, sent) = (book.slack, sent.saturating_sub(book.lag));
        let Some(lock) = book.locks.get(name) else {
            return;
        };
        let Some(grant) = &lock.grant else { return };
        let free = grant.until.saturating_add(slack);
        if lock.last_change < sent && free < sent {
            let what = format!(
                "{name} was reported as held, but was free since {:?}",
                grant.until
            );
            book.accuse(now, Law::AtMost, what);
        }
    }

    /// When a lock was last acquired.
    pub(crate) fn last_acquired(&self, name: &str) -> Option<Instant> {
        let book = self.lock();
        book.locks.get(name).map(|lock| lock.last_acquired)
    }
}

impl Book {
    /// Why this grant is a violation, if it is one.
    fn wrong_grant(&self, name: &str, grant: &Grant, now: Instant) -> Option<(Law, String)> {
        let lock = self.locks.get(name)?;
        let before = lock.grant.as_ref()?;
        let to = &grant.owner;
        let says = |law, why: String| Some((law, format!("{name} was granted to {to}: {why}")));
        let late = now.saturating_add(self.slack);
        if before.ended.is_none() && late < before.until && before.owner != grant.owner {
            return says(
                Law::Exclusion,
                format!("the lease of {} still runs", before.owner),
            );
        }
        if lock.token.is_some() && grant.token <= lock.token {
            let why = format!("token {:?} after {:?}", grant.token, lock.token);
            return says(Law::Tokens, why);
        }
        let kept = self
            .asked
            .get(&before.owner)
            .map_or(0, |asked| asked.at_least);
        let honours = matches!(before.ended, None | Some(Ending::Unlocked { .. }));
        if honours && before.owner != grant.owner && late < before.counts_from.saturating_add(kept)
        {
            return says(Law::AtLeast, format!("still kept by {}", before.owner));
        }
        self.wrong_slot(name, lock, grant, now)
            .and_then(|(law, why)| says(law, why))
    }

    fn wrong_slot(
        &self,
        name: &str,
        lock: &Lock,
        grant: &Grant,
        now: Instant,
    ) -> Option<(Law, String)> {
        let (slot, last) = (grant.slot?, lock.slots.last?);
        let grid = self.grids.get(name).copied().unwrap_or(i64::MAX);
        let is_strict = self.strict_from.is_some_and(|from| from < now);
        // The last slot may be the instant just before a slot that was given back.
        if is_strict && slot.as_micros() - last.as_micros() > grid.saturating_add(1) {
            return Some((Law::Liveness, format!("{slot} after {last} skips a slot")));
        }
        let most = match self.completion(&grant.owner) {
            Completion::OnSuccess(retries) => Some(retries.get_max_attempts()),
            _ => None,
        };
        let Some(most) = most else {
            return (slot <= last).then(|| (Law::OneRunPerSlot, format!("{slot} after {last}")));
        };
        let is_over = lock.slots.is_done || lock.slots.attempts >= most;
        if slot < last || (slot == last && is_over) {
            return Some((
                Law::OneRunPerSlot,
                format!("{slot} after {last}, which is over"),
            ));
        }
        (slot > last && !is_over).then(|| {
            (
                Law::SlotsInOrder,
                format!("{slot} after {last}, which is open"),
            )
        })
    }

    /// Records the slot; returns how many attempts were made at it if it must not be lost.
    fn take(&mut self, name: &str, grant: &Grant, now: Instant) -> u32 {
        let completion = self.completion(&grant.owner);
        let lock = self.locks.entry(name.to_owned()).or_default();
        let Some(slot) = grant.slot else { return 0 };
        let is_same = lock.slots.last == Some(slot);
        if let Some(retries) = completion.retries()
            && !is_same
            && lock.slots.last.is_some()
            && !lock.slots.is_done
            && lock.slots.attempts >= retries.get_max_attempts()
        {
            self.counts.add(Transition::SlotGivenUp);
            self.note(now, || format!("a slot of {name} was given up"));
        }
        let lock = self.locks.entry(name.to_owned()).or_default();
        lock.slots.attempts = if is_same { lock.slots.attempts + 1 } else { 1 };
        lock.slots.last = Some(slot);
        lock.slots.is_done = false;
        lock.slots.attempts
    }

    fn completion(&self, owner: &str) -> Completion {
        let asked = self.asked.get(owner);
        asked.map_or(Completion::WhenTaken, |asked| asked.completion)
    }

    /// Why this owner cannot change the lock.
    fn not_held_by(
        &self,
        name: &str,
        owner: &str,
        now: Instant,
        includes_expired: bool,
    ) -> Option<String> {
        let Some(grant) = self.locks.get(name).and_then(|lock| lock.grant.as_ref()) else {
            return Some(format!("{owner} never had it"));
        };
        if grant.owner != owner {
            return Some(format!("{owner} changed a lock held by {}", grant.owner));
        }
        // A write that a client judged in time, or that a stopped process sends on resuming, may
        // arrive late: no one has had the lock since.
        let is_late = !(self.writes_late || includes_expired) && grant.until <= now;
        let is_over = grant.ended.is_some() || is_late;
        is_over.then(|| format!("the lease of {owner} was over"))
    }
}
