//! Judges what a store itself did, exactly.
//!
//! If the store writes a log too, on the same clock as its clients, then nothing has to be concluded
//! from their calls: the history shows when each lease began and how it ended. The store of the
//! simulation writes one.

mod ended_owners;
mod grants;
mod slots;
mod tasks;

use std::collections::{BTreeMap, HashMap};

use super::{Event, Findings, Rules, Stored, What, nanos};

/// Judges the store's steps. Returns false if there are none.
pub(super) fn judge(events: &[Event], rules: &Rules, findings: &mut Findings) -> bool {
    let is_stored = |event: &Event| matches!(event.what, What::Stored(_));
    if !events.iter().any(is_stored) {
        return false;
    }
    let mut exact = Exact {
        limits: Limits::of(rules),
        now: 0,
        ahead: 0,
        owners: HashMap::new(),
        locks: BTreeMap::new(),
        disturbed: HashMap::new(),
        findings,
    };
    for event in events {
        exact.see(event);
    }
    exact.judge_end();
    true
}

/// The rules, in nanoseconds.
struct Limits {
    /// The largest difference between clocks that judge.
    skew: u64,
    granularity: u64,
    /// How long a client may be shown an outdated record.
    lag: u64,
    /// Whether clients judge leases and write their verdicts.
    clients_write: bool,
    /// How long after its bound the last withdrawal may be sent, if there is one.
    withdrawal: Option<u64>,
}

impl Limits {
    fn of(rules: &Rules) -> Self {
        Self {
            skew: nanos(rules.skew),
            granularity: nanos(rules.granularity),
            lag: nanos(rules.lag),
            clients_write: !rules.refuses_late,
            withdrawal: rules.withdrawal.map(nanos),
        }
    }
}

struct Exact<'a> {
    limits: Limits,
    now: u64,
    /// How far the store's calendar is ahead of the clock of the history.
    ahead: u64,
    owners: HashMap<&'a str, Asked<'a>>,
    locks: BTreeMap<&'a str, Lock<'a>>,
    /// When each process was last stopped or resumed, or ended.
    disturbed: HashMap<u32, u64>,
    findings: &'a mut Findings,
}

/// A lease as the store has it.
#[derive(Clone, Debug)]
struct Grant<'a> {
    owner: &'a str,
    token: Option<u64>,
    slot: Option<i64>,
    at: u64,
    /// The moment that at-least counts from, according to the record.
    from: u64,
    until: u64,
    ended: Option<Ending>,
    /// Whether a copy of the request made by the network won it, so that no client has this lease.
    is_copy: bool,
}

/// How a lease ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Unlocked,
    Withdrawn,
    Forced,
}

/// What is known of a lock.
#[derive(Default)]
struct Lock<'a> {
    grant: Option<Grant<'a>>,
    token: Option<u64>,
    slots: SlotsSeen,
    /// The owner whose task did something last.
    worker: Option<&'a str>,
    /// When the store last changed it.
    last_change: u64,
    /// When its record was last deleted or reverted to an earlier one.
    reverted: Option<u64>,
}

#[derive(Default)]
struct SlotsSeen {
    last: Option<i64>,
    is_done: bool,
    attempts: u32,
}

/// An attempt with everything that follows from it.
struct Asked<'a> {
    name: &'a str,
    process: u32,
    /// The length of the lease that was asked for, and of the last one that was granted.
    lease: u64,
    at_most: u64,
    at_least: u64,
    /// How often the slot may be run, if it stays open until it is done.
    slot_attempts: Option<u32>,
    /// When it was first sent, when it was last sent, and how long a request may be in flight.
    first_sent: u64,
    last_sent: u64,
    timeout: u64,
    /// Whether the last copy has no reply so far, and until when copies without one may win.
    is_unanswered: bool,
    strays_until: Option<u64>,
    /// The latest end of its lease by its own calculation, and whether an earlier attempt may have
    /// won it.
    over: u64,
    may_have_won: bool,
    has_won: bool,
    /// The earliest end of the store's lease, as the holder was promised.
    told_until: u64,
    /// The extension without a reply so far: when it was sent, and for how long.
    renewal: Option<(u64, u64)>,
    /// When it reported that nothing ran.
    unused: Option<u64>,
    has_started: bool,
    /// Whether its lease has ended in the store, and whether an operator or the store did that.
    has_ended: bool,
    is_forced: bool,
    /// When its client began to unlock.
    unlocked_at: Option<u64>,
    /// When its last withdrawal was sent.
    withdrawn_at: Option<u64>,
    /// Whether a withdrawal after the bound has been sent, and whether it has got its reply.
    is_last_withdrawal_sent: bool,
    is_settled: bool,
    /// Whether another owner's task has done something since.
    is_followed: bool,
}

impl Asked<'_> {
    /// The moment from which a withdrawal is final.
    fn bound(&self) -> u64 {
        self.last_sent.saturating_add(self.timeout)
    }

    /// The last copy gets no reply.
    fn goes_astray(&mut self) {
        if std::mem::take(&mut self.is_unanswered) {
            self.strays_until = self.strays_until.max(Some(self.bound()));
        }
    }
}

impl<'a> Exact<'a> {
    fn see(&mut self, event: &'a Event) {
        self.now = event.at;
        let (name, owner) = (event.name.as_str(), event.owner.as_str());
        match &event.what {
            What::Asked { .. } => self.asks(event),
            What::Skipped { locked, .. } => {
                self.findings.skips += 1;
                if let Some(asked) = self.owners.get_mut(owner) {
                    asked.is_unanswered = false;
                }
                if *locked {
                    self.called_held(name, owner);
                }
            }
            What::Withdrawn => self.withdraws(owner),
            What::Withdrew => self.withdrew(name, owner),
            What::Started => self.starts(owner),
            What::Step => self.works(owner),
            What::ReleaseReported => self.was_released(owner),
            What::StoreClock { shows } => self.ahead = shows.saturating_sub(self.now),
            What::Stopped | What::GoesOn => {
                self.disturbed.insert(event.process, self.now);
            }
            What::Stored(stored) => self.stored(name, owner, stored),
            what => self.answered(owner, what),
        }
    }

    /// Processes what changes only what is known of an owner.
    fn answered(&mut self, owner: &str, what: &What) {
        let (now, ahead) = (self.now, self.ahead);
        let Some(asked) = self.owners.get_mut(owner) else {
            return;
        };
        match what {
            What::Acquired { locked_until, .. } => {
                asked.has_won = true;
                asked.is_unanswered = false;
                let until = locked_until.map_or(0, |until| until.saturating_sub(ahead));
                asked.told_until = asked.told_until.max(until);
            }
            // It won nothing, except through an earlier attempt.
            What::Failed => {
                asked.is_unanswered = false;
                asked.may_have_won &= asked.over != asked.last_sent.saturating_add(asked.at_most);
            }
            What::Unknown => asked.goes_astray(),
            What::RenewAsked { at_most } => asked.renewal = Some((now, *at_most)),
            What::Renewed { locked_until } => {
                if let Some((sent, at_most)) = asked.renewal.take() {
                    asked.at_most = at_most;
                    // The store keeps the later end.
                    asked.over = asked.over.max(sent.saturating_add(at_most));
                }
                let until = locked_until.map_or(0, |until| until.saturating_sub(ahead));
                asked.told_until = asked.told_until.max(until);
            }
            What::RenewLost | What::CallFailed => asked.renewal = None,
            What::SlotGivenBack { unused: true } => asked.unused = Some(now),
            What::ReleaseAsked => {
                asked.unlocked_at = Some(now);
                if asked.unused == Some(now) {
                    asked.at_least = 0;
                }
            }
            _ => {}
        }
    }

    fn asks(&mut self, event: &'a Event) {
        let What::Asked {
            at_most,
            at_least,
            slot_attempts,
            timeout,
            ..
        } = event.what
        else {
            return;
        };
        let over = self.now.saturating_add(at_most);
        if let Some(asked) = self.owners.get_mut(event.owner.as_str()) {
            asked.goes_astray();
            asked.last_sent = self.now;
            asked.is_unanswered = true;
            if !asked.may_have_won {
                asked.over = over;
                asked.may_have_won = true;
            }
            return;
        }
        let asked = Asked {
            name: &event.name,
            process: event.process,
            lease: at_most,
            at_most,
            at_least,
            slot_attempts,
            first_sent: self.now,
            last_sent: self.now,
            timeout,
            is_unanswered: true,
            strays_until: None,
            over,
            may_have_won: true,
            has_won: false,
            told_until: 0,
            renewal: None,
            unused: None,
            has_started: false,
            has_ended: false,
            is_forced: false,
            unlocked_at: None,
            withdrawn_at: None,
            is_last_withdrawal_sent: false,
            is_settled: false,
            is_followed: false,
        };
        self.owners.insert(&event.owner, asked);
    }

    /// A client got the reply that the lock is held.
    fn called_held(&mut self, name: &str, owner: &str) {
        let Some(sent) = self.owners.get(owner).map(|asked| asked.last_sent) else {
            return;
        };
        let sent = sent.saturating_sub(self.limits.lag);
        let Some(lock) = self.locks.get(name) else {
            return;
        };
        let Some(grant) = &lock.grant else { return };
        let free = grant.until.saturating_add(self.limits.skew);
        if lock.last_change < sent && free < sent {
            let what = format!(
                "{name} was reported as held at {} ns, but was free since {} ns",
                self.now, grant.until
            );
            self.findings.violated("taken for too long", &what);
        }
    }

    fn stored(&mut self, name: &'a str, owner: &'a str, stored: &Stored) {
        match stored {
            Stored::Granted {
                token,
                slot,
                from,
                until,
                is_copy,
            } => {
                let grant = Grant {
                    owner,
                    token: *token,
                    slot: *slot,
                    at: self.now,
                    from: *from,
                    until: *until,
                    ended: None,
                    is_copy: *is_copy,
                };
                self.granted(name, grant);
            }
            Stored::Extended { until } => self.extended(name, owner, *until),
            Stored::Ended {
                is_withdrawn,
                is_done,
                free,
            } => self.ended(name, owner, *is_withdrawn, *is_done, *free),
            Stored::Slots { last, attempts } => self.left_slots(name, owner, *last, *attempts),
            Stored::Freed => self.forced(name),
            Stored::Reverted(earlier) => self.reverts(name, owner, earlier.as_ref()),
            Stored::Holds { until } => self.compare(name, owner, *until),
        }
    }
}
