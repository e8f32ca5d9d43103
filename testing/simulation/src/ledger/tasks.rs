//! What tasks did.

use shedlock_proof::history::What;

use super::{Book, Ledger};
use crate::Law;
use crate::transition::Transition;
use crate::world::Instant;

/// A running task, as the ledger sees it.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    ledger: Ledger,
    owner: String,
}

impl Ledger {
    /// A task starts under the lock of this owner.
    pub(crate) fn starts(&self, owner: &str) -> Running {
        let now = self.world.now();
        let mut book = self.lock();
        let node = book.asked.get(owner).map(|asked| asked.node);
        book.records(now, node, "", owner, What::Started);
        let twice = book
            .asked
            .get_mut(owner)
            .is_some_and(|asked| std::mem::replace(&mut asked.has_started, true));
        if twice {
            book.accuse(now, Law::OneRunPerSlot, format!("{owner} ran twice"));
        }
        drop(book);
        let running = Running {
            ledger: self.clone(),
            owner: owner.to_owned(),
        };
        running.does_something();
        running
    }

    /// A client got the reply that its lock was given back.
    pub(crate) fn was_released(&self, owner: &str) {
        let now = self.world.now();
        let mut book = self.lock();
        let node = book.asked.get(owner).map(|asked| asked.node);
        book.records(now, node, "", owner, What::ReleaseReported);
        let held = book.asked.get(owner).is_some_and(|asked| !asked.has_ended);
        if held {
            let what = format!("{owner} was reported as unlocked, but its lease had not ended");
            book.accuse(now, Law::Release, what);
        }
    }

    /// Whether a node holds a lock whose lease has not ended.
    pub(crate) fn holds(&self, node: usize) -> bool {
        let now = self.world.now();
        let book = self.lock();
        book.held_by(node, now)
    }

    /// Whether all leases of a node expired while it was stopped.
    pub(crate) fn ran_out(&self, node: usize, since: Instant) -> bool {
        let now = self.world.now();
        let book = self.lock();
        book.held_by(node, since) && !book.held_by(node, now)
    }
}

impl Book {
    fn held_by(&self, node: usize, at: Instant) -> bool {
        self.locks
            .values()
            .filter_map(|lock| lock.grant.as_ref())
            .any(|grant| {
                let asked = self.asked.get(&grant.owner);
                let is_here = asked.is_some_and(|asked| asked.node == node);
                is_here && grant.ended.is_none() && grant.until > at && grant.at <= at
            })
    }

    fn wrong_work(&self, owner: &str, now: Instant) -> Option<(Law, String)> {
        let asked = self.asked.get(owner)?;
        let name = &asked.name;
        if asked.is_followed {
            let why = format!("{owner} continues with {name} after another owner began");
            return Some((Law::Exclusion, why));
        }
        if now > asked.over {
            return Some((
                Law::Deadline,
                format!("{owner} continues with {name} past its lease"),
            ));
        }
        asked.has_ended.then(|| {
            (
                Law::Deadline,
                format!("{owner} continues with {name} after its unlock"),
            )
        })
    }
}

impl Running {
    /// The task does something that only the holder of the lock may do.
    pub(crate) fn works(&self) {
        let mut book = self.ledger.lock();
        let (node, now) = (book.asked.get(&self.owner), self.ledger.world.now());
        let node = node.map(|asked| asked.node);
        book.records(now, node, "", &self.owner, What::Step);
        drop(book);
        self.does_something();
    }

    fn does_something(&self) {
        let now = self.ledger.world.now();
        let mut book = self.ledger.lock();
        let book = &mut *book;
        let Some(asked) = book.asked.get(&self.owner) else {
            return;
        };
        if asked.is_forced {
            return;
        }
        let name = asked.name.clone();
        if let Some((law, what)) = book.wrong_work(&self.owner, now) {
            book.accuse(now, law, what);
        }
        book.note(now, || format!("{} works on {name}", self.owner));
        let lock = book.locks.entry(name).or_default();
        if lock.worker.as_deref() == Some(self.owner.as_str()) {
            return;
        }
        if let Some(before) = lock.worker.replace(self.owner.clone())
            && let Some(before) = book.asked.get_mut(&before)
        {
            before.is_followed = true;
        }
    }

    /// The task continues although it has been notified that its lease is lost.
    pub(crate) fn goes_on(&self) {
        self.ledger.count(Transition::TaskWentOn);
    }
}
