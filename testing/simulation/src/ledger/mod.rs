//! Records what truly happened, and checks whether it was right.

mod ended_owners;
mod grants;
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{AttemptRequest, Completion, Slot};
use shedlock_proof::history::{Event as HistoryEvent, Stored, What};

use crate::Law;
use crate::transition::{Counts, Transition};
use crate::workload::{Family, Plan};
use crate::world::{Instant, World, nanos};

pub(crate) use grants::{Ending, Grant};
pub(crate) use tasks::Running;

/// Has the true time, and is notified by the store and the clients. Clones share one ledger.
#[derive(Clone)]
pub(crate) struct Ledger {
    world: World,
    book: Arc<Mutex<Book>>,
}

struct Book {
    counts: Counts,
    /// What happened, for the judge of histories.
    history: Vec<HistoryEvent>,
    broken: Option<Broken>,
    /// What happened, if a trace is requested.
    trace: Option<Vec<String>>,
    locks: BTreeMap<String, Lock>,
    asked: HashMap<String, Asked>,
    /// Twice the largest error of the clocks that judge.
    slack: u64,
    /// How long a client may be shown an outdated state.
    lag: u64,
    /// The time from slot to slot, in microseconds, of jobs that must not skip a slot after
    /// `strict_from`.
    grids: BTreeMap<String, i64>,
    strict_from: Option<Instant>,
    /// Whether clients judge leases and write their verdicts.
    writes_late: bool,
    /// When each node was last stopped, or its process ended.
    disturbed: BTreeMap<usize, Instant>,
    /// How long after its bound the last withdrawal may be sent.
    withdrawal: u64,
    /// Whether the message that arrives at the store is a copy made by the network.
    is_double: bool,
    /// Whether clients withdraw what they may have won.
    withdraws: bool,
}

/// A broken law, and how it was broken.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) law: Law,
    pub(crate) what: String,
}

/// What is known of a lock.
#[derive(Default)]
struct Lock {
    grant: Option<Grant>,
    token: Option<u64>,
    slots: SlotsSeen,
    /// The owner whose task did something last.
    worker: Option<String>,
    acquisitions: u64,
    last_acquired: Instant,
    /// When the store last changed it.
    last_change: Instant,
    /// When its record was last deleted or reverted to an earlier one.
    disturbed: Instant,
}

#[derive(Default)]
struct SlotsSeen {
    last: Option<Slot>,
    is_done: bool,
    attempts: u32,
}

/// A request of a client.
struct Asked {
    node: usize,
    name: String,
    at_most: u64,
    at_least: u64,
    completion: Completion,
    /// The latest end of its lease, and whether an earlier attempt may have won it.
    over: Instant,
    /// The earliest end of the store's lease, as the holder was promised.
    told_until: Instant,
    may_have_won: bool,
    has_started: bool,
    has_ended: bool,
    is_forced: bool,
    /// Whether its client has begun to unlock, or to withdraw what it may have won.
    is_unlocked: bool,
    is_withdrawn: bool,
    /// When it was first sent, when it was last sent, and how long a request may be in flight.
    first_sent: Instant,
    last_sent: Instant,
    timeout: u64,
    has_won: bool,
    unlocked_at: Instant,
    /// Whether a withdrawal after the bound has been sent, and whether it has got its reply.
    is_last_withdrawal_sent: bool,
    is_settled: bool,
    /// Whether another owner's task has done something since.
    is_followed: bool,
}

impl Ledger {
    pub(crate) fn new(world: &World, plan: &Plan, is_traced: bool) -> Self {
        let book = Book {
            counts: Counts::default(),
            history: Vec::new(),
            broken: None,
            trace: is_traced.then(Vec::new),
            locks: BTreeMap::new(),
            asked: HashMap::new(),
            slack: nanos(plan.slack()),
            lag: nanos(plan.lag()),
            grids: plan.grids(),
            strict_from: None,
            writes_late: matches!(plan.family, Family::Versioned(_)),
            disturbed: BTreeMap::new(),
            withdrawal: nanos(plan.withdrawal()),
            is_double: false,
            withdraws: plan.withdraws(),
        };
        Self {
            world: world.clone(),
            book: Arc::new(Mutex::new(book)),
        }
    }

    /// All faults are repaired; from `strict_from` on no slot may be skipped.
    pub(crate) fn heals(&self, strict_from: Instant) {
        self.lock().strict_from = Some(strict_from);
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.lock().strict_from.is_some()
    }

    pub(crate) fn count(&self, transition: Transition) {
        self.lock().counts.add(transition);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    pub(crate) fn acquisitions(&self) -> u64 {
        self.lock()
            .locks
            .values()
            .map(|lock| lock.acquisitions)
            .sum()
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone().unwrap_or_default()
    }

    /// The history so far.
    pub(crate) fn history(&self) -> Vec<HistoryEvent> {
        self.lock().history.clone()
    }

    /// Records an event of a process, or of the store if there is no process.
    pub(crate) fn records(&self, node: Option<usize>, name: &str, owner: &str, what: What) {
        let now = self.world.now();
        self.lock().records(now, node, name, owner, what);
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        let now = self.world.now();
        self.lock().note(now, what);
    }

    /// Records a broken law; the first one counts.
    pub(crate) fn accuse(&self, law: Law, what: impl Into<String>) {
        let now = self.world.now();
        self.lock().accuse(now, law, what.into());
    }

    /// A client attempts a lock, or repeats an attempt.
    pub(crate) fn asks(&self, node: usize, request: &AttemptRequest) {
        let now = self.world.now();
        let mut book = self.lock();
        let at_most = nanos(request.lock_at_most_for());
        let owner = request.owner().as_str();
        let is_again = match book.asked.get_mut(owner) {
            Some(asked) => {
                asked.last_sent = now;
                if !asked.may_have_won {
                    asked.over = now.saturating_add(at_most);
                    asked.may_have_won = true;
                }
                true
            }
            None => {
                let asked = Asked {
                    node,
                    name: request.name().to_string(),
                    at_most,
                    at_least: nanos(request.lock_at_least_for()),
                    completion: request.completion(),
                    over: now.saturating_add(at_most),
                    told_until: 0,
                    may_have_won: true,
                    has_started: false,
                    has_ended: false,
                    is_forced: false,
                    is_unlocked: false,
                    is_withdrawn: false,
                    first_sent: now,
                    last_sent: now,
                    timeout: nanos(request.timeout()),
                    has_won: false,
                    unlocked_at: 0,
                    is_last_withdrawal_sent: false,
                    is_settled: false,
                    is_followed: false,
                };
                book.asked.insert(owner.to_owned(), asked);
                false
            }
        };
        book.counts.add(if is_again {
            Transition::AskedAgain
        } else {
            Transition::Asked
        });
        book.note(now, || {
            let slot = request.slot();
            format!(
                "node {node} asks for {} as {owner} {slot:?}",
                request.name()
            )
        });
    }

    /// A client that sent its request at `sent` got the reply that nothing was done. So it won
    /// nothing, except through an earlier attempt.
    pub(crate) fn was_refused(&self, owner: &str, sent: Instant) {
        if let Some(asked) = self.lock().asked.get_mut(owner) {
            asked.may_have_won &= asked.over != sent.saturating_add(asked.at_most);
        }
    }

    /// A client got the reply that its lease is extended; it had sent the request at `sent`.
    pub(crate) fn extends_until(
        &self,
        owner: &str,
        sent: Instant,
        at_most: Duration,
        until: Instant,
    ) {
        if let Some(asked) = self.lock().asked.get_mut(owner) {
            asked.at_most = nanos(at_most);
            // The store keeps the later end.
            asked.over = asked.over.max(sent.saturating_add(asked.at_most));
            asked.told_until = asked.told_until.max(until);
        }
    }

    /// A client gets the reply that it has won.
    pub(crate) fn wins(&self, owner: &str, until: Instant) {
        let now = self.world.now();
        let mut book = self.lock();
        let book = &mut *book;
        let Some(asked) = book.asked.get_mut(owner) else {
            return;
        };
        asked.has_won = true;
        asked.told_until = asked.told_until.max(until);
        if asked.over <= now {
            book.counts.add(Transition::CameTooLate);
        }
    }

    /// A client ends its lease and requests that the lock be kept this long.
    pub(crate) fn unlocks(&self, owner: &str, at_least: Duration) {
        let now = self.world.now();
        if let Some(asked) = self.lock().asked.get_mut(owner) {
            asked.is_unlocked = true;
            asked.unlocked_at = now;
            asked.at_least = nanos(at_least);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn records(&mut self, at: Instant, node: Option<usize>, name: &str, owner: &str, what: What) {
        let process = node.and_then(|node| u32::try_from(node + 1).ok());
        self.history.push(HistoryEvent {
            at,
            process: process.unwrap_or(0),
            name: name.to_owned(),
            owner: owner.to_owned(),
            what,
        });
    }

    fn stored(&mut self, at: Instant, name: &str, owner: &str, stored: Stored) {
        self.records(at, None, name, owner, What::Stored(stored));
    }

    fn note(&mut self, now: Instant, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let at = Duration::from_nanos(now);
            trace.push(format!("{at:>18.6?}  {}", what()));
        }
    }

    fn accuse(&mut self, now: Instant, law: Law, what: String) {
        self.note(now, || format!("{law:?}: {what}"));
        self.broken.get_or_insert(Broken { law, what });
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ledger")
    }
}
