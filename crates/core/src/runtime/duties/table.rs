//! The leases that the thread looks after, and the calls that it makes for runtimes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::super::Held;
use super::errand::{Errand, Sending, Sent};
use super::extension::Extension;
use super::second::{Second, Seconds};
use crate::clock::{Deadline, Reading};
use crate::contract::{Error, ExtendRequest, LastFailure, LostReason};
use crate::runtime::narrator::DutyEvent;
use shedlock_support::Backoff;

/// The longest time between two looks, so that a jump of the wall clock is noticed within it.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How late a runtime that is only busy may stop a task.
const GRACE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    errands: BTreeMap<u64, (Errand, Arc<Second>)>,
    registered: u64,
    /// When the thread looks next by itself; `None` if it waits to be woken.
    next_look: Option<Deadline>,
    is_stopped: bool,
}

/// What is due.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) extensions: Vec<(Ticket, Extension)>,
    pub(super) errands: Vec<(u64, Sending)>,
    /// How long the thread sleeps unless it is woken.
    pub(super) sleep: Option<Duration>,
}

/// A lease, and what the thread knows of it.
#[derive(Debug)]
pub(super) struct Entry {
    held: Weak<Held>,
    number: u64,
    /// When there is something to do.
    due: Deadline,
    /// How long after its end a lease counts as not noticed.
    grace: Duration,
    is_logged: bool,
    keep_alive: Option<KeptAlive>,
}

#[derive(Debug)]
struct KeptAlive {
    runtime: Handle,
    request: ExtendRequest,
    usable: Duration,
    is_extending: bool,
    retry_at: Option<Deadline>,
    backoff: Backoff,
    last_failure: LastFailure,
}

impl Entry {
    pub(super) fn new(held: &Arc<Held>, keep_alive: Option<&Handle>) -> Self {
        let lock_at_most_for = held.state().of_lease(crate::Lease::lock_at_most_for);
        let context = held.context();
        let grace = context.margin(lock_at_most_for).max(GRACE);
        let keep_alive = keep_alive.map(|runtime| {
            let usable = context.usable(lock_at_most_for);
            KeptAlive {
                runtime: runtime.clone(),
                request: ExtendRequest::new(lock_at_most_for),
                usable,
                is_extending: false,
                retry_at: None,
                backoff: Backoff::new(usable / 60, usable / 12),
                last_failure: LastFailure::default(),
            }
        });
        let deadline = held.state().deadline();
        let due = keep_alive
            .as_ref()
            .map_or(deadline.later_by(grace), |kept| {
                deadline.earlier_by(kept.patience())
            });
        Self {
            held: Arc::downgrade(held),
            number: 0,
            due,
            grace,
            is_logged: false,
            keep_alive,
        }
    }

    /// Does what is due and can be done at once, and sets when there is more to do, if there is.
    /// Returns an extension that is due.
    fn look(&mut self, now: Reading, seconds: &Seconds) -> (Option<Deadline>, Option<Extension>) {
        let Some(held) = self.held.upgrade() else {
            return (None, None);
        };
        let state = held.state();
        if state.is_released() || state.found_lost().is_some() {
            return (None, None);
        }
        let stop_at = state.stop_at();
        let unnoticed = stop_at.later_by(self.grace);
        if stop_at.has_passed(now) {
            if unnoticed.has_passed(now) {
                if !std::mem::replace(&mut self.is_logged, true) {
                    let is_over = state.deadline().has_passed(now);
                    held.log_duty(DutyEvent::NotStopped(is_over));
                }
                return (None, None);
            }
            return (Some(unnoticed), None);
        }
        self.is_logged = false;
        let Some(kept) = self.keep_alive.as_mut().filter(|kept| !kept.is_extending) else {
            return (Some(unnoticed), None);
        };
        let late = state.deadline().earlier_by(kept.patience());
        let due = kept
            .retry_at
            .map_or(late, |retry| late.unless_earlier(retry));
        if !due.has_passed(now) {
            return (Some(unnoticed.or(due)), None);
        }
        let Some(second) = seconds.of(&held.context().provider) else {
            return (Some(unnoticed), None);
        };
        kept.is_extending = true;
        let limit = (kept.usable / 6).min(held.context().store_timeout);
        let extension = Extension::new(second, held.lease(), kept.request.clone(), limit);
        (Some(unnoticed), Some(extension))
    }
}

impl KeptAlive {
    /// How much of the lease is left when the thread extends it: the keep-alive on the task's own
    /// runtime extends it earlier by a sixth, so it had that long for a reply.
    fn patience(&self) -> Duration {
        self.usable / 2
    }
}

/// Which entry an extension is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    key: usize,
    number: u64,
}

impl Table {
    /// Returns the key of the new entry, and whether the thread must be woken for it.
    pub(super) fn insert(&mut self, mut entry: Entry) -> (usize, bool) {
        self.registered += 1;
        entry.number = self.registered;
        let wakes = self.wakes(entry.due);
        let key = self.free.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(key) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        (key, wakes)
    }

    pub(super) fn remove(&mut self, key: usize) -> Option<Entry> {
        let removed = self.entries.get_mut(key)?.take();
        self.free.push(key);
        removed
    }

    /// Returns the key of the new errand, and whether the thread must be woken for it.
    pub(super) fn hand_over(
        &mut self,
        errand: Errand,
        second: Arc<Second>,
        now: Reading,
    ) -> (u64, bool) {
        self.registered += 1;
        let left = errand.left(now.moment()).unwrap_or_default();
        self.errands.insert(self.registered, (errand, second));
        (self.registered, self.wakes(now.deadline(left)))
    }

    pub(super) fn forget(&mut self, key: u64) -> Option<(Errand, Arc<Second>)> {
        self.errands.remove(&key)
    }

    /// Returns whether there is such an errand.
    pub(super) fn hurry(&mut self, key: u64) -> bool {
        let errand = self.errands.get_mut(&key);
        errand.map(|(errand, _)| errand.hurry()).is_some()
    }

    /// No executor and no lease is left.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// There is nothing to do, and there never will be.
    pub(super) fn is_over(&self) -> bool {
        self.is_stopped && self.errands.is_empty()
    }

    /// Whether the thread must be woken to look at this moment.
    fn wakes(&mut self, due: Deadline) -> bool {
        let wakes = self.next_look.is_none_or(|next| due.is_before(next));
        if wakes {
            self.next_look = Some(due);
        }
        wakes
    }

    /// Looks at every lease and errand.
    pub(super) fn look(&mut self, now: Reading, seconds: &Seconds) -> Due {
        let mut due = Due::default();
        let mut is_empty = seconds.close_unused(now.moment());
        let mut next = now.deadline(LONGEST_WAIT);
        for (key, entry) in self.entries.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            is_empty = false;
            let (at, extension) = entry.look(now, seconds);
            let number = entry.number;
            let extension = extension.map(|extension| (Ticket { key, number }, extension));
            due.extensions.extend(extension);
            next = at.map_or(next, |at| next.or(at));
        }
        for (key, (errand, second)) in &mut self.errands {
            is_empty = false;
            match errand.left(now.moment()) {
                Some(left) if left.is_zero() => {
                    let sending = errand.send(second);
                    due.errands.extend(sending.map(|sending| (*key, sending)));
                }
                left => next = left.map_or(next, |left| next.or(now.deadline(left))),
            }
        }
        self.next_look = (!is_empty).then_some(next);
        due.sleep = self.next_look.map(|next| next.left(now));
        due
    }

    /// Applies the reply to a call of an errand, unless that was done in the meantime. Returns an errand that is over, to
    /// be dropped outside the mutex.
    pub(super) fn sent(
        &mut self,
        key: u64,
        now: Reading,
        answer: Result<Sent, Error>,
    ) -> Option<(Errand, Arc<Second>)> {
        let (errand, _) = self.errands.get_mut(&key)?;
        let is_over = errand.is_over(now.moment(), answer);
        is_over.then(|| self.forget(key))?
    }

    /// Applies the outcome of an extension, unless its task has ended in the meantime.
    pub(super) fn extended(
        &mut self,
        ticket: Ticket,
        sent: Reading,
        now: Reading,
        answer: Result<crate::Extension, Error>,
    ) {
        let entry = self.entries.get_mut(ticket.key).and_then(Option::as_mut);
        let Some(entry) = entry.filter(|entry| entry.number == ticket.number) else {
            return;
        };
        let (Some(held), Some(kept)) = (entry.held.upgrade(), &mut entry.keep_alive) else {
            return;
        };
        kept.is_extending = false;
        if held.state().is_released() {
            return;
        }
        match answer {
            Ok(crate::Extension::Extended(lease)) => {
                (kept.retry_at, kept.last_failure) = (None, LastFailure::default());
                kept.backoff.reset();
                held.extended_by_duty(lease, sent.deadline(kept.usable), &kept.runtime);
            }
            Ok(crate::Extension::Lost) => {
                held.lost_by_duty(LostReason::NotHeldInStore, &kept.runtime);
            }
            Err(error) => {
                // What a person must change is not asked for often.
                let pause = match error.is_retryable() {
                    true => kept.backoff.take(),
                    false => kept.usable / 6,
                };
                kept.retry_at = Some(now.deadline(pause));
                if kept.last_failure.is_news(&error) {
                    held.log_duty(DutyEvent::ExtendFailed(&error));
                }
            }
        }
    }
}
