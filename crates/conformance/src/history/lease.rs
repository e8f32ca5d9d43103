//! The life of one owner, as its log tells it.

use super::{Event, Rules, What, nanos};

/// What a store that is killed may lose, in nanoseconds: PostgreSQL 0.6 s; and as long again until it
/// is dead.
const LAST_MOMENTS: u64 = 2_000_000_000;

/// What one attempt came to. Moments in nanoseconds of the local clock.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) process: u32,
    pub(super) name: String,
    pub(super) owner: String,
    /// The host that ShedLock writes as owner, where it is one of ShedLock's.
    pub(super) host: Option<String>,
    /// When the attempt was first sent: it holds nothing before.
    pub(super) asked: u64,
    /// When it was known to be granted.
    pub(super) acquired: Option<u64>,
    pub(super) at_least: u64,
    pub(super) slot: Option<i64>,
    /// How often the slot may be run, where it stays open until it is done.
    pub(super) slot_attempts: Option<u32>,
    /// When the unlock was asked, and when it was answered, that says that the slot is done.
    pub(super) slot_done: Option<(u64, Option<u64>)>,
    pub(super) token: Option<u64>,
    /// The store's times; the end only while no unanswered extension makes it uncertain.
    pub(super) store_from: Option<u64>,
    pub(super) store_until: Option<u64>,
    /// The earliest moment at which it can have ended.
    pub(super) certain_until: u64,
    /// The latest moment at which it can still hold; `None` where it cannot hold anything.
    pub(super) possible_until: Option<u64>,
    /// Whether it ended, or may have ended, by an unlock.
    pub(super) release_asked: Option<u64>,
    /// When its unlock was answered, and when the lease would have ended at the latest without it.
    pub(super) released: Option<(u64, Option<u64>)>,
    /// Whether nobody waited for it: it may have ended by then, at-least or not.
    pub(super) withdrawn: bool,
    /// What its task did when it should have been stopped: when, and when it should have been.
    pub(super) late_steps: Vec<(u64, u64)>,
    /// What is wrong with this life by itself: the law, and the evidence.
    pub(super) broken: Vec<(&'static str, String)>,
    granularity: u64,
    flight: u64,
    drift: u64,
    at_most: u64,
    last_asked: u64,
    renewal: Option<Renewal>,
    /// Until when its task may run.
    runs_until: u64,
    /// How often an unlock was asked for, and when the lease was over at the latest as the first was.
    releases: u32,
    over_at_release: Option<u64>,
    /// Until when a request may hold the lock that nobody has an answer to, whatever the same
    /// attempt is told when it is asked again: it may come late.
    adrift: Option<u64>,
}

/// An extension that was asked for.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    asked: u64,
    at_most: u64,
    /// When the lease that it is to extend ended at the latest.
    over: Option<u64>,
}

impl Life {
    pub(super) fn new(event: &Event, rules: &Rules) -> Option<Self> {
        let What::Asked {
            at_most,
            at_least,
            slot,
            slot_attempts,
            ref host,
        } = event.what
        else {
            return None;
        };
        let granularity = nanos(rules.granularity + rules.skew);
        let flight = nanos(rules.flight);
        Some(Self {
            process: event.process,
            name: event.name.clone(),
            owner: event.owner.clone(),
            host: host.clone(),
            asked: event.at,
            acquired: None,
            at_least,
            slot,
            slot_attempts,
            slot_done: None,
            token: None,
            store_from: None,
            store_until: None,
            certain_until: event.at.saturating_add(at_most),
            possible_until: Some(event.at.saturating_add(flight + at_most + granularity)),
            release_asked: None,
            released: None,
            withdrawn: false,
            late_steps: Vec::new(),
            broken: Vec::new(),
            granularity,
            flight,
            drift: nanos(rules.drift),
            at_most,
            last_asked: event.at,
            renewal: None,
            runs_until: event.at.saturating_add(at_most),
            releases: 0,
            over_at_release: None,
            adrift: None,
        })
    }

    /// What this owner's log says next.
    pub(super) fn see(&mut self, event: &Event) {
        let at = event.at;
        match &event.what {
            What::Asked { at_most, .. } => {
                // The same attempt again, since an answer was lost.
                self.last_asked = at;
                self.possible_until = Some(at + self.flight + at_most + self.granularity);
            }
            What::Acquired {
                token,
                acquired_at,
                locked_until,
            } => {
                self.acquired = Some(at);
                self.token = *token;
                self.store_from = *acquired_at;
                self.store_until = *locked_until;
                let until = Some(at + self.at_most + self.granularity);
                self.possible_until = until.max(self.adrift);
            }
            // By then it may have been granted, its answer lost, the lease over, and what it was told
            // in the end what the store said when it looked again.
            What::Skipped { .. } if at >= self.last_asked.saturating_add(self.at_most) => {}
            What::Skipped { .. } | What::Failed => self.possible_until = self.adrift,
            What::Unknown => self.adrift = self.possible_until,
            What::Withdrawn => {
                self.withdrawn = true;
                self.release_asked.get_or_insert(at);
            }
            What::RenewAsked { at_most } => self.renew(at, *at_most),
            What::Renewed { locked_until } => self.renewed(at, *locked_until),
            What::RenewLost => self.lost(at, "an extension"),
            What::Step => self.step(at),
            What::SlotDone => self.slot_done = Some((at, None)),
            What::ReleaseAsked => {
                self.release_asked.get_or_insert(at);
                self.runs_until = self.runs_until.min(at);
                self.releases += 1;
                if self.releases == 1 {
                    self.over_at_release = self.possible_until;
                }
            }
            What::Released => self.released(at),
            What::ReleaseLost => self.lost(at, "an unlock"),
            What::CallFailed => self.call_failed(),
            What::WallClock { .. } | What::Stopped | What::GoesOn | What::StoreKilled => {}
        }
    }

    /// The last moment at which nobody else can have held the lock.
    pub(super) fn excludes_until(&self) -> u64 {
        match self.release_asked {
            Some(asked) => asked.min(self.certain_until),
            None => self.certain_until,
        }
    }

    /// The store was killed then. It may answer an unlock before its disk has it, and lose what it did
    /// in its last moments: the lease runs to its end.
    pub(super) fn store_killed(&mut self, at: u64) {
        if let Some((released, until)) = self.released
            && released.abs_diff(at) <= LAST_MOMENTS
        {
            self.possible_until = self.possible_until.max(until);
        }
    }

    /// Whether it can have won: it was granted, or nobody knows.
    pub(super) fn may_have_won(&self) -> bool {
        self.acquired.is_some() || self.possible_until.is_some()
    }

    /// Another's request may end it at any time, and at-least with it.
    pub(super) fn is_at_the_mercy_of_another(&mut self) {
        self.certain_until = self.certain_until.min(self.asked);
        self.withdrawn = true;
        // Whatever it lost, it may have lost to that one.
        self.broken.clear();
    }

    fn renew(&mut self, asked: u64, at_most: u64) {
        self.renewal = Some(Renewal {
            asked,
            at_most,
            over: self.possible_until,
        });
        self.store_until = None;
        let ends = asked.saturating_add(at_most);
        self.certain_until = self.certain_until.min(ends);
        self.runs_until = self.runs_until.min(ends);
        let later = asked + self.flight + at_most + self.granularity;
        self.possible_until = Some(self.possible_until.map_or(later, |known| known.max(later)));
    }

    fn renewed(&mut self, at: u64, locked_until: Option<u64>) {
        if let Some(renewal) = self.renewal.take() {
            if let Some(over) = renewal.over
                && self.host.is_none()
                && renewal.asked > over.saturating_add(self.drift)
            {
                self.broken.push((
                    "revived",
                    format!(
                        "an extension of {} at {} worked that was asked for at {} ns, though its \
                         lease was over at {over} ns",
                        self.owner, self.name, renewal.asked
                    ),
                ));
            }
            self.certain_until = renewal.asked.saturating_add(renewal.at_most);
            self.runs_until = self.certain_until;
            let until = Some(at + renewal.at_most + self.granularity);
            self.possible_until = until.max(self.adrift);
        }
        self.store_until = locked_until;
    }

    fn released(&mut self, at: u64) {
        if let (Some(asked), Some(over)) = (self.release_asked, self.over_at_release)
            && self.releases == 1
            && self.host.is_none()
            && asked > over.saturating_add(self.drift)
        {
            self.broken.push((
                "unlocked too late",
                format!(
                    "an unlock of {} at {} worked that was asked for at {asked} ns, though its \
                     lease was over at {over} ns",
                    self.owner, self.name
                ),
            ));
        }
        if let Some((_, answered)) = &mut self.slot_done {
            answered.get_or_insert(at);
        }
        self.released.get_or_insert((at, self.possible_until));
        let kept = self.acquired.map_or(0, |from| from + self.at_least);
        self.possible_until = Some(at.max(kept + self.granularity)).max(self.adrift);
    }

    /// ShedLock's extension may come after its unlock and find the record kept.
    fn call_failed(&mut self) {
        if self.host.is_some() && self.renewal.take().is_some() {
            self.adrift = self.adrift.max(self.possible_until);
        }
    }

    fn lost(&mut self, at: u64, call: &'static str) {
        // An unlock whose answer was lost may have worked, and somebody else may hold the lock.
        let unlocked_before = self.releases > 1;
        // A store that cuts its times ends the lease by that much before we do.
        if at.saturating_add(self.drift) < self.certain_until && !unlocked_before && !self.withdrawn
        {
            self.broken.push((
                "lost ownership",
                format!(
                    "{call} of {} at {} was answered with \"lost\" while its lease ran for certain",
                    self.owner, self.name
                ),
            ));
        }
        self.certain_until = self.certain_until.min(at);
    }

    fn step(&mut self, at: u64) {
        if at > self.runs_until {
            self.late_steps.push((at, self.runs_until));
        }
    }
}
